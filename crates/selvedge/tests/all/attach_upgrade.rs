//! `selvedge attach upgrade`: another process in place of one whose disks are used, and what is left when either of them is killed
//! on the way.

use std::fs::File;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use prerequisite::{wait_for, wait_until};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value;
use tempfile::TempDir;

use crate::attach::{arguments, attached, metrics, program, target};
use crate::attach_killed::Client;
use crate::other_process::{lives, signal, with_descriptors};
use crate::raw_host::Random;
use crate::serving::{Ended, json, stderr};

/// A target, and a process with disks that is followed by others, whose last one is gone when the test is over.
struct Testbed {
    folder: TempDir,
    _target: Ended,
    port: String,
    first: Ended,
    process: u32,
}

impl Testbed {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, port) = target(folder.path());
        let (first, _) = attached(&mut attach(folder.path(), &port, more));
        let process = first.0.id();
        Self { folder, _target: target, port, first, process }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("disk.nbd")
    }

    fn upgrade(&self, more: &[&str]) -> Output {
        let mut command = program(self.folder.path(), &["attach", "upgrade"]);
        command.args(more).stderr(Stdio::piped()).stdout(Stdio::piped());
        command.output().expect("the program runs")
    }

    /// Goes on with another process.
    fn pass_on(&mut self, more: &[&str]) -> Value {
        let report = json(&self.upgrade(&[more, &["-o", "json"]].concat()));
        let one = report["processes"][0].clone();
        assert_eq!(one["former_process"], self.process, "{report}");
        self.process = one["process"].as_u64().expect("a number") as u32;
        assert_eq!(self.listed(), [self.process]);
        report
    }

    /// The processes that have disks.
    fn listed(&self) -> Vec<u32> {
        let report =
            json(&program(self.folder.path(), &["attach", "list", "-o", "json"]).output().expect("it runs"));
        let disks = report["disks"].as_array().expect("a list");
        let mut processes: Vec<u32> = disks
            .iter()
            .filter(|disk| disk["state"] == "attached")
            .filter_map(|disk| disk["pid"].as_u64())
            .map(|process| process as u32)
            .collect();
        processes.dedup();
        processes
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
        signal(self.process, Signal::KILL);
    }
}

fn attach(folder: &Path, port: &str, more: &[&str]) -> Command {
    let mut command = program(folder, &arguments(port, more));
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("a file");
    command.stderr(log);
    command
}

#[test]
fn clients_keep_their_connection_over_ten_upgrades() {
    let mut testbed = Testbed::start(&["--nsid", "1,2", "--nbd", "unix:disk.nbd", "--threads", "2"]);
    let mut clients = [Client::connect(&testbed.socket()), Client::connect(&testbed.socket())];
    for round in 0..10_u8 {
        clients[0].begin_write(round + 1);
        let report = testbed.pass_on(&[]);
        clients[0].reply();
        assert!(clients.iter_mut().all(|client| client.read() == round + 1), "round {round}: {report}");
        let schema = crate::attach::schema_of(testbed.folder.path(), "attach-upgrade");
        assert_eq!(
            crate::schema_tests::mistake(&schema, &schema, &report, "attach upgrade"),
            None,
            "{report}"
        );
    }
    // The one that runs this very program, by the number that a service manager knows.
    let number = testbed.process.to_string();
    let same = json(&testbed.upgrade(&["--if-changed", "--process", &number, "-o", "json"]));
    assert_eq!(same["processes"][0]["process"], testbed.process);
    assert!(same["processes"][0]["took_ms"].is_null() && lives(testbed.process));
    // It ends as any other, and takes its socket away.
    signal(testbed.process, Signal::TERM);
    wait_until("it ends", || !lives(testbed.process));
    assert!(!testbed.socket().exists() && testbed.listed().is_empty());
    assert_eq!(testbed.first.0.wait().expect("it has ended").code(), Some(0));
    let left = std::fs::read_dir(testbed.folder.path()).expect("a folder").flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.path().extension().is_some_and(|it| it == "controllers")).collect();
    assert!(left.is_empty(), "controllers are left: {left:?}");
}

