//! `-o json` where it once meant something else or was missing: what it prints is JSON, and it writes no file.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::serving::{json, stderr};

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the program runs")
}

fn files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    files.map(|name| name.to_string_lossy().into_owned()).collect()
}

const SAVED: &str = r#"{"ports": [{"portid": 1, "addr": {"trtype": "tcp", "traddr": "127.0.0.1", "trsvcid": "4420"},
    "subsystems": ["nqn.nvmet:a"]}], "subsystems": [{"nqn": "nqn.nvmet:a", "attr": {"allow_any_host": "1"}}]}"#;

#[test]
fn an_import_prints_json_and_writes_where_output_says() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("saved"), SAVED).expect("it can be written");
    let told = json(&run_in(folder.path(), &["import", "nvmet", "saved", "-o", "json"]));
    assert_eq!(told["config"]["subsystems"][0]["nqn"], "nqn.nvmet:a");
    assert!(told["output"].is_null());
    assert_eq!(files(folder.path()), ["saved"], "`json` is a format");
    let former = run_in(folder.path(), &["import", "nvmet", "saved", "-o", "target.toml"]);
    assert_eq!(former.status.code(), Some(2));
    assert!(stderr(&former).contains("--output target.toml"), "{}", stderr(&former));
    assert_eq!(files(folder.path()), ["saved"]);
    let both = ["import", "nvmet", "saved", "--output", "target.toml", "--output-format", "json"];
    assert_eq!(json(&run_in(folder.path(), &both))["output"], "target.toml");
    assert!(folder.path().join("target.toml").exists());
}

#[test]
fn the_api_and_a_plan_are_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let document = json(&run_in(folder.path(), &["openapi", "-o", "json"]));
    assert!(document["openapi"].is_string());
    let sweep = ["sweep", "-a", "127.0.0.1", "-n", "nqn.a", "--preset", "quick", "--dry-run", "-o", "json"];
    let plan = json(&run_in(folder.path(), &sweep));
    assert_eq!(plan["points"].as_array().map(Vec::len), Some(9));
    assert_eq!(plan["measurements"], 18);
    assert!(plan["takes_s"].as_f64().is_some_and(|seconds| seconds > 18.0));
}

#[test]
fn a_refusal_is_text_and_prints_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [
        &["import", "nvmet", "missing", "-o", "json"][..],
        &["discover", "-a", "127.0.0.1", "-s", "1", "-o", "json"],
        &["bench", "-a", "127.0.0.1", "-s", "1", "-n", "nqn.a", "--rw", "read", "-o", "json"],
        &["report", "missing", "-o", "json"],
        &["compare", "missing", "missing", "-o", "json"],
        &["config", "check", "missing", "-o", "json"],
        &["status", "--control", "unix:missing", "-o", "json"],
        &["tune", "show", "--sysroot", "missing", "-o", "json"],
    ] {
        let output = run_in(folder.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(stderr(&output).starts_with("selvedge: "), "{arguments:?}: {}", stderr(&output));
    }
}
