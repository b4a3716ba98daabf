//! A house rule with exceptions that are counted by file, in a list that may only shrink. It keeps out how its exceptions are
//! found.

use std::collections::BTreeMap;

use crate::tidy::{self, File};
use crate::workspace;

/// A place that a rule forbids.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// A rule, the list of its exceptions, and how they are found in a file by its path and text.
pub(crate) struct CountedRule {
    pub(crate) exceptions: &'static str,
    /// The comment at the head of the list.
    pub(crate) about: &'static str,
    pub(crate) findings: fn(&str, &str) -> Vec<Finding>,
}

/// Counts by file, as the list of exceptions has them.
#[derive(Default)]
struct Counts(BTreeMap<String, usize>);

impl Counts {
    fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl CountedRule {
    /// Compares what is found in all files with the list of exceptions. Where files have moved or been divided, the total
    /// says whether anything came to it; then the list alone has to follow.
    pub(crate) fn judge(&self, files: &[(&str, &str)], list: &str, problems: &mut Vec<String>) {
        let allowed = match self.parse(list) {
            Ok(allowed) => allowed,
            Err(problem) => return problems.push(problem),
        };
        let now = self.counted(files);
        if now.0 == allowed.0 {
            return;
        }
        if now.total() <= allowed.total() {
            let list = self.exceptions;
            return problems
                .push(format!("{list}: files have fewer, or have moved: `cargo xtask tidy --lower`"));
        }
        for (path, text) in files {
            let found = (self.findings)(path, text);
            let limit = allowed.0.get(*path).copied().unwrap_or(0);
            if found.len() > limit {
                problems.extend(found.iter().map(|one| format!("{path}:{}: {}", one.line, one.what)));
                problems.push(format!("{path}: {} findings, and {limit} are the limit", found.len()));
            }
        }
    }

    /// Writes the list of exceptions again, unless it would grow in all. What it says of that.
    pub(crate) fn lower(&self, files: &[File]) -> Result<String, String> {
        let list = self.exceptions;
        let now = self.counted(&files.iter().map(|file| (&*file.path, &*file.text)).collect::<Vec<_>>());
        let path = workspace::root().join(list);
        let before = std::fs::read_to_string(&path).map_err(|error| format!("{list}: {error}"))?;
        let before = self.parse(&before)?.total();
        if now.total() > before {
            return Err(format!("{list}: {} findings, and {before} are the limit", now.total()));
        }
        std::fs::write(&path, self.written(&now)).map_err(|error| format!("{list}: {error}"))?;
        Ok(format!("{list}: {before} before, {} now", now.total()))
    }

    fn parse(&self, list: &str) -> Result<Counts, String> {
        let mut counts = BTreeMap::new();
        for entry in tidy::entries(list) {
            let parsed = entry.rsplit_once(' ').and_then(|(path, count)| Some((path, count.parse().ok()?)));
            let Some((path, count)) = parsed else {
                return Err(format!("{}: `{entry}` is not `path count`", self.exceptions));
            };
            counts.insert(path.trim().to_owned(), count);
        }
        Ok(Counts(counts))
    }

    fn written(&self, counts: &Counts) -> String {
        let lower = "`cargo xtask tidy --lower` writes it again where files have fewer or have moved.";
        let mut list = format!("# {}. It may only shrink:\n# {lower}\n", self.about);
        for (path, count) in &counts.0 {
            list.push_str(&format!("{path} {count}\n"));
        }
        list
    }

    fn counted(&self, files: &[(&str, &str)]) -> Counts {
        let all = files.iter().map(|(path, text)| ((*path).to_owned(), (self.findings)(path, text).len()));
        Counts(all.filter(|(_, count)| *count > 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: CountedRule = CountedRule {
        exceptions: "a.txt",
        about: "Files with a forbidden letter",
        findings: |_, text| {
            let lines = text.lines().enumerate().filter(|(_, line)| line.contains('x'));
            lines.map(|(index, _)| Finding { line: index + 1, what: "an x".to_owned() }).collect()
        },
    };

    #[test]
    fn the_list_of_exceptions_may_only_shrink() {
        let judged = |text: &str, list: &str| {
            let mut problems = Vec::new();
            RULE.judge(&[("a.md", text)], list, &mut problems);
            problems.join("\n")
        };
        assert_eq!(judged("x\n", "# why\na.md 1\n"), "");
        assert!(judged("x\n", "").contains("a.md:1: an x"));
        assert!(judged("x\nx\n", "a.md 1\n").contains("2 findings, and 1 are the limit"));
        assert!(judged("x\n", "old.md 1\n").contains("--lower"), "a file that has moved");
        assert!(judged("a\n", "a.md 1\n").contains("--lower"));
        assert!(judged("a\n", "gone.md 1\n").contains("--lower"));
        assert!(judged("a\n", "a.md\n").contains("is not `path count`"));
    }

    #[test]
    fn a_written_list_is_the_same_when_it_is_read() {
        let counts = RULE.counted(&[("a.md", "x\n"), ("b.md", "a\n")]);
        assert_eq!(RULE.parse(&RULE.written(&counts)).unwrap().0, counts.0);
        assert_eq!(counts.total(), 1);
    }
}