#[test]
fn an_upgrade_that_lacks_descriptors_for_all_clients_changes_nothing() {
    let testbed = Testbed::start(&["--nbd", "unix:disk.nbd"]);
    let mut clients: Vec<_> = (0..20).map(|_| Client::connect(&testbed.socket())).collect();
    let open = std::fs::read_dir(format!("/proc/{}/fd", testbed.process)).expect("it runs").count();
    // Enough for the way to the new process, and for some of the sockets once more.
    let limit = Some(open as u64 + 12);
    let limit = Rlimit { current: limit, maximum: limit };
    prlimit(Some(Pid::from_child(&testbed.first.0)), Resource::Nofile, limit).expect("a lower limit");
    let output = testbed.upgrade(&[]);
    assert!(!output.status.success() && lives(testbed.process), "{}", stderr(&output));
    assert!(clients.iter_mut().all(|client| client.read() == 0));
}

#[test]
fn metrics_keep_their_address() {
    let address = prerequisite::free_address().to_string();
    let mut testbed = Testbed::start(&["--nbd", "unix:disk.nbd", "--metrics", &address]);
    assert!(metrics(&address).is_some_and(|text| text.contains("selvedge_host_path_live{")));
    testbed.pass_on(&[]);
    wait_until("the old process has ended", || {
        testbed.first.0.try_wait().expect("a child of ours").is_some()
    });
    // The new one has the address as soon as it is free.
    wait_until("the new process has metrics", || {
        metrics(&address).is_some_and(|text| text.contains("selvedge_host_path_live{"))
    });
}

#[test]
fn sockets_of_virtual_machines_stay() {
    let mut testbed = Testbed::start(&["--vhost-user", "disk.vhost"]);
    let socket = testbed.folder.path().join("disk.vhost");
    for _ in 0..3 {
        let mut front_end = UnixStream::connect(&socket).expect("it listens");
        testbed.pass_on(&["disk.vhost"]);
        // VHOST_USER_GET_FEATURES, before and behind an upgrade.
        for _ in 0..2 {
            use std::io::{Read as _, Write as _};
            let message = [1_u32, 1, 0].map(u32::to_ne_bytes).concat();
            front_end.write_all(&message).expect("it is heard");
            let mut answer = [0; 20];
            front_end.read_exact(&mut answer).expect("it is answered");
            assert_eq!(answer[..4], 1_u32.to_ne_bytes());
            testbed.pass_on(&[]);
        }
    }
}

/// Part of a file with disks: an NBD server of this namespace.
fn table(port: &str, nsid: u32) -> String {
    let place = format!("traddr = \"127.0.0.1\"\ntrsvcid = {port}\nnqn = \"{}\"", crate::serving::NQN);
    format!("[disk.d{nsid}]\n{place}\nnsid = {nsid}\nnbd = \"unix:{nsid}.nbd\"\n")
}

#[test]
fn disks_of_a_file_go_on_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let file = folder.path().join("attach.toml");
    std::fs::write(&file, table(&port, 1) + &table(&port, 2)).expect("a file");
    let log = File::create(folder.path().join("log")).expect("a file");
    let mut command = program(folder.path(), &["attach", "serve", "-c", "attach.toml"]);
    let first = Ended(command.stdout(Stdio::null()).stderr(log).spawn().expect("the program runs"));
    let sockets = ["1.nbd", "2.nbd"].map(|name| folder.path().join(name));
    wait_until("it serves", || sockets.iter().all(|socket| UnixStream::connect(socket).is_ok()));
    let mut clients = sockets.each_ref().map(|socket| Client::connect(socket));
    let upgrade = || {
        let mut command = program(folder.path(), &["attach", "upgrade", "-o", "json"]);
        command.output().expect("the program runs")
    };
    wait_until("both are attached", || upgrade().status.success());
    assert!(!lives(first.0.id()));
    for (byte, client) in (1..).zip(&mut clients) {
        client.begin_write(byte);
        client.reply();
        assert_eq!(client.read(), byte);
    }
    // What the file has no longer is not lost.
    std::fs::write(&file, table(&port, 1)).expect("a file");
    let refused = upgrade();
    assert!(!refused.status.success() && stderr(&refused).contains("2.nbd"), "{}", stderr(&refused));
    assert_eq!(clients[1].read(), 2);
    let report =
        json(&program(folder.path(), &["attach", "detach", "all", "-o", "json"]).output().expect("it runs"));
    assert_eq!(report["detached"].as_array().map(Vec::len), Some(2), "{report}");
}

