//! The words that documentation comments begin with, and a few that stand for a noun. A comment begins with a noun or a verb; pronouns
//! and relative words are counted for each crate, against a number that only sinks.

use std::collections::BTreeMap;

use crate::workspace;

/// Path of the numbers.
pub(crate) const BUDGETS: &str = "xtask/first-words.txt";

/// A comment that begins with one of these has no object yet.
const FIRST: [&str; 20] = [
    "what", "whether", "where", "who", "whose", "whom", "its", "it", "they", "those", "their", "how", "that",
    "which", "when", "one", "somebody", "nobody", "nothing", "whoever",
];
/// Words of stories, for which the trade has nouns.
const STORY: [&str; 5] = ["told", "nobody", "whoever", "somebody", "anew"];

/// Files that list the words.
const LISTS: [&str; 2] = ["xtask/src/english.rs", "xtask/src/first_words.rs"];

/// Findings of each crate: comments by their first words, and words of stories.
fn counts<'a>(files: &[(&'a str, &str)]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    let is_read = |path: &str| path.ends_with(".rs") && !LISTS.contains(&path);
    for (path, text) in files.iter().filter(|(path, _)| is_read(path)) {
        *counts.entry(package(path)).or_default() += first_words(text) + story_words(text);
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// The folder of the crate that a file belongs to.
fn package(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    let end = path.match_indices('/').nth(depth - 1).map_or(path.len(), |(end, _)| end);
    &path[..end]
}

fn first_words(text: &str) -> usize {
    let mut was_comment = false;
    let mut count = 0;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("/// ");
        if let Some(comment) = comment.filter(|_| !was_comment) {
            let word: String = comment.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
            count += usize::from(FIRST.contains(&&*word.to_ascii_lowercase()));
        }
        was_comment = comment.is_some();
    }
    count
}

fn story_words(text: &str) -> usize {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    words.filter(|word| STORY.contains(&&*word.to_ascii_lowercase())).count()
}

/// Reports crates with more than their number, and numbers that may sink.
pub(crate) fn judge(files: &[(&str, &str)], budgets: &str, problems: &mut Vec<String>) {
    let counts = counts(files);
    let lines = budgets.lines().filter(|line| !line.starts_with('#'));
    let budgets: BTreeMap<&str, usize> = lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, n)| Some((name, n.parse().ok()?)))
        .collect();
    for (package, count) in &counts {
        let budget = budgets.get(package).copied().unwrap_or(0);
        if *count > budget {
            problems.push(format!(
                "{package}: {count} comments that begin with a pronoun, or words of stories (STYLE.md, English), and {budget} are the limit"
            ));
        }
    }
    for (package, budget) in &budgets {
        let count = counts.get(package).copied().unwrap_or(0);
        if count < *budget {
            problems.push(format!(
                "{BUDGETS}: {package} has {count}, and {budget} stands there: cargo xtask tidy --lower"
            ));
        }
    }
}

/// Writes the numbers again, if no crate's has grown.
///
/// # Errors
/// One has, or the file cannot be written.
pub(crate) fn lower(files: &[(&str, &str)]) -> Result<String, String> {
    let path = workspace::root().join(BUDGETS);
    let said = |error: std::io::Error| format!("{BUDGETS}: {error}");
    let before = std::fs::read_to_string(&path).map_err(said)?;
    let mut problems = Vec::new();
    judge(files, &before, &mut problems);
    if let Some(grown) = problems.iter().find(|problem| !problem.starts_with(BUDGETS)) {
        return Err(grown.clone());
    }
    std::fs::write(&path, written(files)).map_err(said)?;
    Ok(format!("{BUDGETS}: {} in all", counts(files).values().sum::<usize>()))
}

/// The file of the numbers, as these files have them.
fn written(files: &[(&str, &str)]) -> String {
    let lines: String = counts(files).iter().map(|(package, count)| format!("{package} {count}\n")).collect();
    format!(
        "# Comments that begin with a pronoun or a relative word, and words of stories, by crate (STYLE.md, English). They only sink:\n\
         # `cargo xtask tidy --lower` writes them again.\n{lines}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (&str, &str) = (
        "crates/x/src/lib.rs",
        "/// What it is.\n/// Its rest.\nfn a() {}\n/// Bytes of a block.\nfn b() {}\n// told\n",
    );

    #[test]
    fn first_words_and_words_of_stories_are_counted_by_crate() {
        let budgets = written(&[FILE]);
        assert!(budgets.ends_with("again.\ncrates/x 2\n"), "{budgets}");
        let mut problems = Vec::new();
        judge(&[FILE], &budgets, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        judge(&[FILE], "crates/x 1\n", &mut problems);
        judge(&[FILE], "crates/x 3\n", &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
