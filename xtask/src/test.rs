//! The suites by name, and the table at their end. It keeps out what a suite does, unless that is one
//! command.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::builds_ahead::BuildsAhead;
use crate::packages::{self, Package};
use crate::processor_time::ProcessorTime;
use crate::{
    attach, ceph, chaos, check, commands, fuzz, guest, install, pages, paths, races, simulate, tune,
    usage_error, versions, workspace,
};

/// How a suite ended, with what there is to say about it.
pub(crate) enum Outcome {
    Passed(String),
    Failed(String),
    /// It cannot run here.
    Skipped(String),
}

/// What the command line asks for.
pub(crate) struct Options {
    /// Temporary files stay where they are.
    pub(crate) keep: bool,
    builds_ahead: RefCell<BuildsAhead>,
}

impl Options {
    /// The suite that runs builds nothing from here on, and waits much of its time: what later ones need is built meanwhile.
    pub(crate) fn waits(&self) {
        self.builds_ahead.borrow_mut().begin();
    }
}

struct Suite {
    name: &'static str,
    about: &'static str,
    packages: &'static [Package],
    run: fn(&Options) -> Outcome,
}

/// In the order in which they run: what fails soonest comes first, and what builds much after suites beside which it can be built.
const SUITES: [Suite; 17] = [
    Suite {
        name: "check",
        about: "formatting, lints, house rules, documentation, licences",
        packages: &packages::CHECK,
        run: |_| check::outcome(),
    },
    Suite {
        name: "unit",
        about: "every crate's tests and documentation tests",
        packages: &packages::UNIT,
        run: unit,
    },
    Suite {
        name: "simulate",
        about: "target and hosts in simulated worlds that follow from seeds",
        packages: &[],
        run: simulate::suite,
    },
    Suite {
        name: "demo",
        about: "`selvedge demo` tells its story within a minute",
        packages: &[],
        run: demo,
    },
    Suite {
        name: "pages",
        about: "a report in a headless Chromium: its points, keys and names, wide and narrow, on paper, without script",
        packages: &packages::BROWSER,
        run: pages::suite,
    },
    Suite {
        name: "tune",
        about: "the tuner on interfaces with four queues: changes, counters, kill -9 at each write, what comes back",
        packages: &packages::TUNE,
        run: tune::suite,
    },
    Suite {
        name: "ceph",
        about: "images of a real Ceph and its failures; gateways that are killed, stopped and cut off, under our host and the kernel's",
        packages: &packages::CEPH,
        run: ceph::suite,
    },
    Suite {
        name: "kernel",
        about: "the Linux kernel, in a guest, as our target's initiator, as our initiator's target, as the tuner sees it; two default targets; a disk that fails; authentication",
        packages: &packages::GUEST,
        run: guest::run,
    },
    Suite {
        name: "commands",
        about: "every nvme-cli command, with a second host and live changes, in two guests",
        packages: &packages::GUEST,
        run: commands::run,
    },
    Suite {
        name: "attach",
        about: "QEMU's and libnbd's programs on namespaces that `selvedge attach` gives them",
        packages: &packages::ATTACH,
        run: attach::run,
    },
    Suite {
        name: "paths",
        about: "several paths: the Linux kernel's host over two ports of our target, with each policy",
        packages: &packages::GUEST,
        run: paths::run,
    },
    Suite {
        name: "versions",
        about: "the release before and this version: as hosts and targets, by files and commands, one in place of the other",
        packages: &packages::CHECK,
        run: versions::suite,
    },
    Suite {
        name: "races",
        about: "threads that meet without locks, in every order in which they may",
        packages: &[],
        run: races::suite,
    },
    Suite {
        name: "mutants",
        about: "broken builds of the engine, each of which the simulation has to notice",
        packages: &[],
        run: simulate::mutants_suite,
    },
    Suite {
        name: "install",
        about: "packages, checked by others' programs, installed, upgraded and purged in whole Debian guests",
        packages: &packages::INSTALL,
        run: install::suite,
    },
    Suite {
        name: "chaos",
        about: "targets killed, stopped, cut off, filled and attacked under hosts that check every block",
        packages: &packages::CHAOS,
        run: chaos::suite,
    },
    Suite {
        name: "fuzz",
        about: "every fuzzer on the inputs it has kept, and on chance for five seconds",
        packages: &packages::FUZZ,
        run: fuzz::suite,
    },
];

