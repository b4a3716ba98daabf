//! Targets without a configured name: hosts see names derived from the machine and from the
//! storage, so two targets are never taken for one disk.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serving::{Ended, json, selvedge, stderr};

const MACHINES: [&str; 2] = ["3d1219c7c4c5404aaa1f6d2a48adfda4", "9f2c0a6b53d14e8f8b7a1c2d3e4f5061"];

/// A target, killed when the test is over.
struct Serving {
    _child: Ended,
    port: String,
    nqn: String,
}

impl Serving {
    /// On the machine whose identifier is in this file.
    fn start(machine: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "--control", "none", "--reactors", "1", "-o", "json"]).args(arguments);
        command.env("SELVEDGE_MACHINE_ID_FILE", machine).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut text = String::new();
        // The summary is one value over several lines.
        let summary: Value = BufReader::new(stdout)
            .lines()
            .find_map(|line| {
                text += &line.expect("it prints");
                serde_json::from_str(&text).ok()
            })
            .expect("it says what it serves");
        let listening = summary["listening"][0].as_str().expect("an address");
        let port = listening.rsplit_once(':').expect("a port").1.to_owned();
        Self {
            _child: Ended(child),
            port,
            nqn: summary["subsystems"][0]["nqn"].as_str().expect("a name").to_owned(),
        }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Namespaces as hosts see them.
    fn seen(&self) -> Vec<(String, String, String)> {
        let list = json(&selvedge(&["list", "-a", &self.address(), "-o", "json"]));
        let row =
            |row: &Value| ["nqn", "serial", "uuid"].map(|name| row[name].as_str().expect("text").to_owned());
        let rows = list["namespaces"].as_array().expect("a list").iter().map(row);
        rows.map(|[nqn, serial, uuid]| (nqn, serial, uuid)).collect()
    }
}

/// Two machines, each with a disk of the same size.
struct Machines {
    folder: tempfile::TempDir,
}

impl Machines {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, id) in MACHINES.iter().enumerate() {
            std::fs::write(folder.path().join(format!("machine-{number}")), format!("{id}\n"))
                .expect("writes");
        }
        Self { folder }
    }

    /// A target on one of them with defaults for all that is not said.
    fn serve(&self, number: usize, more: &[&str]) -> Serving {
        let disk = format!("file:{},size=16m", self.folder.path().join(format!("disk-{number}")).display());
        let machine = self.folder.path().join(format!("machine-{number}"));
        Serving::start(&machine, &[&["-s", "0", "--namespace", &disk], more].concat())
    }
}

#[test]
fn two_targets_with_default_options_have_nothing_in_common() {
    let machines = Machines::new();
    let (one, two) = (machines.serve(0, &[]), machines.serve(1, &[]));
    let (first, second) = (one.seen().remove(0), two.seen().remove(0));
    assert_ne!(first.0, second.0, "NQN");
    assert_ne!(first.1, second.1, "serial number");
    assert_ne!(first.2, second.2, "UUID");
    // Neither does a third one, on the machine of the first.
    let machine = machines.folder.path().join("machine-0");
    let third = Serving::start(&machine, &["-s", "0", "--namespace", "memory:16m"]);
    assert_ne!(third.nqn, one.nqn);
}

#[test]
fn a_target_is_the_same_after_a_restart() {
    let machines = Machines::new();
    let port = {
        // A port that is free now is free a moment later.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").port().to_string()
    };
    let serve = || {
        let disk = format!("file:{},size=16m", machines.folder.path().join("disk").display());
        Serving::start(&machines.folder.path().join("machine-0"), &["-s", &port, "--namespace", &disk])
    };
    let before = serve().seen();
    assert!(before[0].0.ends_with(&format!(":{port}")), "{before:?}");
    assert_eq!(serve().seen(), before);
    std::fs::remove_file(machines.folder.path().join("disk")).expect("removes");
    let after = serve().seen();
    assert_eq!((&after[0].0, &after[0].1), (&before[0].0, &before[0].1));
    assert_ne!(after[0].2, before[0].2, "another file is another disk");
}

#[test]
fn a_machine_without_an_identifier_has_one_in_the_state_directory() {
    let machines = Machines::new();
    let state = machines.folder.path().join("state");
    let state = state.to_str().expect("UTF-8");
    std::fs::create_dir(state).expect("makes a folder");
    // As a target leaves it that found no identifier of the machine.
    let kept = r#"{"version": 1, "machine": "9e0b2f0e-54a4-4a3a-8a4e-0d9a3b7c1f55"}"#;
    std::fs::write(Path::new(state).join("identities.json"), kept).expect("writes");
    let first = machines.serve(0, &["--state-dir", state]).seen();
    let plain = machines.serve(0, &[]).seen();
    assert_ne!(first[0].2, plain[0].2);
    let again = Serving::start(&machines.folder.path().join("machine-1"), &["--state-dir", state]).seen();
    assert_eq!(again, first, "what was made once wins over what the machine says later");
}

#[test]
fn the_only_subsystem_needs_no_name() {
    let machines = Machines::new();
    let serving = machines.serve(0, &[]);
    let place = ["-a", &serving.address()];
    let identity = json(&selvedge(&[&["identify"][..], &place, &["-o", "json"]].concat()));
    assert_eq!(identity["controller"]["nqn"], serving.nqn.as_str());
    let read = ["--rw", "randread", "--runtime", "1", "-o", "json"];
    let report = json(&selvedge(&[&["bench"][..], &place, &read].concat()));
    assert_eq!(report["options"]["nqn"], serving.nqn.as_str());
    let other = machines.serve(1, &["--allow-host", "nqn.2026-01.org.example:stranger"]);
    for command in [&["list"][..], &["identify"], &["bench", "--rw", "randread", "--runtime", "1"]] {
        let refused = selvedge(&[command, &["-a", &other.address()]].concat());
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert!(stderr(&refused).contains("no subsystem at"), "{}", stderr(&refused));
    }
}
