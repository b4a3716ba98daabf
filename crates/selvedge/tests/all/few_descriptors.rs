//! Processes with few descriptors, or none left: connections wait or are refused, and the log has few lines of many of them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use prerequisite::{patience, wait_until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::attach::{arguments, attached, end, program, target};
use crate::attach_killed::Client;
use crate::other_process::with_descriptors;
use crate::serving::{Ended, NQN};

/// Limits the descriptors of a process; without a number, as the system does.
fn limit(process: &Child, descriptors: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: descriptors.or(maximum), maximum };
    prlimit(Some(Pid::from_child(process)), Resource::Nofile, limit).expect("a limit");
}

/// Leaves a process without a free descriptor.
fn starve(process: &Child) {
    let first_free = || {
        let folder = fs::read_dir(format!("/proc/{}/fd", process.id())).expect("it runs");
        let number = |entry: fs::DirEntry| -> Option<u64> { entry.file_name().to_str()?.parse().ok() };
        let open: Vec<u64> = folder.flatten().filter_map(number).collect();
        (0..).find(|number| !open.contains(number))
    };
    let mut least = None;
    // One that it closes meanwhile is free.
    wait_until("no descriptor is free", || {
        let free = first_free();
        let is_least = free == std::mem::replace(&mut least, free);
        limit(process, free);
        is_least
    });
}

/// Lines of a log that have these words.
fn lines(log: &Path, words: &str) -> Vec<String> {
    let log = fs::read_to_string(log).expect("a log");
    log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

#[test]
fn an_nbd_client_that_waits_for_a_descriptor_is_served_once_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let log = folder.path().join("log");
    let mut command = program(folder.path(), &arguments(&port, &["--nbd", "unix:a.nbd"]));
    let (attached, _) = attached(command.stderr(File::create(&log).expect("a file")));
    starve(&attached.0);
    let mut client = UnixStream::connect(folder.path().join("a.nbd")).expect("it listens");
    client.set_read_timeout(Some(patience())).expect("a time-out");
    // It is tried again, and logged seldom after the first times.
    wait_until("the client waits", || {
        lines(&log, "cannot accept an NBD client").iter().any(|line| line.contains("times=32"))
    });
    assert!(lines(&log, "cannot accept an NBD client").len() < 20);
    limit(&attached.0, None);
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).expect("a greeting, without another client");
    assert!(greeting.starts_with(b"NBDMAGICIHAVEOPT"));
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn a_flood_of_nbd_clients_that_are_refused_or_break_the_protocol_is_logged_seldom() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let (log, socket) = (folder.path().join("log"), folder.path().join("a.nbd"));
    let command = program(folder.path(), &arguments(&port, &["--nbd", "unix:a.nbd"]));
    let mut command = with_descriptors(&command, 100);
    let (attached, _) = attached(command.stderr(File::create(&log).expect("a file")));
    let is_closed = |bytes: &[u8]| {
        let mut client = UnixStream::connect(&socket).expect("it listens");
        client.set_read_timeout(Some(patience())).expect("a time-out");
        // A client that is refused may be gone before.
        let _ = client.write_all(bytes);
        let read = client.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        matches!(read, Ok(_) | Err(ErrorKind::ConnectionReset))
    };
    assert!((0..200).all(|_| is_closed(&[0xff; 4])));
    // All that a user may have of 25 connections.
    let clients: Vec<_> = (0..19).map(|_| Client::connect(&socket)).collect();
    assert!((0..200).all(|_| is_closed(&[])));
    drop(clients);
    assert_eq!(end(attached, Signal::TERM), Some(0));
    for words in ["breaks the protocol", "refusing an NBD client"] {
        let logged = lines(&log, words).len();
        assert!((10..60).contains(&logged), "{words}: {logged}");
    }
}

/// A target that has printed all that it serves, and its port. Its log is a file of this folder.
fn logging_target(folder: &Path, control: &str) -> (Ended, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["serve", "-s", "0", "-n", NQN, "--reactors", "1", "--namespace", "null:1m"]);
    command.args(["--control", control]).stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(File::create(folder.join("log")).expect("a file"));
    let mut target = Ended(command.spawn().expect("the program runs"));
    let printed = BufReader::new(target.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut port: Option<u16> = None;
    for line in printed {
        port = port.or_else(|| line.rsplit(':').next()?.parse().ok());
        if line.contains(" null ") {
            break;
        }
    }
    (target, port.expect("where it listens"))
}

#[test]
fn a_flood_of_hosts_at_a_target_without_descriptors_is_logged_seldom() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, port) = logging_target(folder.path(), "none");
    starve(&target.0);
    for _ in 0..60 {
        let mut host = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        host.set_read_timeout(Some(patience())).expect("a time-out");
        let read = host.read(&mut [0]).map_err(|error| error.kind());
        assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "it is refused: {read:?}");
    }
    let logged = lines(&folder.path().join("log"), "no room for another connection");
    assert!((10..30).contains(&logged.len()), "{logged:?}");
}

#[test]
fn a_control_api_without_descriptors_logs_seldom_that_it_tries_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, control) = (folder.path().join("log"), folder.path().join("control.sock"));
    let (target, _) = logging_target(folder.path(), &format!("unix:{}", control.display()));
    starve(&target.0);
    let _waiting = UnixStream::connect(&control).expect("it listens");
    let logged = || lines(&log, "the control API cannot accept");
    wait_until("it tries again", || logged().iter().any(|line| line.contains("times=32")));
    assert!(logged().len() < 20, "{:?}", logged());
}
