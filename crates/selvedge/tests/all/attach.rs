//! `selvedge attach` as a process: what it prints, where it listens, how it ends, and what it says where it cannot begin.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::other_process::{with_default_hangup, with_descriptors};
use crate::serving::{Ended, NQN, Serving, stderr};

pub(crate) fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    // What it keeps for later processes is not to be found by those of other tests.
    command.env("RUNTIME_DIRECTORY", folder);
    command
}

/// A target with two namespaces, and its port.
pub(crate) fn target(folder: &Path) -> (Ended, String) {
    let words = ["serve", "-s", "0", "-n", NQN, "--control", "none", "--reactors", "1"];
    let mut command = program(folder, &words);
    command.args(["--namespace", "memory:1m", "--namespace", "memory:2m"]).stdout(Stdio::piped());
    let mut target = Ended(command.spawn().expect("the program runs"));
    let mut lines = BufReader::new(target.0.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("it says where it listens").expect("text");
    (target, first.rsplit_once(':').expect("a port").1.to_owned())
}

pub(crate) fn arguments<'a>(port: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["attach", "-a", "127.0.0.1", "-s", port, "-n", NQN][..], more].concat()
}

fn attach(folder: &Path, port: &str, more: &[&str]) -> (Ended, Value) {
    attached(&mut program(folder, &arguments(port, more)))
}

/// The process, and what it says once clients can connect.
pub(crate) fn attached(command: &mut Command) -> (Ended, Value) {
    let mut attached =
        Ended(command.args(["-o", "json"]).stdout(Stdio::piped()).spawn().expect("the program runs"));
    let mut text = String::new();
    for line in BufReader::new(attached.0.stdout.take().expect("a pipe")).lines() {
        text += &line.expect("text");
        if let Ok(value) = serde_json::from_str(&text) {
            return (attached, value);
        }
    }
    panic!("it ended with {:?} after `{text}`", attached.0.wait());
}

/// Response of the server at this address; `None` if none listens.
pub(crate) fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

/// Metrics at this address, as Prometheus gets them; `None` if no server listens.
pub(crate) fn metrics(address: &str) -> Option<String> {
    let response = get(address, "/metrics")?;
    let (head, text) = response.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    Some(text.to_owned())
}

fn refused(folder: &Path, port: &str, more: &[&str]) -> Output {
    program(folder, &arguments(port, more)).output().expect("the program runs")
}

/// Ends it, and says with which status it did.
pub(crate) fn end(mut attached: Ended, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&attached.0), signal).expect("it runs");
    attached.0.wait().expect("it ends").code()
}

fn greets(socket: &Path) -> bool {
    let mut greeting = [0; 18];
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.read_exact(&mut greeting).expect("it says something");
    greeting.starts_with(b"NBDMAGICIHAVEOPT")
}

#[test]
fn it_says_where_clients_connect_and_cleans_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let socket = folder.path().join("a disk.nbd");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let more = arguments(&port, &["--nsid", "1,2", "--nbd", "unix:a disk.nbd"]);
        let (attached, report) = attached(&mut with_default_hangup(&program(folder.path(), &more)));
        assert_eq!(report["nbd"], format!("unix:{}", socket.display()));
        assert_eq!(
            (&report["disks"][0]["size_bytes"], &report["disks"][1]["size_bytes"]),
            (&(1 << 20).into(), &(2 << 20).into())
        );
        let uri = report["disks"][1]["uri"].as_str().expect("a URI");
        assert!(uri.starts_with("nbd+unix:///2?socket=/") && uri.ends_with("/a%20disk.nbd"), "{uri}");
        assert!(greets(&socket));
        let schema = schema(folder.path());
        assert_eq!(crate::schema_tests::mistake(&schema, &schema, &report, "attach"), None, "{report}");
        assert_eq!(end(attached, signal), Some(0));
        assert!(!socket.exists(), "the socket's file stays after {signal:?}");
    }
}

