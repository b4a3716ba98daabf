//! Everything that is wrong with a change before it runs: formatting, lints, house rules, documentation,
//! licences. It keeps out tests.

use std::process::ExitCode;

use crate::command::Step;
use crate::suite::Outcome;
use crate::{licences, packages, shared_builds, tidy, workspace};

/// `cargo xtask check`.
pub(crate) fn run() -> ExitCode {
    match outcome() {
        Outcome::Passed(note) => {
            println!("check passed{}", if note.is_empty() { note } else { format!(" ({note})") });
            ExitCode::SUCCESS
        }
        Outcome::Failed(reason) | Outcome::Skipped(reason) | Outcome::Laboratory(reason) => {
            println!("check failed: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The same as a suite. Every part runs, so that one round shows all that is wrong.
pub(crate) fn outcome() -> Outcome {
    let mut failed = Vec::new();
    let mut note = |name: &'static str, passed: bool| {
        if !passed {
            failed.push(name);
        }
    };
    add_components();
    note("fmt", workspace::cargo(&["fmt", "--all", "--check"]).run().passed);
    for apart in ["simulate", "dist", "book"] {
        let manifest = format!("{apart}/Cargo.toml");
        note(apart, workspace::cargo(&["fmt", "--manifest-path", &manifest, "--check"]).run().passed);
    }
    note("tidy", tidy::passes());
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    note("clippy", workspace::cargo(&clippy).limit_s(1200).run().passed);
    let doc = workspace::cargo(&["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings");
    note("doc", doc.limit_s(900).run().passed);
    note("licences", licences::pass());
    note("shared builds", shared_builds::pass());
    let mut remark = String::new();
    if packages::is_here("cargo-deny") {
        note("cargo-deny", workspace::cargo(&["deny", "--workspace", "check"]).run().passed);
    } else {
        "without advisories: cargo-deny is not installed".clone_into(&mut remark);
        println!("cargo-deny skipped: not installed (cargo install --locked cargo-deny)");
    }
    if failed.is_empty() { Outcome::Passed(remark) } else { Outcome::Failed(failed.join(", ")) }
}

/// A minimal toolchain lacks these two, and rustup can add them. Without rustup the steps say it.
fn add_components() {
    for (program, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        if !Step::new(program, &["--version"]).run_quietly().passed && packages::is_here("rustup") {
            Step::new("rustup", &["component", "add", component]).run();
        }
    }
}
