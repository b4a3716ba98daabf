//! The program as people and scripts use it: exit statuses, what it prints, and a target that dies while it is
//! written to. What each part does alone is tested where it stands.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::serving::{Ended, program, selvedge, stderr};

const NQN: &str = "nqn.2026-01.io.selvedge:target";

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), stderr(output))
    })
}

/// A target, killed when the test is over however it ends.
struct Serving {
    child: Ended,
    port: String,
}

impl Serving {
    fn start(namespace: &str, port: &str) -> Self {
        let arguments = ["serve", "-s", port, "-n", NQN, "--namespace", namespace, "--reactors", "1"];
        let mut child = program(&arguments).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it prints where it listens");
        let port = line.trim().strip_prefix("listening on 127.0.0.1:").expect("where it listens comes first");
        Self { port: port.to_owned(), child: Ended(child) }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the target is there");
    }

    fn bench<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec!["bench", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN, "-o", "json"];
        arguments.extend(more);
        arguments
    }
}

#[test]
fn wrong_usage_is_status_2_and_failure_is_status_1() {
    for arguments in [
        &["serve"][..],
        &["serve", "-a", "0.0.0.0", "--namespace", "memory:1m"],
        &["serve", "-c", "no-such-file.toml"],
        &["serve", "--namespace", "rbd:image"],
        &["bench", "-a", "127.0.0.1", "-n", NQN],
        &["bench", "-a", "127.0.0.1", "-n", NQN, "--rw", "read", "--fsync", "1"],
        &["namespace", "add", NQN, "memory:1m", "--uuid", "1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"],
        &["namespace", "add", NQN, "memory:1m", "--nsid", "7"],
        &["bogus"],
    ] {
        let output = selvedge(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty());
    }
    // Nothing listens on port 1 of this machine.
    let output = selvedge(&["discover", "-a", "127.0.0.1", "-s", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).lines().count(), 1, "a failure is one line: {}", stderr(&output));
}

#[test]
fn a_number_is_named_where_a_text_is_not_one() {
    for (arguments, expected) in [
        (&["key", "generate", "-l", "x"][..], "not a whole number"),
        (&["bench", "-a", "127.0.0.1", "--rw", "read", "--iodepth", "99999999999"], "not in"),
        (&["namespace", "show", NQN, ""], "not a number"),
        (&["bench", "-a", "127.0.0.1", "--rw", "read", "--iodepth", "4k"], "not a whole number"),
        (&["bench", "-a", "127.0.0.1", "--rw", "read", "--iodepth", "1.5"], "not a whole number"),
        (
            &["sweep", "-a", "127.0.0.1", "--rw", "read", "--iodepth", "1,x", "--dry-run"],
            "not a whole number",
        ),
    ] {
        let output = selvedge(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected) && !text.contains("string"), "{arguments:?}: {text}");
    }
}

#[test]
fn an_image_of_a_cluster_without_configuration_or_libraries_is_refused() {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_selvedge"), "serve", "-s", "0", "--control", "none"]);
    command.args(["--namespace", "rbd:rbd/disk,conf=/nowhere/ceph.conf"]);
    let output = command.output().expect("timeout runs");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("name another with conf=FILE") || text.contains("install Ceph's"), "{text}");
}

#[test]
fn a_target_is_found_used_and_ended() {
    let serving = Serving::start("memory:16m", "0");
    let list = json(&selvedge(&["list", "-a", "127.0.0.1", "-s", &serving.port, "-o", "json"]));
    assert_eq!(list["namespaces"][0]["nqn"], NQN);
    assert_eq!(list["namespaces"][0]["size"], 16 << 20);
    let log = json(&selvedge(&["discover", "-a", "127.0.0.1", "-s", &serving.port, "-o", "json"]));
    assert!(log["records"].as_array().unwrap().iter().any(|record| record["subnqn"] == NQN));
    let identity = json(&selvedge(&[
        "identify",
        "-a",
        "127.0.0.1",
        "-s",
        &serving.port,
        "-n",
        NQN,
        "--nsid",
        "1",
        "-o",
        "json",
    ]));
    assert_eq!(identity["namespaces"][0]["block_size"], 4096);

    let output =
        selvedge(&serving.bench(&["--rw", "randwrite", "--numjobs", "3", "--iodepth", "8", "--verify"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(report["write"]["ios"], 4096);
    assert_eq!(report["verify"]["blocks_read_back"], 4096);
    assert_eq!(report["verify"]["blocks_wrong"], 0);
    // Another run knows the blocks by their stamps, and misses them in what was overwritten.
    let check = ["--rw", "read", "--bs", "64k", "--iodepth", "4", "--verify"];
    assert_eq!(selvedge(&serving.bench(&check)).status.code(), Some(0));
    // The command lacks the permission to overwrite data.
    let write = serving.bench(&["--rw", "write", "--size", "4k"]);
    let refused = selvedge(&write);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--destroy-data"), "{}", stderr(&refused));
    assert_eq!(selvedge(&serving.bench(&check)).status.code(), Some(0), "nothing was written");
    assert_eq!(selvedge(&[&write[..], &["--destroy-data"]].concat()).status.code(), Some(0));
    let output = selvedge(&serving.bench(&check));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("wrong data at offset 0"), "{}", stderr(&output));

    let mut serving = serving;
    serving.signal(Signal::TERM);
    assert_eq!(serving.child.wait().expect("it ends").code(), Some(0));
}

/// Kills a target that is written to, `delay` after its first few dozen flushes, and says whether what was flushed is
/// there afterwards.
fn survives_kill(folder: &Path, round: u32, namespace: &str, delay: Duration) -> (Output, u64) {
    let state = folder.join(format!("state-{round}.jsonl"));
    let state = state.to_str().expect("a path of UTF-8");
    let serving = Serving::start(namespace, "0");
    let workload =
        ["--rw", "randwrite", "--size", "4m", "--runtime", "60", "--iodepth", "8", "--numjobs", "2"];
    let arguments = [&workload[..], &["--fsync", "16", "--verify-state", state, "--destroy-data"]].concat();
    let mut bench = program(&serving.bench(&arguments));
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
    // A few dozen lines are a few dozen completed flushes.
    let lines = || std::fs::read(state).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count());
    prerequisite::wait_until("the bench makes progress", || lines() >= 50);
    std::thread::sleep(delay);
    serving.signal(Signal::KILL);
    let status = bench.wait().expect("it ends");
    assert_eq!(status.code(), Some(1));
    drop(serving);
    let serving = Serving::start(namespace, "0");
    let output = selvedge(&serving.bench(&["--verify-only", "--verify-state", state, "--iodepth", "8"]));
    let report = json(&output);
    (output, report["blocks_flushed"].as_u64().expect("a number"))
}

#[test]
fn what_was_flushed_survives_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = format!("file:{},size=4m", folder.path().join("disk.img").display());
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos() as u64;
    println!("seed {seed}");
    for round in 0..6 {
        let delay = Duration::from_micros((seed >> (4 * round)) % 300_000);
        let (output, flushed) = survives_kill(folder.path(), round, &namespace, delay);
        assert_eq!(output.status.code(), Some(0), "round {round}, seed {seed}: {}", stderr(&output));
        assert!(flushed > 0);
        assert_eq!(json(&output)["verify"]["blocks_wrong"], 0);
    }
}

#[test]
fn a_target_that_forgets_is_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, flushed) = survives_kill(folder.path(), 0, "memory:4m", Duration::ZERO);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["verify"]["blocks_wrong"].as_u64(), Some(flushed));
    assert!(stderr(&output).contains("wrong data"), "{}", stderr(&output));
}
