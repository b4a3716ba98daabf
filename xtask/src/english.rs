//! Plain English, as far as a program can check it: words and phrases that STYLE.md forbids, in Markdown, comments, log
//! lines, error texts and `--help`, and the width of Markdown. What is not rewritten yet stands in a list that may only
//! shrink. It keeps out how literals and comments are found in Rust: that is `source`.

use crate::counted_rule::{CountedRule, Finding};
use crate::source::prose;

const COLUMNS_MAX: usize = 100;
/// Words of the README, for readers who only want to know what this is.
const README_WORDS_MAX: usize = 900;

pub(crate) const RULE: CountedRule = CountedRule {
    exceptions: "xtask/english-exceptions.txt",
    about: "Files whose words STYLE.md forbids, and how many of them each has",
    findings,
};

/// Unchecked paths: measurements, which programs wrote, and the list of forbidden phrases below.
const NOT_CHECKED: [&str; 2] = ["bench-runs/", "xtask/src/english.rs"];

/// Phrases that stop a reader, and what says the same. STYLE.md has the reasons.
const FORBIDDEN: [(&str, &str); 51] = [
    ("any more", "no longer; further"),
    ("to be had", "available"),
    ("so many", "the number; as many"),
    ("for so long", "for this time"),
    ("told of", "notified of; reported"),
    ("tell of", "report; announce"),
    ("tells of", "reports; announces"),
    ("hear of", "learn of; are notified of"),
    ("hears of", "learns of; is notified of"),
    ("as it comes", "by default"),
    ("as they come", "by default"),
    ("by chance", "random; at random"),
    ("take note", "record"),
    ("takes note", "records"),
    ("for ever", "forever"),
    ("for want of", "for lack of"),
    ("makes no sense", "is invalid"),
    ("make no sense", "are invalid"),
    ("cannot be told", "is unknown"),
    ("in the midst", "in the middle; during"),
    ("lay to rest", "quiesce"),
    ("laid to rest", "quiesced"),
    ("lays to rest", "quiesces"),
    ("take leave", "disconnect"),
    ("takes leave", "disconnects"),
    ("takes its leave", "disconnects"),
    ("incarnation", "association (of a path); epoch (of a gateway)"),
    ("incarnations", "associations; epochs"),
    ("clerk", "reservation worker"),
    ("the clerk's", "the reservation worker's"),
    ("openings", "image opener; open requests"),
    ("closings", "image closer"),
    ("keeper", "monitor"),
    ("keepers", "monitors"),
    ("lane", "path connections; backlog"),
    ("lanes", "path connections; backlogs"),
    ("remains of a connection", "orphaned slots"),
    ("the remains", "orphaned slots"),
    ("desk", "request handler"),
    ("he", "it; they"),
    ("him", "it; them"),
    ("his", "its; their"),
    ("whosoever", "anybody who"),
    ("of a sudden", "suddenly"),
    ("in vain", "without success"),
    ("former process", "old process (of an upgrade); killed process"),
    ("heir", "new process; next owner"),
    ("lender", "old process"),
    ("estate", "state"),
    ("predecessor", "old process; killed process"),
    ("predecessors", "old processes; killed processes"),
];

/// After "is no" and "are no" these are English; all else wants "is not a".
const AFTER_NO: [&str; 12] = [
    "longer",
    "more",
    "less",
    "fewer",
    "later",
    "earlier",
    "better",
    "worse",
    "larger",
    "smaller",
    "other",
    "different",
];

