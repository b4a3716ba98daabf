//! The front of the scripts in lab/: it prepares what they need and becomes them. It keeps out what
//! they do.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::command::Step;
use crate::{packages, usage_error, workspace};

/// `cargo xtask lab guest build|run|shell`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["guest", "build"] => built(&[]),
        ["guest", "build", "--fresh"] => built(&["--fresh"]),
        ["guest", "run", ref job @ ..] if !job.is_empty() => built_then(job),
        ["guest", "shell", ref options @ ..] => built_then(&[options, &["--shell"]].concat()),
        _ => usage_error("lab knows: guest build [--fresh], guest run JOB [ARG]..., guest shell"),
    }
}

/// Builds the guest, unless it is there already.
pub(crate) fn build(options: &[&str]) -> Result<(), String> {
    packages::ensure(&packages::GUEST)?;
    let script = script("build-guest.sh");
    if Step::new(&script, options).limit_s(900).run().passed {
        Ok(())
    } else {
        Err("the guest could not be built".to_owned())
    }
}

/// The path of a script in lab/.
pub(crate) fn script(name: &str) -> String {
    workspace::root().join("lab").join(name).display().to_string()
}

fn built(options: &[&str]) -> ExitCode {
    match build(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The script takes our place, with our terminal, so that a shell in the guest is a shell.
fn built_then(args: &[&str]) -> ExitCode {
    if let Err(reason) = build(&[]) {
        eprintln!("xtask: {reason}");
        return ExitCode::FAILURE;
    }
    let error = Command::new(script("run-guest.sh")).args(args).exec();
    eprintln!("xtask: run-guest.sh does not start: {error}");
    ExitCode::FAILURE
}
