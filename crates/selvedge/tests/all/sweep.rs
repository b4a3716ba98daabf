//! `selvedge sweep` as people use it and break it: killed in the middle, pointed at data, given nonsense, left alone by
//! its target; and the reports and comparisons of what it measured.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::serving::{NQN, Serving, stderr};
use prerequisite::{Wait, wait_until};
use serde_json::Value;

/// Message of a sweep after a run that was too short for this machine, and condition to wait for
/// then.
const NONE_ENDED: &str = "no command ended in the time of a run";
const EACH_RUN: &str = "a command ends in each run";

/// A target and a folder for results, gone when the test is over however it ends.
struct Testbed {
    target: Serving,
    folder: tempfile::TempDir,
}

impl Testbed {
    fn new(namespace: &str) -> Self {
        Self { target: Serving::start(namespace), folder: tempfile::tempdir().expect("a folder") }
    }

    /// A testbed whose target has a control socket.
    fn administered() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { target: Serving::administered("memory:16m", &folder.path().join("s")), folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// The command, with the options that publish the sweep at the target.
    fn published(&self, mut command: Command) -> Command {
        command.arg("--publish").arg("--control").arg(format!("unix:{}", self.socket().display()));
        command
    }

    /// The sweep as published at the target.
    fn at_target(&self) -> Value {
        let mut stream = UnixStream::connect(self.socket()).expect("it listens");
        let path = format!("/v1/subsystems/{NQN}/sweeps/results");
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).expect("it is JSON")
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = selvedge("sweep");
        command.args(["-a", "127.0.0.1", "-s", &self.target.port, "-n", NQN]);
        command.args(["--runtime", "100ms", "--ramp_time", "20ms", "--pause", "0"]);
        command.arg("--output").arg(self.results()).args(arguments.split_whitespace());
        command
    }

    fn sweep(&self, arguments: &str) -> Output {
        self.measured(self.command(arguments))
    }

    fn resume(&self) -> Output {
        self.measured(self.resuming())
    }

    fn resuming(&self) -> Command {
        let mut command = selvedge("sweep");
        command.arg("--resume").arg(self.results());
        command
    }

    /// Output once all points are measured: on a busy machine none of a run's commands may end in
    /// its tenth of a second.
    fn measured(&self, mut first: Command) -> Output {
        let mut output = first.output().expect("the program runs");
        let wait = Wait::begin(EACH_RUN);
        while stderr(&output).contains(NONE_ENDED) {
            wait.check();
            output = self.resuming().output().expect("the program runs");
        }
        output
    }
}

fn selvedge(command: &str) -> Command {
    let mut selvedge = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    selvedge.arg(command).stdin(Stdio::null());
    selvedge
}

fn lines(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("sweep.jsonl")).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).expect("each whole line is JSON")).collect()
}

/// The measurements that are in a sweep's file.
fn visits(folder: &Path) -> Vec<(u64, u64)> {
    let visit = |line: &Value| {
        let visit = &line.get("run")?["visit"];
        Some((visit["point"].as_u64()?, visit["repetition"].as_u64()?))
    };
    lines(folder).iter().filter_map(visit).collect()
}

fn report(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("report.json")).expect("there is a report");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn every_point_is_measured_and_reported() {
    let testbed = Testbed::new("memory:16m");
    let output = testbed.sweep("--rw randread --iodepth 1,4 -i 1,2 --numjobs 2 --repeat 2");
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = testbed.results();
    assert_eq!(visits(&folder).len(), 8);
    assert_eq!(visits(&folder).into_iter().collect::<BTreeSet<_>>().len(), 8);
    let report = report(&folder);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for point in points {
        assert!(point["iops"]["mean"].as_f64().unwrap() > 0.0 && point["runs"] == 2, "{point}");
        assert!(point["latency"]["p99_ns"]["mean"].as_f64() >= point["latency"]["p50_ns"]["mean"].as_f64());
        assert!(!point["latency_grid"]["counts"].as_array().unwrap().is_empty());
    }
    for chart in ["iops-by-outstanding", "p99-by-queues", "curve", "percentiles", "heat-1"] {
        assert!(report["charts"].as_array().unwrap().iter().any(|other| other["id"] == chart), "{chart}");
        assert!(folder.join(format!("{chart}.svg")).is_file(), "{chart}");
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("depth 4, 2 queues") && text.contains("With 8 outstanding, -i "), "{text}");
    assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("With 8 outstanding, -i "));
    assert_eq!(fs::read_to_string(folder.join("points.csv")).unwrap().lines().count(), 5);
}

