//! What packages ship of the command line: man pages that `man` reads without a complaint, and completions that know what the
//! running target serves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::serving::{Ended, listed_commands};

const NQN: &str = "nqn.2026-01.org.example:completed";

fn selvedge() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.stdin(Stdio::null());
    command
}

/// The commands below one, as its help lists them.
fn listed(words: &[&str]) -> Vec<String> {
    let help = selvedge().args(words).arg("--help").output().expect("the program runs").stdout;
    let help = String::from_utf8(help).expect("UTF-8");
    listed_commands(&help)
}

fn pages(words: &[&str], found: &mut Vec<String>) {
    found.push(["selvedge"].iter().chain(words).copied().collect::<Vec<_>>().join("-") + ".1");
    for name in listed(words) {
        pages(&words.iter().copied().chain([name.as_str()]).collect::<Vec<_>>(), found);
    }
}

#[test]
fn every_command_has_a_page_with_an_example() {
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        selvedge().args(["generate", "--output"]).arg(folder.path()).status().expect("the program runs");
    assert!(made.success());
    let mut wanted = Vec::new();
    pages(&[], &mut wanted);
    assert!(wanted.len() > 40, "{wanted:?}");
    for page in &wanted {
        let text = std::fs::read_to_string(folder.path().join("man").join(page)).unwrap_or_default();
        let name = page.trim_end_matches(".1").replace('-', "\\-");
        assert!(
            text.contains(&format!(".SH NAME\n{name} \\- ")),
            "{page} is missing or names another command"
        );
        assert!(text.contains("Example"), "{page}");
        assert!(!text.contains("\\-help(1)"), "{page} refers to a page that does not exist");
    }
    let bench = std::fs::read_to_string(folder.path().join("man/selvedge-bench.1")).expect("a page");
    let synopsis = bench.split(".SH ").find(|section| section.starts_with("SYNOPSIS")).expect("a synopsis");
    assert!(synopsis.contains("[OPTIONS]") && !synopsis.contains("iodepth"), "{synopsis}");
    for (page, settings) in [
        (
            "selvedge-target.toml.5",
            &["backend.file.path", "quotas.queues_per_host", "[[subsystem.namespace]]"][..],
        ),
        ("selvedge-job.5", &["iodepth", "stonewall"]),
    ] {
        let text = std::fs::read_to_string(folder.path().join("man").join(page)).expect(page);
        assert!(settings.iter().all(|setting| text.contains(setting)), "{page}");
        assert!(text.contains(".SH EXAMPLE"), "{page}");
    }
    let schema = std::fs::read_to_string(folder.path().join("target.schema.json")).expect("it is there");
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    assert!(schema.pointer("/properties/subsystem/items").is_some(), "{schema}");
    for script in ["bash/selvedge", "zsh/_selvedge", "fish/selvedge.fish"] {
        let text = std::fs::read_to_string(folder.path().join("completions").join(script)).expect(script);
        assert!(text.contains("SELVEDGE_COMPLETE"), "{script}");
    }
}

/// A target whose control socket is where the commands look for it.
fn serve(folder: &Path) -> Ended {
    let mut command = selvedge();
    command.env("XDG_RUNTIME_DIR", folder).env("RUNTIME_DIRECTORY", folder);
    command.args(["serve", "-s", "0", "-n", NQN, "--reactors", "1", "--namespace", "null:1m,nsid=77"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains(" null ")));
    Ended(child)
}

/// Completions of the last of these words in a shell.
fn completed(folder: &Path, words: &[&str]) -> String {
    let mut command = selvedge();
    command.env("XDG_RUNTIME_DIR", folder).env("RUNTIME_DIRECTORY", folder).env("SELVEDGE_COMPLETE", "bash");
    command.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
    let output = command.arg("--").args(words).output().expect("the program runs");
    assert!(
        output.stderr.is_empty(),
        "the completion prints errors: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_shell_is_offered_what_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(completed(folder.path(), &["selvedge", "namespace", "show", "nqn"]), "", "nothing runs yet");
    assert!(completed(folder.path(), &["selvedge", "namesp"]).contains("namespace"));
    let _serving = serve(folder.path());
    assert!(completed(folder.path(), &["selvedge", "namespace", "show", "nqn.2026"]).contains(NQN));
    assert_eq!(completed(folder.path(), &["selvedge", "namespace", "show", "nqn.2027"]), "");
    assert!(completed(folder.path(), &["selvedge", "namespace", "show", NQN, ""]).contains("77"));
    assert!(completed(folder.path(), &["selvedge", "status", "--control", "unix:"]).contains(".sock"));
}