/// Faults of one file.
fn findings(path: &str, text: &str) -> Vec<Finding> {
    if NOT_CHECKED.iter().any(|beginning| path.starts_with(beginning)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let prose = match path.rsplit_once('.') {
        Some((_, "rs")) => rust_prose(text),
        Some((_, "md")) => {
            wide_lines(text, &mut found);
            let words = text.split_whitespace().count();
            if path == "README.md" && words > README_WORDS_MAX {
                found.push(Finding {
                    line: 1,
                    what: format!("{words} words, and {README_WORDS_MAX} are the limit"),
                });
            }
            markdown_prose(text)
        }
        _ => return found,
    };
    prose.forbidden(&mut found);
    found.sort_by_key(|finding| finding.line);
    found
}

/// Running text, all white space made single blanks, with the line that each byte came from.
#[derive(Default)]
struct Prose {
    text: String,
    lines: Vec<usize>,
}

/// Between pieces of text that do not belong together.
const BREAK: char = '\u{1}';

impl Prose {
    fn push(&mut self, c: char, line: usize) {
        let c = if c.is_whitespace() { ' ' } else { c };
        if c == ' ' && self.text.ends_with([' ', BREAK]) {
            return;
        }
        self.text.push(c.to_ascii_lowercase());
        self.lines.resize(self.text.len(), line);
    }

    /// Adds text that begins at this line, but for what stands between backticks: names are not words.
    fn add(&mut self, text: &str, mut line: usize) {
        let mut is_name = false;
        for c in text.chars() {
            match c {
                '`' => {
                    is_name = !is_name;
                    self.push('`', line);
                }
                _ if is_name => {}
                _ => self.push(c, line),
            }
            line += usize::from(c == '\n');
        }
    }

    fn forbidden(&self, found: &mut Vec<Finding>) {
        for (phrase, better) in FORBIDDEN {
            for at in self.places(phrase) {
                found.push(Finding { line: self.lines[at], what: format!("`{phrase}`: say {better}") });
            }
        }
        for phrase in ["is no", "are no", "was no", "were no"] {
            for at in self.places(phrase).filter(|&at| self.wants_not_a(at, phrase)) {
                found.push(Finding { line: self.lines[at], what: format!("`{phrase}`: say `not a`") });
            }
        }
    }

    /// Positions of a phrase as words of its own.
    fn places<'a>(&'a self, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_word = |c: char| c.is_alphanumeric() || "_-'".contains(c);
        self.text.match_indices(phrase).map(|(at, _)| at).filter(move |&at| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + phrase.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }

    /// "There is no disk", "is no longer" and "is no." are English; "it is no disk" is not.
    fn wants_not_a(&self, at: usize, phrase: &str) -> bool {
        let before = self.text[..at].trim_end();
        let after = self.text[at + phrase.len()..].trim_start();
        let next: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
        !before.ends_with("there") && !next.is_empty() && !AFTER_NO.contains(&&*next)
    }
}

fn rust_prose(source: &str) -> Prose {
    let mut all = Prose::default();
    for (line, text) in prose(source) {
        all.push(BREAK, line);
        all.add(&text, line);
    }
    all
}

/// Markdown without code blocks and the addresses of links. A blank line, a heading and a row of a table end a sentence.
fn markdown_prose(text: &str) -> Prose {
    let mut all = Prose::default();
    let mut paragraph = String::new();
    let mut begins = 1;
    for (number, line) in outside_code(text) {
        let line = line.trim();
        let is_alone = line.is_empty() || line.starts_with(['|', '#']);
        if is_alone || paragraph.is_empty() {
            all.push(BREAK, begins);
            all.add(&without_addresses(&paragraph), begins);
            paragraph.clear();
            begins = number;
        }
        paragraph.push_str(line);
        paragraph.push('\n');
        if is_alone {
            all.push(BREAK, begins);
            all.add(&without_addresses(&paragraph), begins);
            paragraph.clear();
        }
    }
    all.push(BREAK, begins);
    all.add(&without_addresses(&paragraph), begins);
    all
}

/// `[text](address)` becomes `[text]`.
fn without_addresses(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        kept.push_str(before);
        kept.push(']');
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    kept + rest
}

/// The lines of Markdown that are not in a code block, with their numbers.
fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

fn wide_lines(text: &str, found: &mut Vec<Finding>) {
    for (line, text) in outside_code(text) {
        let columns = text.chars().count();
        if columns > COLUMNS_MAX && !text.trim_start().starts_with('|') && can_be_broken(text) {
            found.push(Finding { line, what: format!("{columns} columns, and {COLUMNS_MAX} are the limit") });
        }
    }
}

/// True if there is a blank outside of links and pictures behind the mark of a list.
fn can_be_broken(line: &str) -> bool {
    let line = line.trim().trim_start_matches(|c: char| "-*.".contains(c) || c.is_ascii_digit()).trim_start();
    let mut depth = 0_u32;
    line.chars().any(|c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ' ' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        findings(path, text).into_iter().map(|one| format!("{} {}", one.line, one.what)).collect()
    }

    #[test]
    fn forbidden_phrases_are_found_in_comments_and_texts() {
        let source = "//! A.\n/// It is not to be had.\nfn a() { log(\"tried no any more\"); } // so many\n";
        assert_eq!(
            found("a.rs", source),
            [
                "2 `to be had`: say available",
                "3 `any more`: say no longer; further",
                "3 `so many`: say the number; as many"
            ]
        );
    }

    #[test]
    fn they_are_found_over_the_end_of_a_line() {
        assert_eq!(found("a.rs", "/// It waits for\n/// ever.\n"), ["1 `for ever`: say forever"]);
        assert_eq!(found("a.rs", "let a = \"not to be \\\n    had\";\n"), ["1 `to be had`: say available"]);
        assert_eq!(found("a.md", "Not to\nbe had.\n"), ["1 `to be had`: say available"]);
        assert_eq!(found("a.md", "Not to\n\nbe had.\n"), Vec::<String>::new());
        assert_eq!(found("a.rs", "// not to be\nfn a() {}\n// had\n"), Vec::<String>::new());
    }

    #[test]
    fn names_and_code_are_not_words() {
        assert_eq!(found("a.rs", "/// A `lane` of `clerk`.\nfn lane(clerk: u8) {}\n"), Vec::<String>::new());
        assert_eq!(
            found("a.md", "`lane`\n\n```\nany more\n```\n[it](any%20more/lane)\n"),
            Vec::<String>::new()
        );
        assert_eq!(found("a.toml", "# any more\n"), Vec::<String>::new());
        assert_eq!(found("a.rs", "// planes, the-lane, lanes2, this\n"), Vec::<String>::new());
        assert_eq!(found("bench-runs/x.md", "any more\n"), Vec::<String>::new());
    }

    #[test]
    fn no_stands_for_not_a_only_where_it_does() {
        assert_eq!(found("a.md", "It is no disk.\n"), ["1 `is no`: say `not a`"]);
        assert_eq!(found("a.rs", "// These are\n// no files.\n"), ["1 `are no`: say `not a`"]);
        for good in
            ["There is no disk.", "It is no longer there.", "The answer is no.", "It is no more than 3."]
        {
            assert_eq!(found("a.md", good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn markdown_has_a_width() {
        let words = "word ".repeat(21);
        assert_eq!(found("a.md", &words), ["1 105 columns, and 100 are the limit"]);
        assert_eq!(found("a.md", &format!("| {words}|\n```\n{words}\n```\n")), Vec::<String>::new());
        let link = format!("[some words](https://example.org/{})", "x".repeat(100));
        assert_eq!(found("a.md", &format!("- {link}\n![{words}](a.svg)\n")), Vec::<String>::new());
        assert_eq!(found("a.md", &format!("See {link}\n")).len(), 1);
    }

    #[test]
    fn the_first_page_is_short() {
        let text = "word\n".repeat(901);
        assert_eq!(found("README.md", &text), ["1 901 words, and 900 are the limit"]);
        assert_eq!(found("docs/README.md", &text), Vec::<String>::new());
    }
}
