//! Log lines of `attach` about its paths at the default level: a path that never came, a path that is lost, and I/O that waits.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use engine::target::Measured;
use prerequisite::free_address;
use rustix::process::{Pid, Signal, kill_process};

use crate::attach::{attached, end, metrics, program, target};
use crate::attach_killed::Client;
use crate::serving::{Ended, NQN};

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("attach.log")).expect("a log")
}

fn await_line(folder: &Path, words: &str) {
    prerequisite::wait_until(words, || log(folder).lines().any(|line| line.contains(words)));
}

/// `attach` over these ports, with its log in a file.
fn attach(folder: &Path, addresses: &str, more: &[&str]) -> Command {
    let words = ["attach", "-a", addresses, "-n", NQN, "--nbd", "unix:disk.nbd", "--reconnect-delay", "1"];
    let mut command = program(folder, &[&words, more].concat());
    command.stderr(File::create(folder.join("attach.log")).expect("a file"));
    command
}

#[test]
fn a_missing_path_is_reported_and_its_arrival_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let missing = free_address();
    let addresses = format!("127.0.0.1:{port},{missing}");
    let (attached, _) = attached(&mut attach(folder.path(), &addresses, &[]));
    await_line(folder.path(), &format!("path {missing}: not connected"));
    assert!(log(folder.path()).contains("Connection refused"), "{}", log(folder.path()));
    assert!(!log(folder.path()).contains("I/O waits"), "the other path is there");
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn a_signal_prints_the_stages_of_commands_and_the_disk_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let (attached, _) = attached(&mut attach(folder.path(), &format!("127.0.0.1:{port}"), &[]));
    kill_process(Pid::from_child(&attached.0), Signal::USR1).expect("it runs");
    await_line(folder.path(), "since the last report");
    assert!(log(folder.path()).contains("namespace 1: "), "{}", log(folder.path()));
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn prometheus_gets_the_stages_of_commands_by_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let more = ["--metrics", "127.0.0.1:0"];
    let (attached, _) = attached(&mut attach(folder.path(), &format!("127.0.0.1:{port}"), &more));
    let line = "metrics at http://";
    await_line(folder.path(), line);
    let text = log(folder.path());
    let address = text.lines().find_map(|text| text.strip_prefix(line)).expect("an address");
    let address = address.strip_suffix("/metrics").expect("a path");
    let mut client = Client::connect(&folder.path().join("disk.nbd"));
    let count = |text: &str, stage: &str| {
        let of_stage = |sample: &Measured<'_>| {
            sample.name == "selvedge_host_command_stage_seconds_count" && sample.label("stage") == stage
        };
        let sample = Measured::all(text).find(of_stage).expect("a series");
        assert_eq!(sample.label("address"), format!("127.0.0.1:{port}"));
        assert_eq!((sample.label("subsystem"), sample.label("nsid"), sample.label("path")), (NQN, "1", "0"));
        sample.count()
    };
    // The thread publishes its times once a second while it works.
    let text = prerequisite::wait_for("commands are counted", || {
        client.read();
        metrics(address).filter(|text| count(text, "target") > 0)
    });
    for stage in ["waiting", "sending", "receiving"] {
        assert_eq!(count(&text, stage), count(&text, "target"), "a command is in all stages");
    }
    let live = Measured::all(&text).find(|sample| sample.name == "selvedge_host_path_live");
    assert_eq!(live.expect("a series").count(), 1);
    let elsewhere = crate::attach::get(address, "/v1/status").expect("it responds");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
    drop(client);
    assert_eq!(end(attached, Signal::TERM), Some(0));
    assert_eq!(metrics(address), None, "the listener ends with the process");
}

#[test]
fn a_taken_address_of_metrics_does_not_keep_a_disk_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = holder.local_addr().expect("an address").to_string();
    let more = ["--metrics", &*address];
    let (attached, _) = attached(&mut attach(folder.path(), &format!("127.0.0.1:{port}"), &more));
    let line = format!("cannot listen on {address} for metrics");
    await_line(folder.path(), &line);
    drop(holder);
    prerequisite::wait_until("metrics are served", || metrics(&address).is_some());
    assert_eq!(log(folder.path()).matches(&line).count(), 1, "{}", log(folder.path()));
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn metrics_are_refused_to_a_network_unless_anybody_may_read_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = ["--metrics", "0.0.0.0:0"];
    let output = attach(folder.path(), "127.0.0.1:1", &open).status().expect("it runs");
    assert_eq!(output.code(), Some(2), "{}", log(folder.path()));
    assert!(log(folder.path()).contains("--metrics-for-anybody"), "{}", log(folder.path()));
}

#[test]
fn waiting_io_is_reported_and_its_resumption_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, address) = (folder.path().join("disk.img"), free_address());
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let namespace = format!("file:{},size=1m", disk.display());
    let serve = || {
        let words = [
            "serve",
            "-a",
            &host,
            "-s",
            &port,
            "-n",
            NQN,
            "--control",
            "none",
            "--reactors",
            "1",
            "--namespace",
        ];
        let mut command = program(folder.path(), &words);
        let mut target = Ended(command.arg(&namespace).stdout(Stdio::piped()).spawn().expect("it runs"));
        let mut line = String::new();
        let stdout = target.0.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("it serves");
        target
    };
    let target = serve();
    let (attached, _) = attached(&mut attach(folder.path(), &address.to_string(), &[]));
    drop(target);
    await_line(folder.path(), &format!("path {address}: lost"));
    await_line(folder.path(), "no path is usable: I/O waits");
    let _target = serve();
    await_line(folder.path(), &format!("path {address}: connected"));
    await_line(folder.path(), "I/O goes on after");
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn its_log_has_the_options_of_serve() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let addresses = format!("127.0.0.1:{port},{}", free_address());
    let quiet = ["--log-level", "error"];
    let (attached_quietly, _) = attached(&mut attach(folder.path(), &addresses, &quiet));
    assert_eq!(end(attached_quietly, Signal::TERM), Some(0));
    let as_json = ["--log-format", "json", "--log-level", "debug"];
    let (attached, _) = attached(&mut attach(folder.path(), &addresses, &as_json));
    await_line(folder.path(), "trying again");
    assert_eq!(end(attached, Signal::TERM), Some(0));
    let text = log(folder.path());
    let line = text.lines().find(|line| line.contains("trying again")).expect("it is there");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["level"], "WARN", "{line}");
}
