//! What tests need of the machine they run on: a kernel with MPTCP, the right to mount, a program. Where it is missing, the test
//! says so and ends; where `CI=true` says that everything is there, it fails, so that no test passes by not running.

use std::fmt::Display;

/// Says that a test cannot be made here, and why.
///
/// # Panics
/// Under `CI=true`.
pub fn missing(what: impl Display) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "this machine is to have everything: {what}"
    );
    println!("not tested: {what}");
}

/// What a test needs; where the machine does not give it, the test says which of its needs is not met, and why.
///
/// # Panics
/// Under `CI=true`, where it is missing.
pub fn available<T>(need: &str, found: Result<T, impl Display>) -> Option<T> {
    found.map_err(|reason| missing(format!("{need}: {reason}"))).ok()
}
