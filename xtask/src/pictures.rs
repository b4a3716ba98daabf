//! `cargo xtask pictures`: the documents' pictures of the console, with the changes of its page since they were taken, and their
//! renewal by the suite `pages`.

use std::process::ExitCode;

use crate::command::Step;
use crate::guest::Scratch;
use crate::{packages, pages, workspace};

/// Names in docs/, and those that `lab browser` gives them.
const PICTURES: [(&str, &str); 6] = [
    ("console-change.png", "changes-shown.png"),
    ("console-findings.png", "findings-light-1280.png"),
    ("console-gateways.png", "gateways-light-1280.png"),
    ("console-overview.png", "overview-light-1280.png"),
    ("console-sweeps.png", "sweeps-real-light-1280.png"),
    ("console-topology.png", "topology-light-1280.png"),
];
/// The page, and the target that it shows in pictures.
const SOURCES: [&str; 2] = ["crates/administration/src/control/console", "lab/src/browser/console"];

/// `cargo xtask pictures [--take]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let result = match args {
        [] => list(),
        [flag] if flag == "--take" => take(),
        _ => return crate::usage_error("pictures takes --take and nothing else"),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints each picture with the later commits on its sources.
fn list() -> Result<(), String> {
    for (name, _) in PICTURES {
        let path = format!("docs/{name}");
        let taken = git(&["log", "-1", "--format=%h %cs", "--", &path])?;
        let (commit, date) =
            taken.trim().split_once(' ').ok_or_else(|| format!("{path} is not committed"))?;
        let since = format!("{commit}..HEAD");
        let later = git(&["log", "--format=  %h %s", &since, "--", SOURCES[0], SOURCES[1]])?;
        println!("{path}, taken {date}: {} later changes of the page", later.lines().count());
        print!("{later}");
    }
    Ok(())
}

/// Replaces all of them by pictures of this checkout.
fn take() -> Result<(), String> {
    packages::ensure(&packages::BROWSER)?;
    let scratch = Scratch::new("pictures", false)?;
    let looked = pages::look(&scratch.path.display().to_string(), true)?;
    if !looked.passed {
        return Err("checks of the pages failed; the pictures are as they were".to_owned());
    }
    for (name, taken) in PICTURES {
        let (from, to) =
            (scratch.path.join("console").join(taken), workspace::root().join("docs").join(name));
        std::fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
        println!("{}", to.display());
    }
    println!("look at them before you commit them");
    Ok(())
}

fn git(words: &[&str]) -> Result<String, String> {
    let root = workspace::root().display().to_string();
    let done = Step::new("git", &[&["-C", &root][..], words].concat()).run_quietly();
    if done.passed { Ok(done.output) } else { Err(done.output) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_of_the_documents_can_be_taken() {
        let files = std::fs::read_dir(workspace::root().join("docs")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<String> = names.filter(|name| name.ends_with(".png")).collect();
        found.sort();
        assert_eq!(found, PICTURES.map(|(name, _)| name));
        for source in SOURCES {
            assert!(workspace::root().join(source).is_dir(), "{source}");
        }
    }
}