#[test]
fn all_clients_that_a_process_with_few_descriptors_accepts_keep_their_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    std::fs::write(folder.path().join("attach.toml"), table(&port, 1) + &table(&port, 2)).expect("a file");
    let command = program(folder.path(), &["attach", "serve", "-c", "attach.toml"]);
    let mut command = with_descriptors(&command, 100);
    let first = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs"));
    let sockets = ["1.nbd", "2.nbd"].map(|name| folder.path().join(name));
    wait_until("it serves", || sockets.iter().all(|socket| UnixStream::connect(socket).is_ok()));
    let fill = |socket: &PathBuf| -> Vec<Client> {
        (0..100).map_while(|_| Client::try_connect(socket).ok()).collect()
    };
    let mut clients = sockets.each_ref().map(fill);
    assert!(clients.iter().all(|clients| (4..100).contains(&clients.len())));
    let upgrade = || program(folder.path(), &["attach", "upgrade"]).output().expect("the program runs");
    wait_until("both are attached", || upgrade().status.success());
    assert!(!lives(first.0.id()));
    assert!(clients.iter_mut().flatten().all(|client| client.read() == 0));
    let detached = program(folder.path(), &["attach", "detach", "all"]).output().expect("it runs");
    assert!(detached.status.success(), "{}", stderr(&detached));
}

#[test]
fn a_program_that_is_another_one_changes_nothing() {
    let mut testbed = Testbed::start(&["--nbd", "unix:disk.nbd"]);
    let mut client = Client::connect(&testbed.socket());
    for program in ["/bin/false", "/bin/cat", "/etc/passwd"] {
        let output = testbed.upgrade(&["--program", program]);
        let report = stderr(&output);
        let line = report.lines().last().expect("a reason");
        assert!(!output.status.success() && line.contains(program) && line.contains("disk.nbd"), "{report}");
        client.begin_write(7);
        client.reply();
        assert!(lives(testbed.process) && client.read() == 7);
    }
    testbed.pass_on(&[]);
    assert_eq!(client.read(), 7);
}

/// Invalid messages to a process that could be upgraded.
#[test]
fn words_that_are_no_words_change_nothing() {
    use std::io::{Read as _, Write as _};
    let testbed = Testbed::start(&["--nbd", "unix:disk.nbd"]);
    let place = testbed.folder.path().join("attach").join(format!("{}.upgrade", testbed.process));
    let header = |format: u32, length: u32| {
        let numbers = [format, 0, length, 0].map(u32::to_le_bytes).concat();
        [&b"slv-atch"[..], &numbers].concat()
    };
    for (said, answer) in [
        (b"selvedge\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(), "not a hand-over"),
        (header(9, 0), "format 9"),
        (header(1, u32::MAX), "longer than any"),
        ([header(1, 2), b"{}".to_vec()].concat(), "damaged"),
        (header(1, 9)[..20].to_vec(), ""),
    ] {
        let mut line = UnixStream::connect(&place).expect("it waits");
        line.write_all(&said).expect("it listens");
        line.shutdown(std::net::Shutdown::Write).expect("an end");
        let mut report = Vec::new();
        line.read_to_end(&mut report).expect("an end");
        let report = String::from_utf8_lossy(&report).into_owned();
        assert!(report.contains(answer), "{said:?}: {report}");
    }
    assert_eq!(Client::connect(&testbed.socket()).read(), 0);
}

/// An old process with another protocol: the new one reports it in a line, and does no harm.
#[test]
fn a_new_process_refuses_an_old_one_of_another_format() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let place = folder.path().join("old");
    let listener = UnixListener::bind(&place).expect("a socket");
    let old = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a process connects");
        // A format that is too new.
        let numbers = [2_u32, 0, 0, 0].map(u32::to_le_bytes).concat();
        stream.write_all(&[&b"slv-atch"[..], &numbers].concat()).expect("it is heard");
        sleep(Duration::from_millis(200));
    });
    let mut command = program(folder.path(), &arguments(&port, &["--nbd", "unix:disk.nbd"]));
    let output = command.env("SELVEDGE_SUCCEEDS", &place).output().expect("the program runs");
    old.join().expect("it ends");
    let report = stderr(&output);
    assert!(
        !output.status.success() && report.contains("format 2") && report.lines().count() == 1,
        "{report}"
    );
    assert!(!folder.path().join("disk.nbd").exists());
}