#[test]
fn sockets_for_virtual_machines_are_their_owners_and_go_at_the_end() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let both = ["--nsid", "1,2", "--vhost-user", "a.vhost", "--vhost-user", "b.vhost"];
    for signal in [Signal::TERM, Signal::INT, Signal::KILL, Signal::TERM] {
        let (attached, report) = attach(folder.path(), &port, &both);
        let sockets = ["a.vhost", "b.vhost"].map(|name| folder.path().join(name));
        for (disk, socket) in sockets.iter().enumerate() {
            assert_eq!(report["disks"][disk]["socket"], socket.display().to_string());
            let mode = std::fs::metadata(socket).expect("a socket").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            // One that says nothing, and is gone.
            drop(UnixStream::connect(socket).expect("it listens"));
        }
        assert!(report.get("nbd").is_none() && report["disks"][0].get("uri").is_none(), "{report}");
        let schema = schema(folder.path());
        assert_eq!(crate::schema_tests::mistake(&schema, &schema, &report, "attach"), None, "{report}");
        let taken = refused(folder.path(), &port, &["--allow-second-attach", "--vhost-user", "a.vhost"]);
        assert!(stderr(&taken).contains("another process listens on a.vhost"), "{}", stderr(&taken));
        let status = if signal == Signal::KILL { None } else { Some(0) };
        assert_eq!(end(attached, signal), status);
        assert!(sockets.iter().all(|socket| socket.exists() == (signal == Signal::KILL)), "{signal:?}");
    }
    for (more, words) in [
        (&["--nsid", "1,2", "--vhost-user", "c"][..], "once for each namespace"),
        (&["--vhost-user", "c", "--vhost-user", "d"], "once for each namespace"),
        (&["--vhost-user", "c", "--nbd"], "cannot be used with"),
    ] {
        let output = refused(folder.path(), &port, more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

/// Values of a field in the status of each thread (proc_pid_status(5)).
fn of_each_thread(process: &Ended, field: &str) -> Vec<String> {
    let folder = format!("/proc/{}/task", process.0.id());
    let threads = std::fs::read_dir(folder).expect("it runs").map(|thread| thread.expect("a thread").path());
    let status = threads.map(|thread| std::fs::read_to_string(thread.join("status")).expect("it runs"));
    let value = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim);
        line.expect("the field").to_owned()
    };
    status.map(value).collect()
}

#[test]
fn every_thread_is_confined_and_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let (attached, _) = attach(folder.path(), &port, &["--nbd", "unix:a.nbd"]);
    assert!(of_each_thread(&attached, "NoNewPrivs").iter().all(|value| value == "1"));
    assert!(of_each_thread(&attached, "Seccomp").iter().all(|value| value == "2"));
    for kept in of_each_thread(&attached, "CapBnd") {
        let kept = u64::from_str_radix(&kept, 16).expect("hexadecimal");
        // CAP_SYS_ADMIN, which only block devices need.
        assert!(!rustix::process::geteuid().is_root() || kept & 1 << 21 == 0, "{kept:x}");
    }
    assert!(greets(&folder.path().join("a.nbd")));
    assert_eq!(end(attached, Signal::TERM), Some(0));
    assert!(!folder.path().join("a.nbd").exists(), "its socket is removed");
    let (free, _) = attach(folder.path(), &port, &["--nbd", "unix:a.nbd", "--confinement", "none"]);
    assert!(of_each_thread(&free, "Seccomp").iter().all(|value| value == "0"));
}

#[test]
fn as_many_descriptors_are_used_as_the_system_allows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 100 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_selvedge")]);
    command.args(arguments(&port, &["--nbd", "unix:a.nbd"])).current_dir(folder.path());
    command.stdin(Stdio::null()).env("RUNTIME_DIRECTORY", folder.path());
    let (attached, _) = attached(&mut command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", attached.0.id())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let limits: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(limits[0], limits[1], "{line}");
}

#[test]
fn clients_beyond_the_descriptors_displace_those_that_say_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let command = program(folder.path(), &arguments(&port, &["--nbd", "unix:a.nbd"]));
    let (attached, _) = attached(&mut with_descriptors(&command, 100));
    let socket = folder.path().join("a.nbd");
    // More than there are descriptors, and no more than a thread serves.
    let mut clients: Vec<_> = (0..120).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let last = clients.last_mut().expect("a client");
    last.set_read_timeout(Some(prerequisite::patience())).expect("a time-out");
    let mut greeting = [0; 18];
    last.read_exact(&mut greeting).expect("a greeting");
    assert!(greeting.starts_with(b"NBDMAGICIHAVEOPT"));
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