#[test]
fn killed_in_the_middle_it_is_resumed_with_the_same_points() {
    let testbed = Testbed::new("memory:16m");
    let arguments = "--rw randread --iodepth 1,2,4,8 --repeat 6";
    let mut sweep = testbed.command(arguments).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it measures", || visits(&testbed.results()).len() >= 4);
    // SIGKILL.
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    let before = visits(&testbed.results());
    assert!(before.len() < 24, "there was something left to do");
    let output = testbed.resume();
    assert!(output.status.success(), "{}", stderr(&output));
    let after = visits(&testbed.results());
    assert_eq!(after[..before.len()], before, "what was measured is not measured again");
    let wanted: BTreeSet<(u64, u64)> = (0..4).flat_map(|point| (0..6).map(move |run| (point, run))).collect();
    assert_eq!((after.len(), after.into_iter().collect::<BTreeSet<_>>()), (24, wanted));
    assert_eq!(report(&testbed.results())["points"].as_array().unwrap().len(), 4);
    // Nothing is left, and that is not a failure.
    assert!(testbed.resume().status.success());
}

#[test]
fn the_published_sweep_has_the_figures_of_the_report() {
    let testbed = Testbed::administered();
    let mut command =
        testbed.published(testbed.command("--rw randread --iodepth 1,4 --numjobs 2 --repeat 2"));
    let mut output = command.output().expect("the program runs");
    let wait = Wait::begin(EACH_RUN);
    while stderr(&output).contains(NONE_ENDED) {
        wait.check();
        output = testbed.published(testbed.resuming()).output().expect("the program runs");
    }
    assert!(output.status.success() && !stderr(&output).contains("cannot publish"), "{}", stderr(&output));
    let at_target = testbed.at_target();
    assert_eq!(
        (&at_target["state"], &at_target["done"], &at_target["planned"]),
        (&"complete".into(), &4.into(), &4.into())
    );
    let report = report(&testbed.results());
    let [at_target, reported] = [&at_target, &report].map(|of| of["points"].as_array().unwrap());
    assert_eq!(at_target.len(), 2);
    for (at_target, reported) in at_target.iter().zip(reported) {
        assert_eq!(at_target["label"], reported["label"]);
        assert_eq!(at_target["x"].as_f64().unwrap(), reported["outstanding"].as_f64().unwrap());
        assert_eq!(at_target["iops"]["mean"], reported["iops"]["mean"]);
        assert_eq!(at_target["p99_ns"]["mean"], reported["latency"]["p99_ns"]["mean"]);
    }
}

#[test]
fn a_failure_to_publish_does_not_end_the_sweep() {
    let testbed = Testbed::administered();
    let mut command = testbed.published(testbed.command("--rw randread --iodepth 1,2,4,8 --repeat 3"));
    let sweep = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it measures", || !visits(&testbed.results()).is_empty());
    // Hosts are served as before, but the API is unreachable.
    fs::remove_file(testbed.socket()).unwrap();
    let output = sweep.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(message.matches("cannot publish the sweep").count(), 1, "{message}");
    assert!(message.contains("no target serves there"), "{message}");
    assert_eq!(lines(&testbed.results()).len(), 13, "each measurement is made or has failed: {message}");
}

#[test]
fn a_target_that_goes_away_leaves_what_was_measured() {
    let mut testbed = Testbed::new("memory:16m");
    let mut sweep = testbed.command("--rw randread --iodepth 1,2,4,8 --repeat 6");
    let sweep = sweep.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("it measures", || visits(&testbed.results()).len() >= 3);
    testbed.target.kill();
    let output = sweep.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("--resume") && message.contains("of 24 measurements are kept"), "{message}");
    let report = report(&testbed.results());
    let measured = report["points"].as_array().unwrap().iter().filter(|point| point["runs"] != 0).count();
    assert!((1..=4).contains(&measured));
    let missing = measured < 4;
    let named = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|one| one["title"].as_str().unwrap().contains("missing"));
    assert_eq!(named, missing);
}

