//! The gate, `cargo xtask test`: the parts that every change has to pass, in minutes, with nothing but Rust and a C compiler. What
//! takes guests, clusters, browsers or root is the proof's.

use std::process::ExitCode;
use std::time::Instant;

use crate::command::Step;
use crate::processor_time::ProcessorTime;
use crate::run_lock::RunLock;
use crate::suite::{Options, Outcome, Row, Suite, Table, passed_tests};
use crate::{check, simulate, usage_error, workspace};

/// In the order in which they run: the quickest to fail comes first.
const PARTS: [Suite; 4] = [
    part("check", "formatting, lints, house rules, documentation, licences", |_, _| check::outcome()),
    part("unit", "every crate's tests and documentation tests, and the fuzzers' corpora", |_, _| unit()),
    part("simulate", "target, hosts and gateways in simulated worlds that follow from seeds", |_, _| {
        simulate::suite()
    }),
    part("demo", "`selvedge demo` tells its story", |_, _| demo()),
];

const fn part(name: &'static str, about: &'static str, run: fn(&Options, &str) -> Outcome) -> Suite {
    Suite {
        name,
        about,
        packages: &[],
        needs_root: false,
        inputs: &["."],
        minutes: 4,
        workers: 1,
        jobs: || vec![String::new()],
        run,
    }
}

/// `cargo xtask test [PART]... [--list]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let mut names = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--list" => {
                PARTS.iter().for_each(|part| println!("{:8} {}", part.name, part.about));
                return ExitCode::SUCCESS;
            }
            name if PARTS.iter().any(|part| part.name == name) => names.push(name),
            other => {
                return usage_error(&format!(
                    "the gate has no part or option `{other}` (test --list); suites of the proof: prove --list"
                ));
            }
        }
    }
    let _lock = match RunLock::take() {
        Ok(lock) => lock,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let mut table = Table::new(workspace::is_ci());
    for part in PARTS.iter().filter(|part| names.is_empty() || names.contains(&part.name)) {
        println!("\n== {}: {}", part.name, part.about);
        let (started, before) = (Instant::now(), ProcessorTime::now());
        let outcome = (part.run)(&Options { keep: false }, "");
        let busy_percent = before.and_then(ProcessorTime::busy_percent);
        table.add(Row { name: part.name.to_owned(), outcome, elapsed: started.elapsed(), busy_percent });
    }
    print!("\n{}", table.text());
    if table.is_green() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests that run at a time, for each processor: those over sockets wait for more than half of their time.
const TESTS_PER_PROCESSOR: usize = 2;
/// Building and running the tests beside busy neighbours; a longer run hangs.
const UNIT_LIMIT_S: u64 = 2400;

/// A test whose prerequisite the machine lacks says so and ends; `prove machine` requires all of them.
fn unit() -> Outcome {
    tests(&["test", "--workspace", "--no-fail-fast"], false)
}

/// Runs tests, with the prerequisites of all of them required or not.
pub(crate) fn tests(words: &[&str], are_prerequisites_required: bool) -> Outcome {
    let threads = TESTS_PER_PROCESSOR * std::thread::available_parallelism().map_or(1, usize::from);
    let tests = workspace::cargo(words)
        .env("RUST_TEST_THREADS", &threads.to_string())
        .env(workspace::PREREQUISITES, if are_prerequisites_required { "required" } else { "optional" })
        .limit_s(UNIT_LIMIT_S)
        .run();
    let count = passed_tests(&tests.output);
    match tests.passed {
        true if count > 0 => Outcome::Passed(format!("{count} tests")),
        true => Outcome::Failed("no test was found".to_owned()),
        false => Outcome::Failed(format!("{count} tests passed; failed: {}", failed_tests(&tests.output))),
    }
}

/// The names of failed tests, as libtest gives them.
fn failed_tests(output: &str) -> String {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let names: Vec<&str> = lines.map(|name| name.trim_end_matches(" - should panic")).collect();
    if names.is_empty() { "see above".to_owned() } else { names.join(", ") }
}

/// Time for the demonstration: a quarter of a minute, and the more the busier the machine's
/// neighbours are; a longer run hangs.
const DEMO_LIMIT_S: u64 = 600;

/// The demonstration of the program that the tests have built, which is not optimized.
fn demo() -> Outcome {
    let program = match workspace::test_program() {
        Ok(program) => program,
        Err(reason) => return Outcome::Failed(reason),
    };
    let demo = Step::new(&program, &["demo"]).limit_s(DEMO_LIMIT_S).run();
    if demo.passed {
        Outcome::Passed(String::new())
    } else {
        Outcome::Failed(format!("the demonstration failed, or took more than {DEMO_LIMIT_S} s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_named() {
        let output = "test a::b ... ok\ntest a::c ... FAILED\ntest a::d - should panic ... FAILED\n";
        assert_eq!(failed_tests(output), "a::c, a::d");
        assert_eq!(failed_tests("error: could not compile"), "see above");
    }
}
