//! The suite `versions`: the release before and this version together. It keeps out what is tried, which the program's tests say.

use crate::suite::{Outcome, passed_tests};
use crate::{releases, workspace};

/// Module of the tests that need the release before.
pub(crate) const TESTS: &str = "compatibility::";
/// Most of it is building, where no other suite has done it.
const LIMIT_S: u64 = 2400;

/// Builds the release before, and runs the tests that need it.
pub(crate) fn suite() -> Outcome {
    let release = match releases::before() {
        Ok(release) => release,
        Err(reason) => return Outcome::Failed(reason),
    };
    let program = match releases::build(release) {
        Ok(program) => program,
        Err(reason) => return Outcome::Failed(reason),
    };
    let of = ["test", "--workspace", "--test", "all", "--no-fail-fast", "--", "--ignored", TESTS];
    let tests =
        workspace::cargo(&of).env("SELVEDGE_BEFORE", &program.display().to_string()).limit_s(LIMIT_S).run();
    match (tests.passed, passed_tests(&tests.output)) {
        (true, 0) => Outcome::Failed("nothing was tried".to_owned()),
        (true, count) => Outcome::Passed(format!("{count} tests with release {}", release.version)),
        (false, _) => Outcome::Failed(format!("it does not go with release {}", release.version)),
    }
}