/// Kills one of the two processes of an upgrade after this time; the one that serves then, if one does.
fn kill_amid(testbed: &Testbed, kills_new: bool, after: Duration) -> Option<u32> {
    let log = File::options().append(true).open(testbed.folder.path().join("log")).expect("a log");
    let mut command = program(testbed.folder.path(), &["attach", "upgrade"]);
    let mut upgrade: Child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the program runs");
    let child = || {
        let parent = upgrade.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        children.split_whitespace().next()?.parse::<u32>().ok()
    };
    wait_until("there is another process", || child().is_some() || !lives(upgrade.id()));
    let Some(next) = child() else {
        // On a busy machine it may be over before anybody has looked.
        let _ = upgrade.wait();
        wait_until("one process has the disk", || testbed.listed().len() == 1);
        return testbed.listed().first().copied();
    };
    sleep(after);
    signal(if kills_new { next } else { testbed.process }, Signal::KILL);
    let _ = upgrade.wait();
    let alive =
        || [testbed.process, next].into_iter().filter(|process| lives(*process)).collect::<Vec<u32>>();
    let who = if kills_new { "the new one" } else { "the old one" };
    let both = [testbed.process, next];
    wait_for(&format!("one has the disk, of {both:?}, where {who} was killed after {after:?}"), || {
        match alive()[..] {
            // The upgrade was over: the only one that served was killed.
            [] => Some(None),
            [one] if testbed.listed() == [one] => {
                UnixStream::connect(testbed.socket()).is_ok().then_some(Some(one))
            }
            _ => None,
        }
    })
}

#[test]
fn whichever_is_killed_one_of_both_serves_on() {
    const PLACE: [&str; 2] = ["--nbd", "unix:disk.nbd"];
    let mut testbed = Testbed::start(&PLACE);
    let mut random = Random::seeded("upgrades of attach that are killed");
    let (mut rounds, mut late, mut byte) = (0, 0, 0_u8);
    while rounds < 10 {
        assert!(late < 100, "each upgrade is over before");
        byte = byte.wrapping_add(1);
        let mut client = Client::connect(&testbed.socket());
        client.begin_write(byte);
        let after = Duration::from_micros(random.below(250_000));
        match kill_amid(&testbed, random.below(2) == 0, after) {
            Some(process) => (testbed.process, rounds) = (process, rounds + 1),
            None => {
                let _ = testbed.first.0.wait();
                (testbed.first, _) = attached(&mut attach(testbed.folder.path(), &testbed.port, &PLACE));
                testbed.process = testbed.first.0.id();
                late += 1;
            }
        }
        // The last write is there, whichever process had it.
        let mut client = Client::connect_again(&testbed.socket());
        client.begin_write(byte);
        client.reply();
        assert_eq!(client.read(), byte, "round {rounds}");
    }
    println!("{rounds} rounds; {late} times the upgrade was over before");
}
