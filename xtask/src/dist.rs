//! `cargo xtask dist`: builds and starts the packager, whose folder is dist/, and compares what two folders make. What is in
//! a package is the packager's own concern.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::command::Step;
use crate::workspace;

/// Two release builds, beside busy neighbours.
const MAKE_LIMIT_S: u64 = 3600;
const BUILD_LIMIT_S: u64 = 900;

/// `cargo xtask dist [--output DIR] [--earlier VERSION] [--quick] [--twice]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["--twice"] => twice(),
        rest if rest.contains(&"--twice") => Err("--twice stands alone".to_owned()),
        rest => make(&workspace::root(), &workspace::target_dir(), rest),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the packages of the checkout in `root`. What is built stays below `work`, packages in `work`/dist where `args`
/// name no other place.
pub(crate) fn make(root: &Path, work: &Path, args: &[&str]) -> Result<(), String> {
    let manifest = root.join("dist/Cargo.toml").display().to_string();
    let packager = work.join("packager");
    let build = workspace::cargo(&["build", "--quiet", "--locked", "--manifest-path", &manifest])
        .env("CARGO_TARGET_DIR", &packager.display().to_string())
        .limit_s(BUILD_LIMIT_S)
        .run();
    if !build.passed {
        return Err("the packager does not build".to_owned());
    }
    let program = packager.join("debug/dist").display().to_string();
    let (root, work) = (root.display().to_string(), work.display().to_string());
    let mut line = vec!["--root", &root, "--work", &work];
    line.extend(args);
    let made = Step::new(&program, &line).limit_s(MAKE_LIMIT_S).run();
    if !made.passed {
        return Err("the packages were not made".to_owned());
    }
    print!("{}", made.output);
    Ok(())
}

/// Makes the packages of the last commit in this folder and in a clone beside it. Both have to be the same bytes.
pub(crate) fn twice() -> Result<(), String> {
    let first = workspace::target_dir();
    let second = first.join("a second folder");
    let clone = second.join("selvedge");
    if second.exists() {
        std::fs::remove_dir_all(&second).map_err(|error| format!("{}: {error}", second.display()))?;
    }
    std::fs::create_dir_all(&second).map_err(|error| format!("{}: {error}", second.display()))?;
    let root = workspace::root().display().to_string();
    let cloned = Step::new("git", &["clone", "--quiet", &root, &clone.display().to_string()]).run();
    if !cloned.passed {
        return Err("the checkout cannot be cloned".to_owned());
    }
    make(&workspace::root(), &first, &[])?;
    make(&clone, &clone.join("target"), &[])?;
    let (one, other) = (sums(&first)?, sums(&clone.join("target"))?);
    if one != other {
        return Err(format!("two folders make different packages:\n{one}\n{other}"));
    }
    println!("the same from two folders:\n{one}");
    Ok(())
}

fn sums(work: &Path) -> Result<String, String> {
    let path: PathBuf = work.join("dist/SHA256SUMS");
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}
