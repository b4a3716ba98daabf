//! Commands that take long are kept with what their time was spent on, from a threshold on that changes while a target runs.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serving::{Ended, json, selvedge, stderr};

const NQN: &str = "nqn.2026-01.org.example:slow";
const HOST: &str = "nqn.2026-01.org.example:host";

#[test]
fn what_limits_hold_back_is_kept_with_its_host_and_where_its_time_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = format!("unix:{}", folder.path().join("control.sock").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["serve", "-s", "0", "-n", NQN, "--reactors", "1", "--control", &control]);
    command.args(["--namespace", "memory:1m", "--slow-commands", "500ms"]).stdin(Stdio::null());
    let mut target = Ended(command.stdout(Stdio::piped()).spawn().expect("the program runs"));
    let mut lines = BufReader::new(target.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let first = lines.next().expect("where it listens");
    let port = first.rsplit(':').next().expect("a port").to_owned();
    let asked = |words: &[&str]| {
        json(&selvedge(&[&["slow-commands"], words, &["--control", &control, "-o", "json"]].concat()))
    };
    let load = || {
        let words = ["bench", "-a", "127.0.0.1", "-s", &port, "-n", NQN, "-q", HOST, "--nr-io-queues", "1"];
        let work = ["--rw", "randread", "--bs", "8k", "--iodepth", "4", "--runtime", "1"];
        let output = selvedge(&[&words[..], &work].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let empty = asked(&[]);
    assert_eq!((&empty["threshold_ms"], &empty["has_left_out"]), (&500.0.into(), &false.into()));
    load();
    assert_eq!(asked(&[])["commands"], Value::Array(vec![]), "memory takes no time");
    let set = selvedge(&["namespace", "set", NQN, "1", "--iops", "4", "--control", &control]);
    assert!(set.status.success(), "{}", stderr(&set));
    load();
    let log = asked(&[]);
    let commands = log["commands"].as_array().expect("a list");
    assert!(!commands.is_empty(), "{log}");
    for command in commands {
        let took = command["took_us"].as_f64().expect("a time");
        let stages = command["stages_us"].as_object().expect("stages");
        let sum: f64 = stages.values().filter_map(Value::as_f64).sum();
        assert!(took >= 500e3 && (took - sum).abs() < 1.0, "{command}");
        assert!(stages["limits"].as_f64().is_some_and(|limits| limits > took / 2.0), "{command}");
        let known = (&command["host_nqn"], &command["operation"], &command["nsid"], &command["blocks"]);
        assert_eq!(known, (&HOST.into(), &"read".into(), &1.into(), &2.into()));
        assert!(command["block"].as_u64().is_some_and(|block| block < 256), "{command}");
    }
    let text = selvedge(&["slow-commands", "--control", &control]).stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("limits ") && text.contains(HOST), "{text}");
    assert_eq!(asked(&["--threshold", "off"])["threshold_ms"], Value::Null);
    load();
    assert_eq!(asked(&[])["commands"], Value::Array(vec![]), "none are kept");
    for wrong in ["soon", "-1s"] {
        let refused = selvedge(&["slow-commands", "--threshold", wrong, "--control", &control]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
}
