//! A suite and its jobs, and the table of how they ended. The gate's suites are in `gate`, those of the proof in `proof`; a suite's
//! work is in a module of its own.

use std::time::Duration;

use crate::packages::{self, Package};

/// The end of a job, with its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed(String),
    Failed(String),
    /// A prerequisite is missing here.
    Skipped(String),
    /// The laboratory failed before the product was tried: a guest that does not boot, a mirror that does not answer.
    Laboratory(String),
}

/// A job's failure, by its cause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Product(String),
    Laboratory(String),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Product(reason)
    }
}

/// For callers that need no cause.
impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        let (Fault::Product(reason) | Fault::Laboratory(reason)) = fault;
        reason
    }
}

impl From<Result<String, Fault>> for Outcome {
    fn from(result: Result<String, Fault>) -> Self {
        match result {
            Ok(note) => Self::Passed(note),
            Err(Fault::Product(reason)) => Self::Failed(reason),
            Err(Fault::Laboratory(reason)) => Self::Laboratory(reason),
        }
    }
}

impl From<Result<(), Fault>> for Outcome {
    fn from(result: Result<(), Fault>) -> Self {
        result.map(|()| String::new()).into()
    }
}

/// Options of the command line for all jobs.
pub(crate) struct Options {
    /// Temporary files stay where they are.
    pub(crate) keep: bool,
}

/// Jobs with one subject and the same prerequisites.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) packages: &'static [Package],
    pub(crate) needs_root: bool,
    /// Paths in the checkout on which the result depends.
    pub(crate) inputs: &'static [&'static str],
    /// Minutes on two quiet cores, with nothing built before.
    pub(crate) minutes: u32,
    /// Jobs at a time.
    pub(crate) workers: usize,
    pub(crate) jobs: fn() -> Vec<String>,
    /// Runs the job of this name.
    pub(crate) run: fn(&Options, &str) -> Outcome,
}

impl Suite {
    /// Installs missing packages where it can.
    ///
    /// # Errors
    /// The prerequisite that is missing.
    pub(crate) fn prepare(&self) -> Result<(), Fault> {
        if self.needs_root && !packages::is_root() {
            return Err(Fault::Product(format!("{} needs root", self.name)));
        }
        packages::ensure(self.packages)
    }
}

/// Line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
    pub(crate) busy_percent: Option<u64>,
}

/// The results. Where everything is required, a skip is a failure, or a suite could vanish unnoticed.
pub(crate) struct Table {
    rows: Vec<Row>,
    is_all_required: bool,
}

impl Table {
    pub(crate) fn new(is_all_required: bool) -> Self {
        Self { rows: Vec::new(), is_all_required }
    }

    pub(crate) fn add(&mut self, mut row: Row) {
        row.outcome = match row.outcome {
            Outcome::Skipped(reason) if self.is_all_required => {
                Outcome::Failed(format!("skipped, though everything is required here: {reason}"))
            }
            outcome => outcome,
        };
        self.rows.push(row);
    }

    /// True if every job passed or was skipped, and at least one passed.
    pub(crate) fn is_green(&self) -> bool {
        let [passed, failed, _] = self.counts();
        failed == 0 && passed > 0
    }

    /// Passed, failed, skipped.
    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for row in &self.rows {
            match row.outcome {
                Outcome::Passed(_) => counts[0] += 1,
                Outcome::Failed(_) | Outcome::Laboratory(_) => counts[1] += 1,
                Outcome::Skipped(_) => counts[2] += 1,
            }
        }
        counts
    }

    pub(crate) fn text(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(8);
        let mut text = format!("{:width$} {:10} {:>8} {:>5}\n", "suite", "result", "seconds", "busy");
        for row in &self.rows {
            let seconds = row.elapsed.as_secs_f64();
            let busy = row.busy_percent.map_or_else(|| "?".to_owned(), |percent| format!("{percent}%"));
            let (result, note) = words(&row.outcome);
            let line = format!("{:width$} {result:10} {seconds:8.1} {busy:>5}  {note}", row.name);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let [passed, failed, skipped] = self.counts();
        text.push_str(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"));
        text
    }
}

/// The result's word, and its note.
pub(crate) fn words(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Passed(note) => ("passed", note),
        Outcome::Failed(reason) => ("failed", reason),
        Outcome::Skipped(reason) => ("skipped", reason),
        Outcome::Laboratory(reason) => ("laboratory", reason),
    }
}

/// The sum of libtest's own summaries.
pub(crate) fn passed_tests(output: &str) -> u64 {
    let lines = output.lines().filter_map(|line| line.split_once("test result: ")?.1.split_once(". "));
    lines.filter_map(|(_, counts)| counts.split_once(" passed")?.0.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(is_all_required: bool) -> Table {
        let mut table = Table::new(is_all_required);
        let row = |name: &str, outcome| Row {
            name: name.to_owned(),
            outcome,
            elapsed: Duration::from_secs(1),
            busy_percent: Some(70),
        };
        table.add(row("a", Outcome::Passed(String::new())));
        table.add(row("b", Outcome::Skipped("no root".into())));
        table
    }

    #[test]
    fn the_last_line_counts() {
        assert!(table(false).text().ends_with("\n1 passed, 0 failed, 1 skipped\n"));
        assert!(table(false).text().contains("no root") && table(false).is_green());
    }

    #[test]
    fn a_skip_fails_where_everything_is_required() {
        assert!(table(true).text().ends_with("\n1 passed, 1 failed, 0 skipped\n"));
        assert!(!table(true).is_green());
    }

    #[test]
    fn a_table_of_nothing_is_not_green() {
        assert!(!Table::new(false).is_green());
    }

    #[test]
    fn a_fault_of_the_laboratory_is_its_own() {
        let fault: Result<(), Fault> = Err(Fault::Laboratory("no boot".into()));
        assert_eq!(Outcome::from(fault), Outcome::Laboratory("no boot".into()));
        assert_eq!(Outcome::from(Err::<(), _>(Fault::from("x".to_owned()))), Outcome::Failed("x".into()));
    }

    #[test]
    fn counts_tests() {
        let output = "test result: ok. 12 passed; 0 failed\nx\ntest result: FAILED. 3 passed; 1 failed\n";
        assert_eq!(passed_tests(output), 15);
    }
}
