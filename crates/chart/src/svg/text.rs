//! Text in a picture: how wide it is about, so that it stays inside, and how it is shortened. It measures no font: which
//! one a reader has is not known here.

use std::fmt::Write;

use crate::markup::escaped;

/// Sizes in pixels of a picture that is not scaled. On a screen of 400 pixels a page shows them a quarter smaller.
pub(super) const TICK_SIZE: f64 = 12.0;
pub(super) const LABEL_SIZE: f64 = 12.5;
pub(super) const TITLE_SIZE: f64 = 16.0;

/// Adds a text: `anchor` is which end of it is at `x`, `y` its base line.
pub fn push(svg: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escaped(text);
    let _ =
        writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#);
}

/// About how wide a text is, in pixels: as in DejaVu Sans, which is wider than most.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).sum::<f64>() * size
}

fn letter_width(letter: char) -> f64 {
    match letter {
        ' ' | 'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '-' | '/' | '[' | ']' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' | '…' => 0.98,
        letter if letter.is_ascii_uppercase() => 0.72,
        letter if letter.is_ascii() || letter == 'µ' || letter == '×' => 0.63,
        letter if u32::from(letter) < 0x2e80 => 0.72,
        // Letters of scripts that are written in squares.
        _ => 1.05,
    }
}

/// The text, or as much of its beginning as fits, with an ellipsis.
pub fn shortened(text: &str, size: f64, width_max: f64) -> String {
    if width(text, size) <= width_max {
        return text.to_owned();
    }
    let mut room = width_max - letter_width('…') * size;
    let fits = |letter: &char| {
        room -= letter_width(*letter) * size;
        room >= 0.0
    };
    let short: String = text.chars().take_while(fits).collect();
    short.trim_end().to_owned() + "…"
}

/// The text in lines that fit, broken at spaces. A word that is too long is shortened.
pub fn lines(text: &str, size: f64, width_max: f64, lines_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + size * 0.34 <= width_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    // The last line takes all the rest, and is shortened.
    if lines.len() > lines_max {
        let rest = lines.split_off(lines_max.saturating_sub(1)).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| shortened(line, size, width_max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_shortened() {
        assert_eq!(shortened("knee", 12.0, 100.0), "knee");
        let short = shortened("the knee is where latency passes two milliseconds", 12.0, 100.0);
        assert!(short.ends_with('…') && width(&short, 12.0) <= 100.0, "{short}");
        assert_eq!(shortened("abc", 12.0, 0.0), "…");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(lines("IOPS against outstanding", 16.0, 200.0, 2), ["IOPS against", "outstanding"]);
        assert_eq!(lines("", 16.0, 200.0, 2), Vec::<String>::new());
        let two = lines("a b c d e f g h i j k l m n o p", 16.0, 60.0, 2);
        assert_eq!(two.len(), 2);
        assert!(two[1].ends_with('…'));
    }
}
