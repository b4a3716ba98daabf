//! Prerequisites of tests: a kernel with MPTCP, the right to mount, a program, and time. Where one is missing, the test says so and ends;
//! where `SELVEDGE_PREREQUISITES=required` says that the machine has them all, as `cargo xtask prove machine` does, it fails.

mod free_address;
mod loop_device;
mod patience;

use std::fmt::Display;
use std::process::Command;

pub use free_address::free_address;
pub use loop_device::LoopDevice;
pub use patience::{Wait, patience, wait_for, wait_for_end, wait_until};

/// Says that a test cannot be made here, and why.
///
/// # Panics
/// Where all prerequisites are required.
pub fn missing(what: impl Display) {
    let is_required = std::env::var_os("SELVEDGE_PREREQUISITES").is_some_and(|value| value == "required");
    assert!(!is_required, "a prerequisite of this test is missing: {what}");
    println!("not tested: {what}");
}

/// Value of a prerequisite. Where the machine lacks it, the test is skipped with a line that names
/// the need and the reason.
///
/// # Panics
/// Where it is missing and all prerequisites are required.
pub fn available<T>(need: &str, found: Result<T, impl Display>) -> Option<T> {
    found.map_err(|reason| missing(format!("{need}: {reason}"))).ok()
}

/// Runs a program of the system.
///
/// # Errors
/// Where it is not available or fails, with what it said.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
