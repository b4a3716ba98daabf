//! `cargo xtask chaos` and the suite of that name: they prepare the lab's program and what it tries. They keep out what it
//! does with it.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::command::Step;
use crate::guest::Scratch;
use crate::suite::{Options, Outcome};
use crate::{lab, packages, workspace};

/// The suite's run: short, and the same each time as far as a seed decides.
const SUITE: [&str; 4] = ["--minutes", "2", "--seed", "20260727"];
/// Two minutes of chaos, with everything that may take long afterwards.
const SUITE_LIMIT_S: u64 = 600;
const NEEDS_ROOT: &str = "chaos makes network namespaces, devices and a mount, which takes root";

/// `cargo xtask chaos --minutes M [--seed N] [--attackers N] [--output DIR] [--output-format normal|json]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    match become_chaos(args) {
        Ok(never) => match never {},
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Builds both programs and becomes the lab's, so that a signal for us is one for it. Without `--output`, its logs are
/// below the build's output: they are of use when it fails, and no measurements to be kept.
fn become_chaos(args: &[String]) -> Result<Infallible, String> {
    if !packages::is_root() {
        return Err(NEEDS_ROOT.to_owned());
    }
    packages::ensure(&packages::CHAOS)?;
    let program = workspace::program()?;
    let mut command = Command::new(lab::build_links()?);
    command.arg("chaos").args(args).args(["--program", &program]);
    if !args.iter().any(|arg| arg == "--output") {
        let name = format!("chaos-{}", std::process::id());
        command.arg("--output").arg(workspace::target_dir().join(name));
    }
    Err(format!("the lab's program does not start: {}", command.exec()))
}

/// The suite. Where it fails, its logs stay.
pub(crate) fn suite(options: &Options) -> Outcome {
    let prepared = workspace::program()
        .and_then(|program| Ok((program, lab::build_links()?, Scratch::new("chaos", true)?)));
    let (program, lab, scratch) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return Outcome::Failed(reason),
    };
    let output = scratch.path.display().to_string();
    let args = [&["chaos"], &SUITE[..], &["--program", &program, "--output", &output]].concat();
    let run = Step::new(&lab.display().to_string(), &args).limit_s(SUITE_LIMIT_S).run();
    if !run.passed {
        return Outcome::Failed(format!("seed {}: see above and {output}", SUITE[3]));
    }
    let table: String = run
        .output
        .lines()
        .skip_while(|line| !line.ends_with(SUITE[3]))
        .map(|l| l.to_owned() + "\n")
        .collect();
    println!("{}", table.trim_end());
    if !options.keep {
        // The result does not depend on removing these files.
        let _ = std::fs::remove_dir_all(&scratch.path);
    }
    Outcome::Passed(format!("2 minutes, seed {}", SUITE[3]))
}
