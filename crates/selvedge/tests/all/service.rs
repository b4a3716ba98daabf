//! A target as a service: what the service manager learns, also when a reactor hangs, and the sockets that it passes.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::serving::{Ended, stderr};

const NQN: &str = "nqn.2026-01.org.example:service";
/// Silence that means that a target, which otherwise reports every tenth of a second, has stopped
/// reporting.
const SILENCE: Duration = Duration::from_secs(3);

/// A service manager's ear.
struct Manager {
    socket: UnixDatagram,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Self { socket, path, _folder: folder }
    }

    fn hears(&self, within: Duration) -> Option<String> {
        let mut bytes = [0; 4096];
        self.socket.set_read_timeout(Some(within)).expect("a time");
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    fn hears_of(&self, words: &str) -> String {
        loop {
            let heard =
                self.hears(prerequisite::patience()).unwrap_or_else(|| panic!("nothing is heard of {words}"));
            if heard.contains(words) {
                return heard;
            }
        }
    }
}

fn serve(more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["serve", "-n", NQN, "--reactors", "2", "--control", "none", "--namespace", "null:1m"]);
    command.args(more).stdin(Stdio::null()).stdout(Stdio::null()).env_remove("NOTIFY_SOCKET");
    command
}

#[test]
fn the_service_manager_hears_when_it_serves_and_when_it_ends() {
    let manager = Manager::new();
    let mut command = serve(&["-s", "0"]);
    let mut target = Ended(command.env("NOTIFY_SOCKET", &manager.path).spawn().expect("the program runs"));
    let heard = manager.hears_of("READY=1");
    assert!(heard.contains("STATUS=serving 1 namespace in 1 subsystem on 1 port"), "{heard}");
    assert_eq!(manager.hears(Duration::from_millis(300)), None, "it did not ask for a watchdog");
    let pid = rustix::process::Pid::from_child(&target.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    manager.hears_of("STOPPING=1");
    assert!(target.0.wait().expect("it ends").success());
}

/// The threads of a process whose names begin with this.
fn threads(process: u32, name: &str) -> Vec<String> {
    let folder = format!("/proc/{process}/task");
    let tasks = std::fs::read_dir(folder).expect("its threads").filter_map(Result::ok);
    let is_named = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name))
    };
    tasks.filter(is_named).map(|task| task.file_name().to_string_lossy().into_owned()).collect()
}

/// Stops one thread of another process for as long as this runs, as a debugger does (PTRACE_SEIZE, PTRACE_INTERRUPT).
const HOLD_A_THREAD: &str = "syscall(101, 0x4206, 0 + $ARGV[0], 0, 0) == 0 or die; \
    syscall(101, 0x4207, 0 + $ARGV[0], 0, 0) == 0 or die; $| = 1; print qq(held\\n); sleep 600";

#[test]
#[cfg(target_arch = "x86_64")]
fn the_watchdog_is_not_fed_while_a_reactor_hangs() {
    let manager = Manager::new();
    let mut command = serve(&["-s", "0"]);
    command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "400000");
    let target = Ended(command.spawn().expect("the program runs"));
    for _ in 0..3 {
        manager.hears_of("WATCHDOG=1");
    }
    let reactors = threads(target.0.id(), "reactor");
    assert_eq!(reactors.len(), 2, "{reactors:?}");
    let mut perl = Command::new("perl");
    let held = perl.args(["-e", HOLD_A_THREAD, &reactors[1]]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut held = Ended(held.spawn().expect("perl is part of every Debian"));
    let mut line = String::new();
    BufReader::new(held.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says so");
    assert_eq!(line, "held\n");
    // What was on its way, and then nothing: the other reactor's answer is not enough.
    let mut last = 0;
    while manager.hears(SILENCE).is_some() {
        last += 1;
        assert!(last < 20, "the watchdog is still fed");
    }
    drop(held);
    manager.hears_of("WATCHDOG=1");
}

/// Starts the target with `listener` as the first socket that is passed.
///
/// The shell gets it as its standard input: its own number may have two digits where other tests
/// run beside, which a shell does not have to take, and their children would inherit it.
fn activated(listener: &TcpListener, port: &str) -> Command {
    let passed = listener.try_clone().expect("a descriptor is left");
    let mut command = Command::new("sh");
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 </dev/null";
    command.args(["-c", script, env!("CARGO_BIN_EXE_selvedge"), "serve", "-n", NQN, "-s", port]);
    command.args(["--reactors", "1", "--control", "none", "--namespace", "null:1m"]);
    command.stdin(OwnedFd::from(passed)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn list(address: SocketAddr) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    let port = address.port().to_string();
    command.args(["list", "-a", "127.0.0.1", "-s", &port, "-n", NQN]).stdin(Stdio::null());
    command.output().expect("the program runs")
}

#[test]
fn a_socket_that_is_passed_is_the_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut target = Ended(activated(&listener, &address.port().to_string()).spawn().expect("it runs"));
    let mut line = String::new();
    let stdout = target.0.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("it prints");
    assert_eq!(line, format!("listening on {address}\n"));
    let found = list(address);
    assert!(found.status.success(), "{}", stderr(&found));
    drop(target);
    // The socket outlives the target, so that hosts wait instead of being refused.
    let mut next = Ended(activated(&listener, &address.port().to_string()).spawn().expect("it runs"));
    let mut line = String::new();
    BufReader::new(next.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("it prints");
    assert!(list(address).status.success());
}

#[test]
fn a_socket_of_no_port_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let output = activated(&listener, "0").output().expect("it runs");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&listener.local_addr().unwrap().to_string()) && said.contains("ListenStream="),
        "{said}"
    );
}
