//! `cargo xtask simulate`: builds the simulation and plays scenes, or breaks the engine and looks whether it is noticed.

use std::path::Path;
use std::process::ExitCode;

use crate::command::Step;
use crate::suite::Outcome;
use crate::{mutants, workspace};

/// Seeds that the suite plays, and the most seconds it may take for them.
const SUITE_SEEDS: u64 = 400;
const SUITE_LIMIT_S: u64 = 900;
/// Time for a build, in seconds.
pub(crate) const BUILD_LIMIT_S: u64 = 1200;
/// Time after which any other run is cut off, in seconds.
const LIMIT_S: u64 = 24 * 3600;

/// `cargo xtask simulate --seed N | --seeds A..B | --minutes M | --mutants`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match arguments.split_first() {
        Some((first, names)) if first == "--mutants" => return mutants::run(names),
        _ => {}
    }
    let program = match build(&workspace::root(), "scenes") {
        Ok(program) => program,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let played = Step::new(&program, &arguments).limit_s(LIMIT_S).run();
    if played.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The gate's part: the simulation's own tests, and a fixed number of seeds.
pub(crate) fn suite() -> Outcome {
    if !own_tests().run().passed {
        return Outcome::Failed("the simulation's own tests fail".to_owned());
    }
    let program = match build(&workspace::root(), "scenes") {
        Ok(program) => program,
        Err(reason) => return Outcome::Failed(reason),
    };
    let range = format!("0..{SUITE_SEEDS}");
    let arguments = ["--seeds", &range, "--twice", "100", "--coverage"];
    if !Step::new(&program, &arguments).limit_s(SUITE_LIMIT_S).run().passed {
        return Outcome::Failed("a seed fails".to_owned());
    }
    Outcome::Passed(format!("{SUITE_SEEDS} seeds"))
}

/// The simulation's own tests.
fn own_tests() -> Step {
    let manifest = workspace::root().join("simulate/Cargo.toml").display().to_string();
    let words = ["test", "--manifest-path", &manifest];
    workspace::cargo(&words).env("CARGO_TARGET_DIR", &target_dir()).limit_s(BUILD_LIMIT_S)
}

/// Folder of builds, shared with other tests.
fn target_dir() -> String {
    workspace::target_dir().display().to_string()
}

/// Builds the simulation of a tree, and keeps it under a name of its own: what it is built of is shared.
pub(crate) fn build(tree: &Path, name: &str) -> Result<String, String> {
    let manifest = tree.join("simulate/Cargo.toml").display().to_string();
    let build = workspace::cargo(&["build", "--manifest-path", &manifest])
        .env("CARGO_TARGET_DIR", &target_dir())
        .limit_s(BUILD_LIMIT_S)
        .run();
    if !build.passed {
        return Err("the simulation does not build".to_owned());
    }
    let folder = workspace::target_dir().join("simulate");
    let program = folder.join(name);
    let copied = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::copy(workspace::target_dir().join("debug/simulate"), &program));
    copied.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program.display().to_string())
}
