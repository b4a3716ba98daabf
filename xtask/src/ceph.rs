//! The suite `ceph`: images of a real Ceph behind our target, and behind two gateways with the Linux kernel as their host. It
//! prepares the program and the lab's, which starts the clusters and has the checks.

use std::path::Path;

use crate::command::Step;
use crate::guest::Scratch;
use crate::test::{Options, Outcome};
use crate::{gateways, lab, workspace};

/// Three clusters and some minutes of checks, on a machine that does other things as well.
const LIMIT_S: u64 = 1800;

/// Where something is wrong, the logs stay.
pub(crate) fn suite(options: &Options) -> Outcome {
    let prepare = || Ok((workspace::program()?, lab::build_links()?, Scratch::new("ceph", true)?));
    let prepared: Result<_, String> = prepare();
    let (program, lab, scratch) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return Outcome::Failed(reason),
    };
    let results = [
        ("our own host", ours(&program, &lab, &scratch)),
        ("the kernel's host of two gateways", kernel(&program, &lab, &scratch)),
    ];
    let (mut notes, mut failed) = (Vec::new(), Vec::new());
    for (name, result) in results {
        match result {
            Ok(note) => notes.push(format!("{name}: {note}")),
            Err(reason) => failed.push(format!("{name}: {reason}")),
        }
    }
    if !failed.is_empty() {
        return Outcome::Failed(failed.join("; "));
    }
    if !options.keep {
        // What is left is no reason to fail.
        let _ = std::fs::remove_dir_all(&scratch.path);
    }
    Outcome::Passed(notes.join("; "))
}

/// What the lab checks with our own initiator.
fn ours(program: &str, lab: &Path, scratch: &Scratch) -> Result<String, String> {
    let output = scratch.path.display().to_string();
    let args = ["ceph", "test", "--program", program, "--output", &output];
    let run = Step::new(&lab.display().to_string(), &args).limit_s(LIMIT_S).run();
    if !run.passed {
        return Err(format!("see above and {output}"));
    }
    // Figures are no verdict, and are of use all the same.
    run.output.lines().filter(|line| line.starts_with(' ')).for_each(|line| println!("{line}"));
    let count = run.output.lines().filter(|line| line.starts_with("ok ")).count();
    Ok(format!("{count} checks"))
}

/// What the Linux kernel in the guest checks.
fn kernel(program: &str, lab: &Path, scratch: &Scratch) -> Result<String, String> {
    lab::build(&[])?;
    gateways::kernel(program, &lab.display().to_string(), &scratch.path)
}
