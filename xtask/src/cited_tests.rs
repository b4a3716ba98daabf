//! Tests and mutants that the pages of security promises and of the specification cite: each of them exists. It keeps out
//! names that a rename has left behind.

use std::collections::BTreeSet;

use crate::ledger;

/// Pages that cite tests.
const PAGES: [&str; 2] = ["docs/internals/security-tests.md", ledger::PAGE];

/// Folder of the mutants.
const MUTANTS: &str = "proof/mutants/";

/// Reports names on the pages without a function or a mutant. A code span with `::` is the path of a test, and a span
/// that ends in `.patch` is a mutant.
pub(crate) fn judge(files: &[(&str, &str)], problems: &mut Vec<String>) {
    let sources = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let functions: BTreeSet<&str> = sources.flat_map(|(_, text)| functions(text)).collect();
    let mutants: BTreeSet<&str> = files.iter().filter_map(|(path, _)| path.strip_prefix(MUTANTS)).collect();
    for (path, page) in files.iter().filter(|(path, _)| PAGES.contains(path)) {
        for (number, line) in page.lines().enumerate() {
            for span in line.split('`').skip(1).step_by(2) {
                let test = span.rsplit_once("::").map(|(_, name)| name);
                let mutant = span.strip_suffix(".patch").filter(|name| !name.is_empty());
                if test.is_some_and(|name| !functions.contains(name)) {
                    problems.push(format!("{path}:{}: the test {span} does not exist", number + 1));
                } else if mutant.is_some() && !mutants.contains(span) {
                    problems.push(format!("{path}:{}: the mutant {span} does not exist", number + 1));
                }
            }
        }
    }
}

/// Names that follow `fn`.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, page: &str) -> Vec<String> {
        let files = [
            (path, page),
            ("crates/x/src/lib.rs", "#[test]\nfn a_host_is_refused() {}\n"),
            ("docs/a.md", "fn in_prose() {}"),
            ("proof/mutants/host-let-in.patch", ""),
        ];
        let mut problems = Vec::new();
        judge(&files, &mut problems);
        problems
    }

    #[test]
    fn tests_and_mutants_that_exist_are_no_problem() {
        let page =
            "# A\n| a | `x::tests::a_host_is_refused`; `host-let-in.patch`, `.patch`, `admin`, x::y |\n";
        for path in PAGES {
            assert_eq!(problems(path, page), [""; 0]);
        }
        assert_eq!(problems("docs/other.md", "`x::y`"), [""; 0], "a page that cites no tests");
        let mut without_page = Vec::new();
        judge(&[("a.rs", "")], &mut without_page);
        assert_eq!(without_page, [""; 0]);
    }

    #[test]
    fn names_that_are_gone_are_reported_with_their_line() {
        for (span, kind) in [
            ("x::a_host_is", "test"),
            ("x::a_host_is_refused_too", "test"),
            ("x::in_prose", "test"),
            ("host-let.patch", "mutant"),
        ] {
            for path in PAGES {
                let found = problems(path, &format!("# A\n\n| `admin` | `{span}` |\n"));
                assert_eq!(found, [format!("{path}:3: the {kind} {span} does not exist")]);
            }
        }
    }
}
