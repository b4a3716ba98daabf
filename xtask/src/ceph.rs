//! The suite `ceph`: images of a real Ceph behind our target, and behind three gateways with the Linux kernel as their host. It
//! prepares the program and the lab's, which starts the clusters and has the checks.

use std::path::Path;
use std::time::Duration;

use crate::command::{Process, Step};
use crate::guest::Scratch;
use crate::suite::{Fault, Options, Outcome, passed_tests};
use crate::{gateways, lab, machine, packages, versions, workspace};

/// Three clusters and some minutes of checks, on a machine that does other things as well.
const LIMIT_S: u64 = 1800;
/// The command's installation, two gateways, and some eighty calls, on the same machine.
const CALLS_LIMIT_S: u64 = 600;
/// A cluster that begins, on the same machine.
const CLUSTER_LIMIT: Duration = Duration::from_secs(300);

/// Each has clusters of its own.
pub(crate) fn jobs() -> Vec<String> {
    ["library", "own-host", "kernel-host"].map(str::to_owned).into()
}

/// Runs a job. Where something is wrong, the logs stay.
pub(crate) fn run(options: &Options, job: &str) -> Outcome {
    let prepare = || Ok((workspace::program()?, lab::build_links()?, Scratch::new("ceph", true)?));
    let tried = prepare().and_then(|(program, lab, scratch)| {
        let note = match job {
            "library" => library(&program, &lab, &scratch)?,
            "own-host" => ours(&program, &lab, &scratch)?,
            _ => kernel(&program, &lab, &scratch)?,
        };
        Ok((note, scratch))
    });
    let result = tried.map(|(note, scratch)| {
        if !options.keep {
            // The result does not depend on removing these files.
            let _ = std::fs::remove_dir_all(&scratch.path);
        }
        note
    });
    result.into()
}

/// The tests that take a cluster, on one of their own, which ceph-nvmeof's command then has.
fn library(program: &str, lab: &Path, scratch: &Scratch) -> Result<String, Fault> {
    let folder = scratch.path.join("library").display().to_string();
    let up = Step::new(&lab.display().to_string(), &["ceph", "up", "--dir", &folder]);
    let started = Process::start(&up);
    let mut cluster = started.map_err(|error| format!("the lab does not start: {error}"))?;
    let conf = cluster.wait_for_line("/ceph.conf", CLUSTER_LIMIT);
    let calls = conf.as_ref().map(|line| calls(program, line.trim())).unwrap_or(Ok(()));
    let tests = conf.map(|line| {
        // Of all crates, since those that have such tests would be built again if they were built alone.
        let of = ["test", "--workspace", "--test", "all"];
        let apart = ["--skip", versions::TESTS, "--skip", machine::BY_THE_CLOCK];
        let ignored = [&["--no-fail-fast", "--", "--ignored"][..], &apart].concat();
        let tests = workspace::cargo(&[&of[..], &ignored].concat());
        tests.env("SELVEDGE_CEPH_CONF", line.trim()).limit_s(LIMIT_S).run()
    });
    cluster.terminate();
    let tests = tests?;
    calls?;
    let count = passed_tests(&tests.output);
    if tests.passed && count > 0 {
        Ok(format!("{count} tests, and ceph-nvmeof's command"))
    } else {
        Err(format!("{count} tests passed, others did not").into())
    }
}

/// Runs ceph-nvmeof's own command against two gateways.
fn calls(program: &str, conf: &str) -> Result<(), Fault> {
    packages::ensure(&packages::CEPH_NVMEOF)?;
    let script = workspace::root().join("lab/ceph-nvmeof.sh").display().to_string();
    let folder = workspace::root().join("target/ceph-nvmeof").display().to_string();
    let run = Step::new(&script, &[program, conf, &folder]).limit_s(CALLS_LIMIT_S).run();
    run.output.lines().filter(|line| line.contains(" calls, ")).for_each(|line| println!("  {line}"));
    if run.passed {
        Ok(())
    } else {
        Err("a call of ceph-nvmeof's command did not end as expected".to_owned().into())
    }
}

/// Runs the lab's checks with our own initiator.
fn ours(program: &str, lab: &Path, scratch: &Scratch) -> Result<String, String> {
    let output = scratch.path.display().to_string();
    let args = ["ceph", "test", "--program", program, "--output", &output];
    let run = Step::new(&lab.display().to_string(), &args).limit_s(LIMIT_S).run();
    if !run.passed {
        return Err(format!("see above and {output}"));
    }
    // Figures do not decide the result, but are useful to see.
    run.output.lines().filter(|line| line.starts_with(' ')).for_each(|line| println!("{line}"));
    let count = run.output.lines().filter(|line| line.starts_with("ok ")).count();
    Ok(format!("{count} checks"))
}

/// Runs the checks of the Linux kernel in the guest.
fn kernel(program: &str, lab: &Path, scratch: &Scratch) -> Result<String, Fault> {
    lab::build(&[])?;
    Ok(gateways::kernel(program, &lab.display().to_string(), &scratch.path)?)
}