#[test]
fn data_is_not_destroyed_unasked() {
    let testbed = Testbed::new("memory:16m");
    // Nothing is in it yet, so nothing can be lost.
    let output = testbed.sweep("--rw randwrite --iodepth 4 --repeat 1");
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = testbed.folder.path().join("again");
    let second = |more: &str| {
        let mut command = selvedge("sweep");
        command.args([
            "-a",
            "127.0.0.1",
            "-s",
            &testbed.target.port,
            "-n",
            NQN,
            "--runtime",
            "100ms",
            "--ramp_time",
            "0",
        ]);
        command.arg("--output").arg(&folder).args(more.split_whitespace());
        command.output().unwrap()
    };
    let refused = second("--rw randwrite --iodepth 4");
    assert_eq!(refused.status.code(), Some(2));
    let message = stderr(&refused);
    assert!(message.contains("--destroy-data") && message.contains("16 MiB"), "{message}");
    assert!(!folder.exists(), "nothing was begun");
    assert!(second("--rw randread --iodepth 4 --repeat 1").status.success(), "reading destroys nothing");
    fs::remove_dir_all(&folder).unwrap();
    assert!(second("--rw randwrite --iodepth 4 --repeat 1 --destroy-data").status.success());
}

#[test]
fn nonsense_is_named_before_anything_is_done() {
    let testbed = Testbed::new("memory:16m");
    for (arguments, expected) in [
        ("--rw randread --iodepth 0", "--iodepth"),
        ("--rw randread --iodepth 1,9e9", "--iodepth"),
        ("--rw randread --bs 4k,k", "--bs"),
        ("--rw randread -i 1..400", "--nr-io-queues"),
        ("--rw randread,sideways", "sideways"),
        ("--rw randread --rate_iops 50,0%", "--rate_iops"),
        ("--rw randread --bs 4k,2m", "over the limit"),
        ("--rw randread --bs 512,4k", "multiple"),
        ("--rw randread --repeat 0", "--repeat"),
        ("--iodepth 1", "--rw"),
    ] {
        let output = testbed.sweep(arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {message}");
        assert!(message.contains(expected), "{arguments}: {message}");
        assert!(!testbed.results().exists(), "{arguments}");
    }
    let output = selvedge("sweep").args(["--resume", "nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nowhere"));
    let dry = testbed.sweep("--rw randread --iodepth 1..8 --dry-run");
    assert!(
        dry.status.success() && String::from_utf8_lossy(&dry.stdout).contains("4 points, 12 measurements")
    );
    assert!(!testbed.results().exists());
}

/// Options that keep a preset with many points short.
const FEW: &str = "--numjobs 2 --iodepth 1,2 -i 1 --repeat 1 --destroy-data";

fn titles(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("a report has findings");
    findings.iter().filter_map(|finding| finding["title"].as_str()).collect()
}

#[test]
fn writes_to_a_file_have_three_acknowledgements() {
    let folder = tempfile::tempdir().expect("a folder");
    let testbed = Testbed::new(&format!("file:{},size=16m", folder.path().join("disk").display()));
    let output = testbed.sweep(&format!("--preset writes {FEW}"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("left out"), "{}", stderr(&output));
    let report = report(&testbed.results());
    let title = "Where is acknowledgement, not the number of queues, the limit of writes?";
    assert_eq!(report["title"], title);
    let labels: Vec<&str> =
        report["points"].as_array().unwrap().iter().filter_map(|point| point["label"].as_str()).collect();
    let expected = ["volatile", "flush every 64", "FUA"];
    let expected = expected.iter().flat_map(|kind| ["depth 1", "depth 2"].map(|at| format!("{kind}, {at}")));
    assert_eq!(labels, expected.collect::<Vec<_>>());
    // One run of each point tells no difference.
    assert!(titles(&report).contains(&"The question is not answered"), "{:?}", titles(&report));
}

#[test]
fn writes_without_a_cache_leave_out_what_has_no_effect() {
    let testbed = Testbed::new("memory:16m");
    let output = testbed.sweep(&format!("--preset writes {FEW}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("FUA and flush every 64 left out: the namespace has no volatile"), "{message}");
    let report = report(&testbed.results());
    assert_eq!(report["points"].as_array().unwrap().len(), 2);
    for expected in ["Acknowledgement is not a limit here", "FUA and flush every 64 left out"] {
        assert!(titles(&report).iter().any(|title| title.starts_with(expected)), "{:?}", titles(&report));
    }
}

#[test]
fn a_namespace_that_is_too_small_for_a_preset_is_refused() {
    let testbed = Testbed::new("memory:16m");
    let output = testbed.sweep("--preset blocks --destroy-data");
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("the range has 16 MiB") && message.contains("--iodepth"), "{message}");
    assert!(!testbed.results().exists(), "nothing was begun");
    let output = testbed.sweep(&format!("--preset blocks --bs 4k,64k {FEW}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&testbed.results());
    assert_eq!(report["points"].as_array().unwrap().len(), 2 * 2 * 2);
    assert_eq!(report["charts"][0]["id"], "block-sizes");
}

#[test]
fn loads_are_shares_of_what_was_measured() {
    let testbed = Testbed::new("memory:16m");
    let output =
        testbed.sweep("--rw randread --iodepth 8 --rate_iops 20%,50% --repeat 1 --latency-target 1s");
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&testbed.results());
    let points = report["points"].as_array().unwrap();
    let full = points[0]["iops"]["mean"].as_f64().unwrap();
    assert!(points[0]["offered_iops"].is_null() && points[0]["response"].is_null());
    for (point, share) in points[1..].iter().zip([0.2, 0.5]) {
        let offered = point["offered_iops"].as_f64().unwrap();
        assert!((offered / full - share).abs() < 0.01, "{offered} of {full}");
        // What a command took since it was due is no less than since it was sent.
        assert!(
            point["response"]["mean_ns"]["mean"].as_f64() >= point["latency"]["mean_ns"]["mean"].as_f64()
        );
    }
    // The load of other programs may come first.
    let findings = report["findings"].as_array().unwrap();
    let title = |finding: &Value| finding["title"].as_str().unwrap().to_owned();
    assert!(findings.iter().map(title).any(|title| title.contains("within 1.00 s")), "{findings:?}");
    for point in points {
        let stolen = point["stolen"].as_f64().expect("/proc/stat has it");
        let foreign = point["foreign"].as_f64().expect("the target's process is found by its port");
        assert!((0.0..=1.0).contains(&stolen) && (0.0..=1.0).contains(&foreign), "{point}");
        assert!(point["target_cpus"].is_f64(), "{point}");
    }
    assert!(report["figures"].as_array().unwrap().iter().any(|figure| figure["name"] == "IOPS at most"));
}

#[test]
fn sweeps_are_compared_and_fio_is_read() {
    let testbed = Testbed::new("memory:16m");
    let folder = testbed.results();
    assert!(testbed.sweep("--rw randread --iodepth 1,4 --repeat 2").status.success());
    let compare = |first: &Path, second: &Path| {
        selvedge("compare").arg(first).arg(second).args(["-o", "json"]).output().unwrap()
    };
    let output = compare(&folder, &folder.join("report.json"));
    assert!(output.status.success(), "{}", stderr(&output));
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(compared["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(compared["iops_ratio"], 1.0);
    assert!(compared["pairs"].as_array().unwrap().iter().all(|pair| pair["iops"]["differs"] == false));

    let fio = testbed.folder.path().join("fio.json");
    fs::write(&fio, include_str!("../../../measurement/src/fio/fio-3.33.json")).unwrap();
    let from_fio = testbed.folder.path().join("from-fio");
    let output =
        selvedge("report").arg("--from-fio").arg(&fio).arg("--output").arg(&from_fio).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(from_fio.join("report.html").is_file());
    assert!(compare(&fio, &from_fio.join("report.json")).status.success());
    let nothing = compare(&folder, &testbed.folder.path().join("nothing"));
    assert_eq!(nothing.status.code(), Some(2));
    // A report is made again of what was kept.
    fs::remove_file(folder.join("report.html")).unwrap();
    assert!(selvedge("report").arg(&folder).output().unwrap().status.success());
    assert!(folder.join("report.html").is_file());
}
