//! Sentences in lines that fit the terminal, each as far to the right as the first.

use super::{table, terminal};

/// Returns a sentence wrapped for the terminal, or one line without a terminal, with a newline at the end.
pub fn shown(text: &str, indent: usize) -> String {
    within(text, indent, terminal::columns())
}

/// A sentence in lines of at most `columns`, where that is wide enough for anything.
pub fn within(text: &str, indent: usize, columns: Option<usize>) -> String {
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent).max(10));
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace().flat_map(|word| table::pieces(word, room)) {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push_str(&format!("{:indent$}{line}\n", ""));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines + &format!("{:indent$}{line}\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fill_lines_and_stay_whole() {
        let text = "a sentence of some words, none of them long";
        assert_eq!(within(text, 2, None), format!("  {text}\n"));
        assert_eq!(within(text, 2, Some(20)), "  a sentence of some\n  words, none of\n  them long\n");
        let long = format!("{text} {}", "1234567,".repeat(9));
        for columns in [12, 20, 40, 80] {
            let lines = within(&long, 2, Some(columns));
            assert!(lines.lines().all(|line| line.starts_with("  ") && line.chars().count() <= columns));
        }
    }
}
