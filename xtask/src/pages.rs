//! The suite `pages`: reports and the console in a real browser. It prepares the program that makes them and the lab's, which has the
//! checks, and keeps their files where they are of use.

use crate::command::{Finished, Step};
use crate::guest::Scratch;
use crate::suite::{Options, Outcome};
use crate::{book, lab, packages, workspace};

/// Two minutes of sweeping and looking at pages, on a machine that does other things as well.
const LIMIT_S: u64 = 600;

/// Runs the suite. Pictures of failed checks stay; `--keep` makes pictures in any case.
pub(crate) fn suite(options: &Options) -> Outcome {
    let scratch = match Scratch::new("pages", true) {
        Ok(scratch) => scratch,
        Err(reason) => return Outcome::Failed(reason),
    };
    // The documents as pages: every page is in the summary, and every link leads somewhere.
    if let Err(reason) = book::make(&scratch.path.join("book").display().to_string()) {
        return Outcome::Failed(reason);
    }
    let output = scratch.path.display().to_string();
    let run = match look(&output, options.keep) {
        Ok(run) => run,
        Err(reason) => return Outcome::Failed(reason),
    };
    if !run.passed {
        return Outcome::Failed(format!("see above and {output}"));
    }
    if options.keep {
        return Outcome::Passed(format!("pictures are in {output}"));
    }
    // The result does not depend on removing these files.
    let _ = std::fs::remove_dir_all(&scratch.path);
    let count = run.output.lines().filter(|line| line.starts_with("ok ")).count();
    Outcome::Passed(format!("{count} checks"))
}

/// Makes reports and targets, and looks at their pages in a browser. The files are below `output`, with pictures where wanted.
///
/// # Errors
/// A program that does not build.
pub(crate) fn look(output: &str, with_pictures: bool) -> Result<Finished, String> {
    let (program, lab) = (workspace::program()?, lab::build_program()?);
    let mut args = vec!["browser", "--program", &program, "--output", output];
    args.extend(["--chromium", packages::BROWSER[0].evidence]);
    if with_pictures {
        args.push("--screenshots");
    }
    Ok(Step::new(&lab.display().to_string(), &args).limit_s(LIMIT_S).run())
}