fn schema(folder: &Path) -> Value {
    schema_of(folder, "attach")
}

/// The schema of what a command prints.
pub(crate) fn schema_of(folder: &Path, command: &str) -> Value {
    let made = program(folder, &["generate", "--output", "generated"]).output().expect("the program runs");
    assert!(made.status.success());
    let path = folder.join(format!("generated/schema/{command}.json"));
    let text = std::fs::read_to_string(path).expect("a schema");
    serde_json::from_str(&text).expect("JSON")
}

/// Devices are tested in a guest, since few machines have the driver.
#[test]
fn a_block_device_without_a_driver_is_refused_in_a_line() {
    if Path::new("/dev/ublk-control").exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // No target listens there: the driver is looked for first.
    let refused = refused(folder.path(), "1", &["--ublk"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("modprobe ublk_drv") && said.lines().count() == 1, "{said}");
    let both = self::refused(folder.path(), "1", &["--ublk", "--nbd"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn of_two_that_attach_a_protected_namespace_one_may_write_it_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("target.toml");
    let namespace = "backend.memory = { size = \"1m\" }\nwrite_protection = \"on\"\n";
    let subsystem = format!("nqn = \"{NQN}\"\nallow_any_host = true\n[[subsystem.namespace]]\n{namespace}");
    std::fs::write(&file, format!("[[port]]\naddress = \"127.0.0.1:0\"\n[[subsystem]]\n{subsystem}"))
        .expect("a file");
    let serving = Serving::of_file(file.to_str().expect("text"));
    let (first, attached) = attach(folder.path(), &serving.port, &["--nbd", "unix:a.nbd"]);
    assert_eq!(attached["disks"][0]["read_only"], true, "{attached}");
    let second = refused(folder.path(), &serving.port, &["--nbd", "unix:b.nbd"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("attached for writing as "), "{}", stderr(&second));
    let (reader, _) = attach(folder.path(), &serving.port, &["--nbd", "unix:b.nbd", "--read-only"]);
    for attached in [first, reader] {
        assert_eq!(end(attached, Signal::TERM), Some(0));
    }
}

#[test]
fn what_is_in_the_way_is_said_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let (first, _) = attach(folder.path(), &port, &["--nbd", "unix:a.nbd"]);
    let second = refused(folder.path(), &port, &["--nbd", "unix:b.nbd"]);
    assert_eq!(second.status.code(), Some(1));
    let (said, pid) = (stderr(&second), first.0.id());
    assert!(
        said.contains("namespace 1: attached for writing as ") && said.contains("a.nbd by process"),
        "{said}"
    );
    assert!(said.contains(&format!("process {pid} ")) && !folder.path().join("b.nbd").exists(), "{said}");
    let (reader, _) = attach(folder.path(), &port, &["--nbd", "unix:b.nbd", "--read-only"]);
    assert_eq!(end(reader, Signal::TERM), Some(0));
    let taken = refused(folder.path(), &port, &["--nbd", "unix:a.nbd", "--allow-second-attach"]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(stderr(&taken).contains("another process listens on a.nbd"), "{}", stderr(&taken));
    assert!(greets(&folder.path().join("a.nbd")), "the first is not disturbed");
    // What a killed one leaves is replaced.
    drop(first);
    assert!(folder.path().join("a.nbd").exists());
    let (second, _) = attach(folder.path(), &port, &["--nbd", "unix:a.nbd"]);
    assert_eq!(end(second, Signal::TERM), Some(0));
    std::fs::write(folder.path().join("file"), "precious").expect("it is written");
    std::fs::create_dir(folder.path().join("folder")).expect("a folder");
    let (taken, long) = (format!("127.0.0.1:{port}"), format!("unix:{}", "a".repeat(200)));
    let file = refused(folder.path(), &port, &["--nbd", "unix:file"]);
    assert!(stderr(&file).contains("is a file and not a socket"), "{}", stderr(&file));
    for (more, status, words) in [
        (&["--nbd", "file"][..], 2, "unix:PATH"),
        (&["--nsid", "1,1", "--nbd", "unix:b.nbd"], 2, "named twice"),
        (&["--nsid", "7", "--nbd", "unix:b.nbd"], 1, "7"),
        (&["--nbd", &taken], 1, "cannot listen on 127.0.0.1"),
        (&["--nbd", "203.0.113.1:10809"], 1, "cannot listen on 203.0.113.1:10809"),
        (&["--nbd", "unix:missing/b.nbd"], 1, "the socket missing/b.nbd cannot be made"),
        (&["--nbd", &long], 2, "longer than the 107 bytes"),
        (&["--nbd", "unix:folder"], 1, "folder is a file and not a socket"),
        (&["--vhost-user", "missing/b.vhost"], 1, "the socket missing/b.vhost cannot be made"),
    ] {
        let output = refused(folder.path(), &port, more);
        assert_eq!(output.status.code(), Some(status), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words) && output.stdout.is_empty(), "{}", stderr(&output));
        assert!(!folder.path().join("b.nbd").exists());
    }
}

#[test]
fn tls_of_clients_needs_files_that_go_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let key = folder.path().join(format!("{name}.key"));
        std::fs::write(folder.path().join(name), made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(key, private).expect("it is private");
    };
    made("a.pem");
    made("b.pem");
    let key = format!("alice:{}\n", "0f".repeat(32));
    std::fs::write(folder.path().join("open.psk"), key).expect("written");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(folder.path().join("open.psk"), readable).expect("it can be read");
    for (more, words) in [
        (&["--nbd-tls", "required"][..], "--nbd-tls needs a certificate"),
        (&["--nbd-tls-cert", "a.pem"], "--nbd-tls-key"),
        (&["--nbd-tls-client-ca", "a.pem"], "--nbd-tls-cert"),
        (&["--nbd-tls-cert", "a.pem", "--nbd-tls-key", "b.pem.key"], "cannot be used together"),
        (&["--nbd-tls-cert", "a.pem.key", "--nbd-tls-key", "a.pem.key"], "has no certificate in PEM"),
        (&["--nbd-tls-cert", "a.pem", "--nbd-tls-key", "gone"], "gone cannot be read"),
        (&["--nbd-tls-psk-file", "open.psk"], "open.psk is readable by other users"),
        (&["--nbd-tls-psk-file", "open.psk", "--nbd-tls-cert", "a.pem"], "cannot be used with"),
    ] {
        // No target listens there: files are read first.
        let output = refused(folder.path(), "1", &[&["--nbd", "unix:a.nbd"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let (_target, port) = target(folder.path());
    let tls = ["--nbd", "unix:a.nbd", "--nbd-tls-cert", "a.pem", "--nbd-tls-key", "a.pem.key"];
    let (attached, report) = attach(folder.path(), &port, &tls);
    let uri = report["disks"][0]["uri"].as_str().expect("a URI");
    assert!(uri.starts_with("nbds+unix:///1?socket=/"), "{uri}");
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn a_socket_has_the_namespace_s_name_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_target, port) = target(folder.path());
    let mut command = program(folder.path(), &arguments(&port, &["-o", "json", "--nbd"]));
    command.env("RUNTIME_DIRECTORY", folder.path()).stdout(Stdio::piped());
    let mut attached = Ended(command.spawn().expect("the program runs"));
    let mut text = String::new();
    let lines = BufReader::new(attached.0.stdout.take().expect("a pipe")).lines();
    let report: Value = lines
        .map(|line| line.expect("text"))
        .find_map(|line| {
            text += &line;
            serde_json::from_str(&text).ok()
        })
        .expect("it says where it listens");
    let socket =
        PathBuf::from(report["nbd"].as_str().and_then(|nbd| nbd.strip_prefix("unix:")).expect("a path"));
    assert_eq!(socket.parent(), Some(folder.path()));
    assert!(socket.extension().is_some_and(|extension| extension == "nbd") && greets(&socket));
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn it_ends_when_all_paths_have_been_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, port) = target(folder.path());
    let (mut attached, _) = attach(folder.path(), &port, &["--nbd", "unix:a.nbd", "-c", "1", "-l", "1"]);
    drop(target);
    assert_eq!(attached.0.wait().expect("it ends").code(), Some(1));
    assert!(!folder.path().join("a.nbd").exists());
}
