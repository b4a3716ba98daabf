//! Threads that meet without locks: models of it in which loom plays every order, and their code under Miri, which sees
//! undefined behaviour. What the models hold the code to stands beside the code, in files called `races`.

use std::process::ExitCode;

use crate::command::Step;
use crate::suite::{Outcome, passed_tests};
use crate::{usage_error, workspace};

/// The build takes some minutes beside busy neighbours, the models half a minute.
const LIMIT_S: u64 = 1800;

/// Files with unsafe code that Miri can run, and that do not depend on the system. It has no other
/// mappings than private ones, no io_uring, and one thread that writes megabytes takes it minutes.
const UNDER_MIRI: [&str; 5] =
    ["ring::buffer", "ring::span", "threads_give_back", "page_locks::tests", "memory::tests"];

/// Builds the models, and plays those that are named. A feature rather than a flag of the compiler:
/// most of what it is built of is what the unit suite has built.
fn step(last: &str) -> Step {
    workspace::cargo(&["test", "-p", "selvedge-engine", "--lib", "--features", "loom", last]).limit_s(LIMIT_S)
}

/// Plays all models.
pub(crate) fn suite() -> Outcome {
    let models = step("races::").run();
    let count = passed_tests(&models.output);
    match models.passed {
        true if count > 0 => Outcome::Passed(format!("{count} models, in every order")),
        true => Outcome::Failed("no model was found".to_owned()),
        false => Outcome::Failed(format!("{count} models hold, others do not")),
    }
}

/// `cargo xtask miri`.
pub(crate) fn miri(args: &[String]) -> ExitCode {
    if !args.is_empty() {
        return usage_error("miri takes no arguments");
    }
    if !Step::new("cargo", &["+nightly", "miri", "--version"]).run().passed {
        eprintln!("xtask: Miri is not here; `rustup toolchain install nightly --component miri` brings it");
        return ExitCode::FAILURE;
    }
    let target_dir = workspace::target_dir().join("miri").display().to_string();
    let mut words =
        vec!["+nightly", "miri", "test", "-p", "selvedge-engine", "--lib", "--target-dir", &target_dir, "--"];
    words.extend(UNDER_MIRI);
    words.extend(["--skip", "zeroing_touches"]);
    let tests =
        Step::new("cargo", &words).env("MIRIFLAGS", "-Zmiri-disable-isolation").limit_s(LIMIT_S).run();
    let count = passed_tests(&tests.output);
    println!("{count} tests passed under Miri");
    if tests.passed && count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
