//! Where things are: the root, the build's output, cargo itself. It keeps out what is done with them.

use std::path::{Path, PathBuf};

use crate::command::Step;

/// The folder with the workspace's manifest.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Folder of cargo's builds.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Name of the package in a folder of `crates`: published ones have a longer name than their folder and their library.
pub(crate) fn package(folder: &str) -> Result<String, String> {
    let path = format!("crates/{folder}/Cargo.toml");
    let text = std::fs::read_to_string(root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.map(str::to_owned).ok_or_else(|| format!("{path} has no name"))
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

/// Builds the programs of these packages for release, and gives the folder that they are in.
pub(crate) fn built(packages: &[&str]) -> Result<PathBuf, String> {
    let named = packages.iter().flat_map(|package| ["-p", package]);
    let words: Vec<&str> = ["build", "--release"].into_iter().chain(named).collect();
    if !cargo(&words).limit_s(1800).run().passed {
        return Err("the release build failed".to_owned());
    }
    Ok(target_dir().join("release"))
}

/// Builds the program as packages have it, for measurements, in a folder of its own: target/dist is the packages'.
pub(crate) fn measured_program() -> Result<String, String> {
    if let Ok(path) = std::env::var("SELVEDGE_BIN") {
        return Ok(path);
    }
    let folder = target_dir().join("measured");
    let build = cargo(&["build", "--profile", "dist", "-p", "selvedge"]);
    if !build.env("CARGO_TARGET_DIR", &folder.display().to_string()).limit_s(3600).run().passed {
        return Err("the program does not build as packages have it".to_owned());
    }
    Ok(folder.join("dist/selvedge").display().to_string())
}

/// The program as tests have it, built with the whole workspace's features, as theirs is.
pub(crate) fn test_program() -> Result<String, String> {
    if let Ok(path) = std::env::var("SELVEDGE_BIN") {
        return Ok(path);
    }
    // As `build` alone it would have other features of some crates, and most would be built again.
    if !cargo(&["test", "--workspace", "--no-run"]).limit_s(1800).run().passed {
        return Err("the program does not build".to_owned());
    }
    Ok(target_dir().join("debug/selvedge").display().to_string())
}

/// Says to tests, by `required`, that the machine has all of their prerequisites (crates/prerequisite).
pub(crate) const PREREQUISITES: &str = "SELVEDGE_PREREQUISITES";

/// True if all prerequisites are required, and nothing may be skipped.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}
