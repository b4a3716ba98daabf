//! `cargo xtask book`: builds and starts what makes HTML of the documents, whose folder is book/.

use std::process::ExitCode;

use crate::command::Step;
use crate::workspace;

/// Time for a build: the first one has a hundred crates.
const LIMIT_S: u64 = 900;

/// `cargo xtask book [--output DIR]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let output = match args {
        [] => workspace::target_dir().join("book").display().to_string(),
        [flag, folder] if flag == "--output" => folder.clone(),
        _ => return crate::usage_error("book takes --output DIR and nothing else"),
    };
    match make(&output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the book in this folder. Once its crates are here, it needs no network.
pub(crate) fn make(output: &str) -> Result<(), String> {
    let root = workspace::root();
    let manifest = root.join("book/Cargo.toml").display().to_string();
    let maker = workspace::target_dir().join("book-maker");
    let build = workspace::cargo(&["build", "--quiet", "--locked", "--manifest-path", &manifest])
        .env("CARGO_TARGET_DIR", &maker.display().to_string())
        .limit_s(LIMIT_S)
        .run();
    if !build.passed {
        return Err("what makes the book does not build".to_owned());
    }
    let program = maker.join("debug/book").display().to_string();
    let made = Step::new(&program, &[&root.display().to_string(), output]).limit_s(LIMIT_S).run();
    if !made.passed {
        return Err("the book was not made".to_owned());
    }
    print!("{}", made.output);
    Ok(())
}
