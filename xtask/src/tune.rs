//! The suite `tune`: the tuner's changes on interfaces between network namespaces. It prepares the program that makes them
//! and the lab's, which has the checks.

use crate::command::Step;
use crate::guest::Scratch;
use crate::suite::{Options, Outcome};
use crate::{lab, workspace};

/// Time for the suite: a tenth of a minute, and the more the busier the machine is.
const LIMIT_S: u64 = 300;

/// Runs the suite. The recording of a failed check stays.
pub(crate) fn suite(options: &Options) -> Outcome {
    let prepare = || Ok((workspace::program()?, lab::build_links()?, Scratch::new("tune", true)?));
    let prepared: Result<_, String> = prepare();
    let (program, lab, scratch) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return Outcome::Failed(reason),
    };
    let output = scratch.path.display().to_string();
    let args = ["tuning", "--program", &program, "--output", &output];
    let run = Step::new(&lab.display().to_string(), &args).limit_s(LIMIT_S).run();
    if !run.passed {
        return Outcome::Failed(format!("see above and {output}"));
    }
    if !options.keep {
        // The result does not depend on removing these files.
        let _ = std::fs::remove_dir_all(&scratch.path);
    }
    let count = run.output.lines().filter(|line| line.starts_with("ok ")).count();
    Outcome::Passed(format!("{count} checks"))
}
