//! `selvedge upgrade`: another process in place of a target under verified load, and what is left when either of them is killed
//! on the way.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use prerequisite::{free_address, wait_for, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::other_process::{lives, signal};
use crate::raw_host::Random;
use crate::serving::{NQN, json, stderr};

/// I/O queues of a load.
const BENCH_QUEUES: usize = 2;

/// A target that is followed by others, whose last one is gone when the test is over.
struct Testbed {
    folder: TempDir,
    address: SocketAddr,
    first: Child,
    /// The process that serves.
    process: u32,
}

impl Testbed {
    fn start(namespace: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The process that replaces a killed one must have the same address.
        let address = free_address();
        let first = serve(folder.path(), address, namespace);
        let process = first.id();
        let testbed = Self { folder, address, first, process };
        wait_until("it waits for a new process", || testbed.is_administered());
        testbed
    }

    /// Serves again, after both processes of an upgrade are gone.
    fn revive(&mut self, namespace: &str) {
        let _ = self.first.wait();
        self.first = serve(self.folder.path(), self.address, namespace);
        self.process = self.first.id();
        wait_until("it waits for a new process", || self.is_administered());
    }

    fn upgrade(&self, more: &[&str]) -> Child {
        let mut command = program(self.folder.path());
        command.args(["upgrade", "--control", "unix:control.sock"]).args(more);
        command.stderr(Stdio::piped()).spawn().expect("the program runs")
    }

    /// Goes on with another process.
    fn pass_on(&mut self) {
        // Where the disk is too slow to come to rest in time, nothing is handed over, and an administrator tries again.
        let report = wait_for("an upgrade", || {
            let output = self.upgrade(&["-o", "json"]).wait_with_output().expect("it ends");
            let is_slow = stderr(&output).contains("the old process serves on: the storage works");
            (!is_slow).then(|| json(&output))
        });
        assert_eq!(report["former_process"], self.process);
        self.process = report["process"].as_u64().expect("a number") as u32;
        // It listens for administrators when the old process does not any longer.
        wait_until("it waits for a new process", || self.is_administered());
    }

    fn is_administered(&self) -> bool {
        let folder = self.folder.path();
        let asks = |place: &str| UnixStream::connect(folder.join(place)).is_ok();
        asks("control.sock") && asks("control.sock.upgrade")
    }

    fn bench(&self, seconds: u32, more: &[&str]) -> Child {
        let seconds = seconds.to_string();
        let mut command = program(self.folder.path());
        let queues = BENCH_QUEUES.to_string();
        let load =
            ["--rw", "randrw", "--bs", "4k", "--iodepth", "8", "-i", &queues, "--verify", "--destroy-data"];
        command.args(["bench", "-a", &self.address.to_string(), "-n", NQN, "--runtime", &seconds]);
        command.args(load).args(["-o", "json"]).args(more).stderr(Stdio::piped());
        command.spawn().expect("the program runs")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    /// True if the old process has announced that this one serves.
    fn has_left_to(&self, next: u32) -> bool {
        let process = format!("process={next}");
        self.log().lines().any(|line| line.contains("the new process serves") && line.ends_with(&process))
    }

    fn tell(&self, words: &[&str]) -> Value {
        let mut command = program(self.folder.path());
        command.args(words).args(["--control", "unix:control.sock", "-o", "json"]);
        json(&command.output().expect("the program runs"))
    }

    /// True once the last queue of a host's load has received data.
    fn has_io(&self) -> bool {
        let report = self.tell(&["connection", "list"]);
        let queues = &report["controllers"][0]["queues"];
        queues[BENCH_QUEUES]["stream"]["received_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 16)
    }

    fn controllers(&self) -> Vec<u64> {
        let report = self.tell(&["connection", "list"]);
        let all = report["controllers"].as_array().expect("a list");
        all.iter().filter_map(|controller| controller["cntlid"].as_u64()).collect()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log());
        }
        kill(self.process);
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// A target that listens on `address`.
fn serve(folder: &Path, address: SocketAddr, namespace: &str) -> Child {
    let mut target = program(folder);
    target.args([
        "serve",
        "-a",
        &address.ip().to_string(),
        "-s",
        &address.port().to_string(),
        "-n",
        NQN,
        "--control",
        "unix:control.sock",
        "--namespace",
        namespace,
    ]);
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("a file");
    target.args(["--state-dir", "state", "--audit-log", "audit", "--log-level", "info"]).stderr(log);
    let mut target = target.spawn().expect("the program runs");
    let mut line = String::new();
    let stdout = target.stdout.take().expect("stdout is a pipe");
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut line).expect("it prints where it listens");
    // All that follow print there, too.
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(drop));
    if !line.trim().ends_with(&address.to_string()) {
        let log = std::fs::read_to_string(folder.join("log")).expect("a log");
        panic!(
            "it does not listen: {line:?}, and its log ends with\n{}",
            log.lines().last().unwrap_or_default()
        );
    }
    target
}

fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn kill(process: u32) {
    signal(process, Signal::KILL);
}

/// The process that another one has started.
fn child_of(process: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn verified(output: &Output) -> Value {
    let report = json(output);
    let verify = &report["verify"];
    let checked = ["reads_checked", "blocks_read_back"].map(|count| verify[count].as_u64().unwrap_or(0));
    assert!(verify["blocks_wrong"] == 0 && checked.iter().sum::<u64>() > 0, "{verify}");
    report
}

/// Upgrades under verified load, of which a machine that is slow needs more.
fn under_load(namespace: &str) {
    let outlasts = |seconds: u32| {
        let mut testbed = Testbed::start(namespace);
        let mut bench = testbed.bench(seconds, &[]);
        wait_until("I/O is under way", || testbed.has_io());
        let before = testbed.controllers();
        for _ in 0..10 {
            testbed.pass_on();
        }
        let after = testbed.controllers();
        let is_running = bench.try_wait().expect("a child").is_none();
        assert!(!is_running || after == before, "{after:?}, and {before:?} before");
        verified(&bench.wait_with_output().expect("it ends"));
        is_running
    };
    assert!([8, 40, 200].into_iter().any(outlasts), "no load outlasts ten upgrades");
}

#[test]
fn hosts_keep_their_controllers_over_ten_upgrades() {
    under_load("file:disk.img,size=64m");
}

#[test]
fn a_log_level_and_a_threshold_that_were_changed_stay_over_upgrades() {
    let mut testbed = Testbed::start("memory:1m");
    testbed.pass_on();
    assert_eq!(testbed.tell(&["log"])["level"], "info", "that of the command line");
    testbed.tell(&["log", "warn,engine=debug"]);
    testbed.tell(&["slow-commands", "--threshold", "250ms"]);
    for _ in 0..2 {
        testbed.pass_on();
        assert_eq!(testbed.tell(&["log"])["level"], "warn,engine=debug");
        assert_eq!(testbed.tell(&["slow-commands"])["threshold_ms"], 250.0);
    }
}

#[test]
fn blocks_in_memory_stay_over_ten_upgrades() {
    under_load("memory:64m");
}

#[test]
fn what_a_host_has_written_to_memory_is_there_after_upgrades() {
    let mut testbed = Testbed::start("memory:16m");
    let uuid = testbed.tell(&["namespace", "list", NQN])["namespaces"][0]["uuid"].clone();
    assert!(uuid.is_string(), "{uuid}");
    let record = ["--verify-state", "written"];
    verified(&testbed.bench(2, &record).wait_with_output().expect("it ends"));
    for _ in 0..3 {
        testbed.pass_on();
    }
    assert_eq!(testbed.tell(&["namespace", "list", NQN])["namespaces"][0]["uuid"], uuid);
    let mut check = program(testbed.folder.path());
    check.args(["bench", "-a", &testbed.address.to_string(), "-n", NQN, "--verify-only", "-o", "json"]);
    verified(&check.args(record).output().expect("the program runs"));
}

#[test]
fn a_stopped_new_process_delays_no_host() {
    let testbed = Testbed::start("memory:16m");
    // It stops itself, before it could have said a word.
    let stops = testbed.folder.path().join("stops");
    std::fs::write(&stops, "#!/bin/sh\nkill -STOP $$\n").expect("a file");
    std::fs::set_permissions(&stops, std::fs::Permissions::from_mode(0o700)).expect("its mode");
    let upgrade = testbed.upgrade(&["--program", stops.to_str().expect("a path of UTF-8")]);
    let next = wait_for("there is another process", || child_of(upgrade.id()));
    let bench = testbed.bench(3, &[]);
    assert_eq!(testbed.tell(&["namespace", "list", NQN])["namespaces"][0]["nsid"], 1, "it is administered");
    verified(&bench.wait_with_output().expect("it ends"));
    let output = upgrade.wait_with_output().expect("it ends");
    let report = stderr(&output);
    assert!(!output.status.success() && report.contains("the target serves as before"), "{report}");
    assert!(lives(testbed.process) && testbed.is_administered() && !lives(next));
}

#[test]
fn a_program_that_is_another_one_changes_nothing() {
    let testbed = Testbed::start("file:disk.img,size=16m");
    for program in ["/bin/false", "/bin/cat", "/etc/passwd", "/no/such/program"] {
        let output = testbed.upgrade(&["--program", program]).wait_with_output().expect("it ends");
        let report = stderr(&output);
        let line = report.lines().last().expect("a reason");
        assert!(!output.status.success() && line.contains(program), "{report}");
        assert!(lives(testbed.process) && testbed.is_administered());
    }
    verified(&testbed.bench(1, &[]).wait_with_output().expect("it ends"));
}

#[test]
fn the_log_names_the_party_at_fault_for_a_failed_upgrade() {
    let testbed = Testbed::start("memory:1m");
    let mut stranger =
        UnixStream::connect(testbed.folder.path().join("control.sock.upgrade")).expect("it listens");
    stranger.write_all(&[b'?'; 64]).expect("it can be written to");
    wait_until("the target logs the failure", || {
        let log = std::fs::read_to_string(testbed.folder.path().join("log")).expect("a log");
        log.lines().any(|line| line.contains("an upgrade has failed") && line.contains("fault=OtherProcess"))
    });
}

/// Kills one of the two processes of an upgrade after this time; the one that serves then. `None` if the upgrade was over before,
/// so that the only one that served was killed.
fn kill_amid(testbed: &Testbed, kills_new: bool, after: Duration) -> Option<u32> {
    let log = File::options().append(true).open(testbed.folder.path().join("log")).expect("a log");
    let mut upgrade = program(testbed.folder.path());
    upgrade.args(["upgrade", "--control", "unix:control.sock", "-o", "json"]);
    // Not a pipe: the new process has it open as long as it lives.
    let said = testbed.folder.path().join("said");
    let upgrade = upgrade.stdout(File::create(&said).expect("a file")).stderr(log);
    let mut upgrade = upgrade.spawn().expect("the program runs");
    wait_until("there is another process", || child_of(upgrade.id()).is_some() || !lives(upgrade.id()));
    let Some(next) = child_of(upgrade.id()) else {
        // On a busy machine it may be over before anybody has looked.
        let is_over = upgrade.wait().is_ok_and(|status| status.success());
        let said: Option<serde_json::Value> =
            std::fs::read(said).ok().and_then(|said| serde_json::from_slice(&said).ok());
        let process = said.filter(|_| is_over).and_then(|said| said["process"].as_u64());
        return process.and_then(|process| process.try_into().ok());
    };
    sleep(after);
    kill(if kills_new { next } else { testbed.process });
    let _ = upgrade.wait();
    let both = [testbed.process, next];
    let alive = || both.into_iter().filter(|process| lives(*process)).collect::<Vec<u32>>();
    let who = if kills_new { "the new one" } else { "the old one" };
    wait_for(&format!("one serves, of {both:?}, where {who} was killed after {after:?}"), || {
        if kills_new && testbed.has_left_to(next) {
            wait_until("the old process ends", || alive().is_empty());
            return Some(None);
        }
        let [one] = alive()[..] else { return None };
        testbed.is_administered().then_some(Some(one))
    })
}

#[test]
fn whichever_is_killed_one_of_both_serves_on() {
    const NAMESPACE: &str = "file:disk.img,size=64m";
    let mut testbed = Testbed::start(NAMESPACE);
    let mut random = Random::seeded("upgrades that are killed");
    let bench = testbed.bench(20, &["-c", "1"]);
    // A host connects again only if all its queues have been connected before.
    wait_until("I/O is under way", || testbed.has_io());
    let (mut rounds, mut late) = (0, 0);
    while rounds < 10 {
        assert!(late < 200, "each upgrade is over before");
        let after = Duration::from_micros(random.below(30_000));
        match kill_amid(&testbed, random.below(2) == 0, after) {
            Some(process) => (testbed.process, rounds) = (process, rounds + 1),
            None => {
                testbed.revive(NAMESPACE);
                late += 1;
            }
        }
    }
    println!("{rounds} rounds; {late} times the upgrade was over before");
    verified(&bench.wait_with_output().expect("it ends"));
}