/// `cargo xtask test [SUITE]... [--list] [--keep]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let (mut keep, mut names) = (false, Vec::new());
    for arg in args {
        match arg.as_str() {
            "--list" => {
                list();
                return ExitCode::SUCCESS;
            }
            "--keep" => keep = true,
            name if SUITES.iter().any(|suite| suite.name == name) => names.push(name),
            other => return usage_error(&format!("there is no suite or option `{other}`; see test --list")),
        }
    }
    let are_named = !names.is_empty();
    let is_chosen = |name: &str| !are_named || names.contains(&name);
    let mut table = Table { rows: Vec::new(), ci: workspace::is_ci() };
    let options = Options { keep, builds_ahead: RefCell::new(BuildsAhead::of(is_chosen)) };
    for suite in SUITES.iter().filter(|suite| is_chosen(suite.name)) {
        println!("\n== {}: {}", suite.name, suite.about);
        let (started, before) = (Instant::now(), ProcessorTime::now());
        options.builds_ahead.borrow_mut().before(suite.name);
        let outcome = match packages::ensure(suite.packages) {
            Ok(()) => (suite.run)(&options),
            Err(reason) => Outcome::Skipped(reason),
        };
        table.add(suite.name, outcome, started.elapsed(), before.and_then(ProcessorTime::busy_percent));
    }
    print!("\n{}", table.text());
    if table.count("failed") == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn list() {
    for suite in &SUITES {
        println!("{:8} {}", suite.name, suite.about);
    }
}

/// Tests that run at a time, for each processor: those over sockets wait for more than half of their time.
const TESTS_PER_PROCESSOR: usize = 2;

fn unit(_: &Options) -> Outcome {
    let threads = TESTS_PER_PROCESSOR * std::thread::available_parallelism().map_or(1, usize::from);
    let tests = workspace::cargo(&["test", "--workspace", "--no-fail-fast"])
        .env("RUST_TEST_THREADS", &threads.to_string())
        .limit_s(2400)
        .run();
    let count = passed_tests(&tests.output);
    if tests.passed {
        Outcome::Passed(format!("{count} tests"))
    } else {
        Outcome::Failed(format!("{count} tests passed, others did not"))
    }
}

/// The sum of libtest's own summaries.
pub(crate) fn passed_tests(output: &str) -> u64 {
    let lines = output.lines().filter_map(|line| line.split_once("test result: ")?.1.split_once(". "));
    lines.filter_map(|(_, counts)| counts.split_once(" passed")?.0.parse::<u64>().ok()).sum()
}

/// It takes a quarter of a minute, and the more the busier the machine's neighbours are: this is when it hangs.
const DEMO_LIMIT_S: u64 = 240;

fn demo(_: &Options) -> Outcome {
    let program = match workspace::program() {
        Ok(program) => program,
        Err(reason) => return Outcome::Failed(reason),
    };
    let demo = crate::command::Step::new(&program, &["demo"]).limit_s(DEMO_LIMIT_S).run();
    if demo.passed {
        Outcome::Passed(String::new())
    } else {
        Outcome::Failed(format!("the demonstration did not end well within {DEMO_LIMIT_S} s"))
    }
}

struct Row {
    name: &'static str,
    result: &'static str,
    elapsed: Duration,
    busy_percent: Option<u64>,
    note: String,
}

/// The results. Under CI nothing may be skipped, or a suite could vanish unnoticed.
struct Table {
    rows: Vec<Row>,
    ci: bool,
}

impl Table {
    fn add(&mut self, name: &'static str, outcome: Outcome, elapsed: Duration, busy_percent: Option<u64>) {
        let (result, note) = match outcome {
            Outcome::Passed(note) => ("passed", note),
            Outcome::Failed(reason) => ("failed", reason),
            Outcome::Skipped(reason) if self.ci => {
                ("failed", format!("skipped, which CI never does: {reason}"))
            }
            Outcome::Skipped(reason) => ("skipped", reason),
        };
        self.rows.push(Row { name, result, elapsed, busy_percent, note });
    }

    fn count(&self, result: &str) -> usize {
        self.rows.iter().filter(|row| row.result == result).count()
    }

    fn text(&self) -> String {
        let mut text = format!("{:8} {:8} {:>8} {:>5}\n", "suite", "result", "seconds", "busy");
        for row in &self.rows {
            let seconds = row.elapsed.as_secs_f64();
            let busy = row.busy_percent.map_or_else(|| "?".to_owned(), |percent| format!("{percent}%"));
            let line = format!("{:8} {:8} {seconds:8.1} {busy:>5}  {}", row.name, row.result, row.note);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let [passed, failed, skipped] = ["passed", "failed", "skipped"].map(|result| self.count(result));
        text.push_str(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(ci: bool) -> Table {
        let mut table = Table { rows: Vec::new(), ci };
        table.add("a", Outcome::Passed(String::new()), Duration::from_secs(1), Some(70));
        table.add("b", Outcome::Skipped("no root".into()), Duration::ZERO, None);
        table
    }

    #[test]
    fn the_last_line_counts() {
        assert!(table(false).text().ends_with("\n1 passed, 0 failed, 1 skipped\n"));
        assert!(table(false).text().contains("no root"));
    }

    #[test]
    fn ci_skips_nothing() {
        assert!(table(true).text().ends_with("\n1 passed, 1 failed, 0 skipped\n"));
    }

    #[test]
    fn counts_tests() {
        let output = "test result: ok. 12 passed; 0 failed\nx\ntest result: FAILED. 3 passed; 1 failed\n";
        assert_eq!(passed_tests(output), 15);
    }
}
