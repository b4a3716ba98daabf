//! The front of lab/, its scripts and its program: it prepares what they need and becomes them. It keeps
//! out what they do.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::command::Step;
use crate::suite::Fault;
use crate::{bench, packages, usage_error, workspace};

/// `cargo xtask lab guest build|run|shell`, `cargo xtask lab paths`, `cargo xtask lab namespaces`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["guest", "build"] => built(&[]),
        ["guest", "build", option @ ("--fresh" | "--zfs")] => built(&[option]),
        ["guest", "run", ref job @ ..] if !job.is_empty() => built_then(job),
        ["guest", "shell", ref options @ ..] => built_then(&[options, &["--shell"]].concat()),
        ["paths", ref experiment @ ..] => match paths(experiment) {
            Ok(never) => match never {},
            Err(reason) => failed(&reason),
        },
        ["namespaces", ref measurement @ ..] => match namespaces(measurement) {
            Ok(never) => match never {},
            Err(reason) => failed(&reason),
        },
        _ => usage_error(
            "lab knows: guest build [--fresh|--zfs], guest run JOB [ARG]..., guest shell, paths [ARG]..., namespaces [ARG]...",
        ),
    }
}

/// Builds the guest, unless it is there already.
pub(crate) fn build(options: &[&str]) -> Result<(), Fault> {
    packages::ensure(&packages::GUEST)?;
    let script = script("build-guest.sh");
    // OpenZFS takes a compiler nine minutes on one free core.
    let limit_s = if options.contains(&"--zfs") { 3600 } else { 900 };
    if Step::new(&script, options).limit_s(limit_s).run().passed {
        Ok(())
    } else {
        Err(Fault::Laboratory("the guest could not be built".to_owned()))
    }
}

/// The path of a script in lab/.
pub(crate) fn script(name: &str) -> String {
    workspace::root().join("lab").join(name).display().to_string()
}

fn built(options: &[&str]) -> ExitCode {
    match build(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => failed(&String::from(fault)),
    }
}

/// The script takes our place, with our terminal, so that a shell in the guest is a shell.
fn built_then(args: &[&str]) -> ExitCode {
    if let Err(fault) = build(&[]) {
        return failed(&String::from(fault));
    }
    let error = Command::new(script("run-guest.sh")).args(args).exec();
    failed(&format!("run-guest.sh does not start: {error}"))
}

/// Builds what is measured and what measures, and becomes the latter, so that a signal for us is one for
/// it. Without `--output`, results are kept with the other runs of the day.
fn paths(experiment: &[&str]) -> Result<Infallible, String> {
    let program = workspace::measured_program()?;
    let mut command = Command::new(build_links()?);
    command.arg("paths").args(experiment).args(["--program", &program]);
    if !experiment.contains(&"--output") {
        command.arg("--output").arg(bench::kept_runs().join("paths"));
    }
    Err(format!("the lab's program does not start: {}", command.exec()))
}

/// Gateways by their number of namespaces, on a small Ceph. It takes no rights.
fn namespaces(measurement: &[&str]) -> Result<Infallible, String> {
    packages::ensure(&packages::CEPH)?;
    let program = workspace::measured_program()?;
    let mut command = Command::new(build_program()?);
    command.args(["ceph", "namespaces"]).args(measurement).args(["--program", &program]);
    if !measurement.contains(&"--output") {
        command.arg("--output").arg(bench::kept_runs().join("namespaces"));
    }
    Err(format!("the lab's program does not start: {}", command.exec()))
}

/// Builds the lab's own program, with what its links need beside it, and says where it is.
pub(crate) fn build_links() -> Result<PathBuf, String> {
    packages::ensure(&packages::PATHS)?;
    build_program()
}

/// Builds the lab's own program, and says where it is.
pub(crate) fn build_program() -> Result<PathBuf, String> {
    // Alone it would have most crates built again: what it asks of them is less than what both ask.
    Ok(workspace::built(&["selvedge", "lab"])?.join("lab"))
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("xtask: {reason}");
    ExitCode::FAILURE
}
