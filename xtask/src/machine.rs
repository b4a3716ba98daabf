//! The suite `machine`: tests that take more of the machine than the gate may ask for. None of their prerequisites may be missing, and
//! the clock has to be right.

use crate::gate;
use crate::suite::{Options, Outcome};

/// Tests that only the clock can decide: their modules have this name, and the gate passes them over.
pub(crate) const BY_THE_CLOCK: &str = "by_the_clock::";

pub(crate) fn jobs() -> Vec<String> {
    ["tests", "clock"].map(str::to_owned).into()
}

/// Runs all tests with all prerequisites, or those by the clock.
pub(crate) fn run(_: &Options, job: &str) -> Outcome {
    let all = ["test", "--workspace", "--no-fail-fast"];
    match job {
        "clock" => gate::tests(&[&all[..], &["--", "--ignored", BY_THE_CLOCK]].concat(), true),
        _ => gate::tests(&all, true),
    }
}
