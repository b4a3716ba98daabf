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
