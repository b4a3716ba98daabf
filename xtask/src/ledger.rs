//! Counts of the ledger of the specification: its requirements by part, and by what shows them. It keeps the table at the head
//! of the page true. That cited tests exist is checked in `cited_tests`.

/// Page of the ledger.
pub(crate) const PAGE: &str = "docs/internals/specification.md";

/// Head of a table of requirements.
const HEAD: &str = "| section | requirement | shown by |";

/// Beginnings of the last cell of a requirement that no test shows.
const TO_DO: &str = "*to do*";
const EXCEPTION: &str = "*exception*";

/// Requirements of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    fulfilled: usize,
    exceptions: usize,
    to_do: usize,
}

impl Counts {
    /// Counts a requirement by its last cell; false if that has neither a test nor a mark.
    fn add(&mut self, shown_by: &str) -> bool {
        if shown_by.starts_with(TO_DO) {
            self.to_do += 1;
        } else if shown_by.starts_with(EXCEPTION) {
            self.exceptions += 1;
        } else if shown_by.contains("::") || shown_by.contains(".patch`") {
            self.fulfilled += 1;
        } else {
            return false;
        }
        true
    }

    fn plus(self, other: Self) -> Self {
        Self {
            fulfilled: self.fulfilled + other.fulfilled,
            exceptions: self.exceptions + other.exceptions,
            to_do: self.to_do + other.to_do,
        }
    }

    /// Row of the table of counts.
    fn row(self, part: &str) -> String {
        let Self { fulfilled, exceptions, to_do } = self;
        format!("| {part} | {} | {fulfilled} | {exceptions} | {to_do} |", fulfilled + exceptions + to_do)
    }
}

/// Reports requirements without a test or a mark, and rows that the table of counts lacks.
pub(crate) fn judge(files: &[(&str, &str)], problems: &mut Vec<String>) {
    let Some((_, page)) = files.iter().find(|(path, _)| *path == PAGE) else { return };
    let parts = parts(page, problems);
    let all = parts.iter().fold(Counts::default(), |sum, (_, counts)| sum.plus(*counts));
    for row in parts.iter().map(|(part, counts)| counts.row(part)).chain([all.row("all")]) {
        if !page.lines().any(|line| line == row) {
            problems.push(format!("{PAGE}: the table of counts lacks the row {row}"));
        }
    }
}

/// Parts of the page, which are its sections with tables of requirements.
fn parts<'a>(page: &'a str, problems: &mut Vec<String>) -> Vec<(&'a str, Counts)> {
    let mut parts: Vec<(&str, Counts)> = Vec::new();
    let (mut heading, mut is_table) = ("", false);
    for (number, line) in page.lines().enumerate() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        if line == HEAD {
            is_table = true;
            if parts.last().is_none_or(|(part, _)| *part != heading) {
                parts.push((heading, Counts::default()));
            }
            continue;
        }
        is_table &= line.starts_with('|');
        if !is_table || line.starts_with("|---") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let is_counted = match (cells.as_slice(), parts.last_mut()) {
            ([_, _, shown_by], Some((_, counts))) => counts.add(shown_by),
            _ => false,
        };
        if !is_counted {
            problems.push(format!("{PAGE}:{}: no test, no {EXCEPTION} and no {TO_DO}", number + 1));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "| A | 3 | 1 | 1 | 1 |\n| B | 1 | 1 | 0 | 0 |\n| all | 4 | 2 | 1 | 1 |\n";
    const REQUIREMENTS: &str = "## A\n\n| section | requirement | shown by |\n|---|---|---|\n\
        | 1 | a | `x::a` |\n| 2 | b | *to do* |\n| 3 | c | *exception*: as Linux |\n\n\
        | other | table |\n|---|---|\n| x | y |\n\n\
        ## B\n\n| section | requirement | shown by |\n|---|---|---|\n| 1 | a | `a.patch` |\n";

    fn problems(page: &str) -> Vec<String> {
        let mut problems = Vec::new();
        judge(&[(PAGE, page)], &mut problems);
        problems
    }

    #[test]
    fn a_page_that_counts_its_requirements_is_no_problem() {
        assert_eq!(problems(&[COUNTS, REQUIREMENTS].concat()), [""; 0]);
        let mut without_page = Vec::new();
        judge(&[("docs/a.md", REQUIREMENTS)], &mut without_page);
        assert_eq!(without_page, [""; 0]);
    }

    #[test]
    fn rows_that_are_missing_or_wrong_are_reported() {
        let found = problems(&[&*COUNTS.replace("| 3 | 1 |", "| 3 | 2 |"), REQUIREMENTS].concat());
        assert_eq!(found, [format!("{PAGE}: the table of counts lacks the row | A | 3 | 1 | 1 | 1 |")]);
        assert_eq!(problems(REQUIREMENTS).len(), 3);
    }

    #[test]
    fn a_requirement_needs_a_test_or_a_mark() {
        for row in ["| 4 | d | |", "| 4 | d | soon |", "| 4 | d |"] {
            let page = [COUNTS, REQUIREMENTS, row, "\n"].concat();
            let line = page.lines().count();
            assert_eq!(problems(&page), [format!("{PAGE}:{line}: no test, no *exception* and no *to do*")]);
        }
    }
}
