//! `lab tuning`: the real program plans, changes and restores an interface with several queues, between two network
//! namespaces. It decides what is checked and tells what is wrong; each check says what is right.

mod changes;
mod counters;
mod crash;
mod loss;
mod sight;
mod snapshot;
mod testbed;

use std::path::PathBuf;

use clap::Args;
use rustix::process::geteuid;

use crate::answer::{has_failed, system_path};
use testbed::{Namespaces, Testbed};

/// The command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The selvedge to try
    #[arg(long, value_name = "PATH")]
    program: String,
    /// Folder of its files
    #[arg(long, value_name = "DIR", default_value = "tuning")]
    output: PathBuf,
    /// The target's namespace, where this process is inside the host's already.
    #[arg(long, hide = true)]
    inside: Option<String>,
}

/// A check: what it is called, and what finds out.
type Check = (&'static str, fn(&Testbed) -> Result<(), String>);

/// In the order in which they run: each leaves everything as it was.
const CHECKS: [Check; 17] = [
    ("a plan names channels, XPS and RPS, and changes nothing", changes::plan_changes_nothing),
    ("a dry run of apply changes nothing", changes::dry_run_changes_nothing),
    ("apply does what the plan says", changes::apply_does_the_plan),
    ("another apply is refused while a plan is in effect", changes::second_apply_is_refused),
    ("revert restores every file byte for byte", changes::revert_restores),
    ("a second revert says that there is nothing", changes::second_revert_has_nothing),
    ("show lists our queues with qid, worker and CPU, and the target its flows", sight::queues_are_seen),
    ("a recording shows what the machine showed", sight::recording_is_the_machine),
    ("without root, show works and says what root would add", sight::show_without_root),
    ("without root, apply fails with one clear line", sight::apply_without_root),
    ("flows send by their queues, and RPS brings theirs to their CPUs", counters::flows_are_on_their_queues),
    ("kill -9 before any write, then revert: all as before", crash::killed_before_any_write),
    ("a journal that a crash left refuses apply until revert", crash::journal_refuses_apply),
    ("kill -9 while the workers run elsewhere: their CPUs come back", crash::affinities_come_back),
    ("an interface that goes away in the middle: stop, revert, say so", loss::gone_in_the_middle),
    ("an interface that went away after a crash: revert tells it", loss::gone_after_a_crash),
    ("an absent interface is reported with those that exist", loss::never_there),
];

/// `lab tuning [OPTION]...`
///
/// # Errors
/// What could not be done, or went wrong.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    match &arguments.inside {
        None => outside(arguments),
        Some(target) => match inside(arguments, target)? {
            0 => Ok(()),
            count => Err(format!("{count} of the checks failed")),
        },
    }
}

/// Makes the namespaces and goes on inside the host's, where /sys is its own; they go whatever happens there.
fn outside(arguments: &Arguments) -> Result<(), String> {
    if !geteuid().is_root() {
        return Err(
            "tuning makes network namespaces and changes what is in them, which takes root".to_owned()
        );
    }
    let cannot = |path: &std::path::Path, error: std::io::Error| format!("{}: {error}", path.display());
    let program = std::path::Path::new(&arguments.program);
    let program = program.canonicalize().map_err(|error| cannot(program, error))?;
    let output = &arguments.output;
    std::fs::create_dir_all(output).map_err(|error| cannot(output, error))?;
    let output = output.canonicalize().map_err(|error| cannot(output, error))?;
    let namespaces = Namespaces::new()?;
    let me = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", &namespaces.host]).arg(me).args([
        "tuning",
        "--inside",
        &namespaces.target,
    ]);
    command.arg("--program").arg(program).arg("--output").arg(output);
    match command.env("PATH", system_path()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("see above".to_owned()),
        Err(error) => Err(format!("cannot run ip: {error}")),
    }
}

/// All checks, in the host's namespace. How many failed.
fn inside(arguments: &Arguments, target: &str) -> Result<usize, String> {
    let testbed = Testbed::new(&arguments.program, target, &arguments.output)?;
    let mut failed = 0;
    for (name, check) in CHECKS {
        if has_failed(name, &check(&testbed)) {
            failed += 1;
            // What one check left in effect must not make the others fail.
            testbed.clear();
        }
    }
    Ok(failed)
}
