//! Where things are: the root, the build's output, cargo itself. It keeps out what is done with them.

use std::path::{Path, PathBuf};

use crate::command::Step;
use crate::dist;

/// The folder with the workspace's manifest.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs us, so that a `+toolchain` given by the user stays in force.
pub(crate) fn cargo(args: &[&str]) -> Step {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    Step::new(&cargo, args)
}

/// The program to test. `SELVEDGE_BIN` names one that is already built, to test an installed program.
pub(crate) fn program() -> Result<String, String> {
    if let Ok(path) = std::env::var("SELVEDGE_BIN") {
        return Ok(path);
    }
    Ok(built(&["selvedge"])?.join("selvedge").display().to_string())
}

/// Builds the programs of these packages for release, and gives the folder that they are in. Under CI it is what the
/// packages of the suite `install` have, so that it is built once; what is delivered is optimized more.
pub(crate) fn built(packages: &[&str]) -> Result<PathBuf, String> {
    if is_ci() {
        return dist::programs();
    }
    let named = packages.iter().flat_map(|package| ["-p", package]);
    let words: Vec<&str> = ["build", "--release"].into_iter().chain(named).collect();
    if !cargo(&words).limit_s(1800).run().passed {
        return Err("the release build failed".to_owned());
    }
    Ok(target_dir().join("release"))
}

/// Whether everything has to be here, and nothing may be skipped.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Under CI, which part of a long suite is tried, of this number of parts: the commit says it, so that a run can be had again. None
/// elsewhere, where all are tried.
pub(crate) fn turn(parts: usize) -> Option<usize> {
    if !is_ci() {
        return None;
    }
    let place = root().display().to_string();
    let words = ["-C", &place, "-c", "safe.directory=*", "rev-parse", "HEAD"];
    let commit = Step::new("git", &words).run_quietly();
    let digits = commit.output.trim().chars().take(4).collect::<String>();
    Some(usize::from_str_radix(&digits, 16).unwrap_or(0) % parts)
}
