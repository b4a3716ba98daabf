//! What `serve` gives up: it is gone on every thread, it is shown, and what is left is enough to serve.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::serving::{Ended, json, stderr};
use prerequisite::{free_address, missing};

const NQN: &str = "nqn.2026-01.org.example:confined";
/// A user and a group without rights, on every system.
const UNPRIVILEGED: u32 = 65534;
/// Capabilities that root keeps: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
/// CAP_NET_BIND_SERVICE, CAP_IPC_LOCK.
const OF_ROOT: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 10 | 1 << 14;

/// A target with a control socket, gone when the test is over.
struct Serving {
    child: Ended,
    port: String,
    control: String,
}

impl Serving {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        Self::spawn(folder, command.args(Self::arguments(folder)).args(arguments))
    }

    /// The same as a user without rights, from a copy that this user can run.
    fn start_unprivileged(folder: &Path, arguments: &[&str]) -> Self {
        let program = folder.join("selvedge");
        std::fs::copy(env!("CARGO_BIN_EXE_selvedge"), &program).expect("it can be copied");
        let mut command = Command::new(program);
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED).current_dir("/");
        Self::spawn(folder, command.args(Self::arguments(folder)).args(arguments))
    }

    fn arguments(folder: &Path) -> Vec<String> {
        let control = format!("unix:{}", folder.join("control/control.sock").display());
        let arguments = ["serve", "-s", "0", "-n", NQN, "--reactors", "1", "--control", &control];
        arguments.map(str::to_owned).to_vec()
    }

    fn spawn(folder: &Path, command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        let line = lines.next().expect("it starts").expect("it prints where it listens");
        let port = line.strip_prefix("listening on 127.0.0.1:").expect("where it listens comes first");
        // It says where it is administered when that is so.
        lines.next().expect("it goes on").expect("it prints where it is administered");
        let control = format!("unix:{}", folder.join("control/control.sock").display());
        Self { port: port.to_owned(), child: Ended(child), control }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(arguments).args(["--control", &self.control]);
        command.stdin(Stdio::null()).output().expect("the program runs")
    }

    fn done(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }

    /// The state of one thing that is given up, and its detail.
    fn confinement(&self, name: &str) -> (String, String) {
        let status = json(&self.run(&["status", "-o", "json"]));
        let text = |field: &str| status["confinement"][name][field].as_str().expect("a text").to_owned();
        (text("state"), text("detail"))
    }

    /// Field of each thread's status in /proc.
    fn of_each_thread(&self, name: &str) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let statuses =
            tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        let field = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.expect("a field of the status").trim().to_owned()
        };
        statuses.map(field).collect()
    }

    /// Checks one field on all threads.
    fn each_thread_has(&self, name: &str, wanted: &str) {
        let found = self.of_each_thread(name);
        assert!(found.len() > 3, "main, listener, reactor and control at least: {found:?}");
        assert!(found.iter().all(|value| value == wanted), "{name} is {wanted} nowhere else: {found:?}");
    }

    /// Writes and verifies a namespace, as a host.
    fn write_and_verify(&self, nsid: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["bench", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN, "--nsid", nsid]);
        command.args(["--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=1m", "--verify", "--destroy-data"]);
        let output = command.stdin(Stdio::null()).output().expect("the program runs");
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

/// A folder with one for the control socket, which a user may be given.
fn folder(user: Option<u32>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for inner in ["control", "inside", "outside"] {
        let path = folder.path().join(inner);
        std::fs::create_dir(&path).expect("a folder");
        if user.is_some() {
            std::os::unix::fs::chown(path, user, user).expect("root gives it away");
        }
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    folder
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if the kernel has Landlock, by the target's own status.
fn has_landlock(serving: &Serving) -> bool {
    let (state, detail) = serving.confinement("landlock");
    if state == "unavailable" {
        missing(format!("Landlock: {detail}"));
    }
    state != "unavailable"
}

/// An answer of the control API, of JSON.
fn asked(serving: &Serving, path: &str) -> serde_json::Value {
    let socket = serving.control.trim_start_matches("unix:");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn where_packets_go_is_seen_all_the_same() {
    let folder = folder(None);
    let serving = Serving::start(folder.path(), &["--namespace", "memory:1m"]);
    let mut host = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    host.args(["bench", "-a", "127.0.0.1", "-s", &serving.port, "-n", NQN, "--rw=randread", "--runtime=60"]);
    host.args(["--rate_iops=100", "-i", "2"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut host = host.spawn().expect("the program runs");
    // What is seen is kept for a while: the host has to be there before.
    let queues =
        || asked(&serving, "/v1/connections")["controllers"][0]["queues"].as_array().map_or(0, Vec::len);
    prerequisite::wait_until("the host has its queues", || queues() >= 3);
    let seen = asked(&serving, "/v1/topology");
    let _ = host.kill();
    let _ = host.wait();
    let topology = &seen["topology"];
    let flows = topology["flows"].as_array().expect("a list");
    let ids: Vec<_> = flows.iter().filter_map(|flow| flow["queue_id"].as_u64()).collect();
    assert_eq!(ids, [0, 1, 2], "{seen:#}");
    for flow in flows {
        assert_eq!((&flow["interface"], &flow["owner"]["pid"]), (&"lo".into(), &serving.child.id().into()));
        // The reactor's thread is found, and where it runs.
        let threads = serving.of_each_thread("Name").into_iter().zip(serving.of_each_thread("Pid"));
        let reactor = threads.into_iter().find(|(name, _)| name == "reactor-0").expect("there is one").1;
        assert_eq!(flow["worker"]["thread"].to_string(), reactor);
        assert!(flow["worker"]["cpu"].is_u64(), "{flow:#}");
        assert!(flow["rtt_us"].is_u64(), "{flow:#}");
    }
    assert_eq!(seen["courses"][1]["legs"][0]["steering"]["by"], "unknown", "the loopback has no queues");
    assert_eq!(topology["shortfalls"], serde_json::json!([]), "nothing of that is refused");
}

#[test]
fn every_thread_is_confined() {
    let folder = folder(None);
    let serving = Serving::start(folder.path(), &["--namespace", "memory:1m"]);
    serving.each_thread_has("NoNewPrivs", "1");
    serving.each_thread_has("Seccomp", "2");
    serving.each_thread_has("CapInh", &format!("{:016x}", 0));
    serving.each_thread_has("CapAmb", &format!("{:016x}", 0));
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        for value in serving.of_each_thread(set) {
            let kept = u64::from_str_radix(&value, 16).expect("hexadecimal");
            assert!(!is_root() || kept & !OF_ROOT == 0, "{set} {value}");
        }
    }
    let (state, kept) = serving.confinement("capabilities");
    assert_eq!(state, "on");
    assert!(!kept.contains("sys_admin"), "{kept}");
    assert_eq!(serving.confinement("no_new_privs").0, "on");
    assert_eq!(serving.confinement("seccomp").0, "on");
    let text = String::from_utf8_lossy(&serving.run(&["status"]).stdout).into_owned();
    assert!(text.lines().any(|line| line.starts_with("confinement: ")), "{text}");
}

#[test]
fn a_user_without_rights_has_none_left() {
    if !is_root() {
        return missing("another user, which only root can be");
    }
    let folder = folder(Some(UNPRIVILEGED));
    let disk = format!("file:{},size=1m", folder.path().join("inside/a.img").display());
    let serving = Serving::start_unprivileged(folder.path(), &["--namespace", &disk]);
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        serving.each_thread_has(set, &format!("{:016x}", 0));
    }
    serving.each_thread_has("NoNewPrivs", "1");
    serving.each_thread_has("Seccomp", "2");
    let (_, detail) = serving.confinement("capabilities");
    assert!(detail.starts_with("kept: none"), "{detail}");
    serving.write_and_verify("1");
}

/// Adds namespaces inside and outside of the only folder that a target may open.
fn outside_is_refused(serving: &Serving, folder: &Path, file_user: Option<u32>) {
    let outside = folder.join("outside/a.img");
    std::fs::write(&outside, vec![0; 1 << 20]).expect("a file");
    if file_user.is_some() {
        std::os::unix::fs::chown(&outside, file_user, file_user).expect("root gives it away");
    }
    if !has_landlock(serving) {
        return;
    }
    for place in
        [outside.display().to_string(), format!("{},size=1m", folder.join("outside/b.img").display())]
    {
        let refused = serving.run(&["namespace", "add", NQN, &format!("file:{place}")]);
        let text = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains("outside/") && text.contains("Permission denied"), "{text}");
        assert!(text.contains("--confine-to"), "it says what to do: {text}");
    }
    let inside = format!("file:{},size=1m", folder.join("inside/a.img").display());
    serving.done(&["namespace", "add", NQN, &inside]);
    serving.write_and_verify("2");
}

#[test]
fn files_outside_are_refused_by_the_kernel() {
    let folder = folder(None);
    let inside = folder.path().join("inside").display().to_string();
    let serving = Serving::start(folder.path(), &["--namespace", "memory:1m", "--confine-to", &inside]);
    outside_is_refused(&serving, folder.path(), None);
}

#[test]
fn files_of_its_own_user_outside_are_refused_too() {
    if !is_root() {
        return missing("another user, which only root can be");
    }
    let folder = folder(Some(UNPRIVILEGED));
    let inside = folder.path().join("inside").display().to_string();
    let arguments = ["--namespace", "memory:1m", "--confine-to", &inside];
    let serving = Serving::start_unprivileged(folder.path(), &arguments);
    outside_is_refused(&serving, folder.path(), Some(UNPRIVILEGED));
}

#[test]
fn each_thing_can_be_kept() {
    for (chosen, wanted) in [
        ("none", ["off", "off", "off", "off"]),
        ("capabilities", ["on", "on", "off", "off"]),
        ("seccomp", ["on", "off", "off", "on"]),
        ("capabilities,seccomp", ["on", "on", "off", "on"]),
    ] {
        let folder = folder(None);
        let serving = Serving::start(folder.path(), &["--namespace", "memory:1m", "--confinement", chosen]);
        let names = ["no_new_privs", "capabilities", "landlock", "seccomp"];
        assert_eq!(names.map(|name| serving.confinement(name).0), wanted, "{chosen}");
        let filtered = serving.of_each_thread("Seccomp");
        let is_off = wanted[3] == "off";
        // A container's own filter is one more.
        let own = std::fs::read_to_string("/proc/self/status").expect("it can be read");
        if own.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "0"])) {
            assert!(filtered.iter().all(|mode| (mode == "0") == is_off), "{chosen}: {filtered:?}");
        }
    }
}

#[test]
fn what_is_asked_for_and_cannot_be_is_an_error() {
    for (arguments, code, reason) in [
        (["--confinement", "none", "--confine-to", "/tmp"], 2, "--confine-to needs landlock"),
        (["--confinement", "none,seccomp", "--confine-to", "/tmp"], 2, "stand alone"),
        (["--confinement", "all", "--confine-to", "/no/such/folder"], 1, "/no/such/folder does not exist"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "-s", "0", "--control", "none", "--namespace", "null:1m"]).args(arguments);
        let output = command.stdin(Stdio::null()).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
}

fn read_metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// A congestion control that this kernel has and not every user may choose.
fn restricted_congestion() -> Option<String> {
    let list = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control")).ok()
    };
    let (available, allowed) = (list("available")?, list("allowed")?);
    let is_allowed = |name: &str| allowed.split_whitespace().any(|allowed| allowed == name);
    available.split_whitespace().find(|name| !is_allowed(name)).map(str::to_owned)
}

#[test]
fn what_sets_a_congestion_control_is_kept_where_a_port_starts_with_one_that_takes_it() {
    let Some(name) = restricted_congestion().filter(|_| is_root()) else {
        return missing("root, and a congestion control that not every user may choose");
    };
    let disk = ["--namespace", "null:1m"];
    for (more, is_kept) in [(&[][..], false), (&["--congestion", &name][..], true)] {
        let folder = folder(None);
        let serving = Serving::start(folder.path(), &[&disk[..], more].concat());
        let (_, kept) = serving.confinement("capabilities");
        assert_eq!(kept.contains("net_admin"), is_kept, "{kept}");
        let address = free_address();
        let (host, service) = (address.ip().to_string(), address.port().to_string());
        let added = serving.run(&["listener", "add", &host, "--trsvcid", &service, "--congestion", &name]);
        let text = stderr(&added);
        assert_eq!(added.status.success(), is_kept, "{text}");
        if !is_kept {
            assert!(text.contains("CAP_NET_ADMIN") && text.contains("tcp_allowed_congestion"), "{text}");
        }
    }
}

/// All that a target does, with everything given up.
fn serves_confined(engine: &str) {
    let folder = folder(None);
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let disk = format!("file:{},size=1m", at("outside/a.img").display());
    let (state, inside) = (at("state").display().to_string(), at("inside").display().to_string());
    // The program does not print the port of its metrics.
    let metrics_address = free_address();
    let metrics = metrics_address.to_string();
    let disks = ["--namespace", &disk, "--namespace", "memory:1m", "--state-dir", &state];
    let rest = ["--engine", engine, "--metrics", &metrics, "--confine-to", &inside, "--mdns"];
    let mut serving = Serving::start(folder.path(), &[&disks[..], &rest[..]].concat());
    if has_landlock(&serving) {
        assert_eq!(serving.confinement("landlock").0, "on", "{}", serving.confinement("landlock").1);
    }
    serving.write_and_verify("1");
    serving.write_and_verify("2");
    let added = format!("file:{},size=1m", at("inside/b.img").display());
    serving.done(&["namespace", "add", NQN, &added]);
    serving.write_and_verify("3");
    serving.done(&["namespace", "remove", NQN, "3"]);
    let address = free_address();
    let (host, service) = (address.ip().to_string(), address.port().to_string());
    serving.done(&["listener", "add", &host, "--trsvcid", &service]);
    let listeners = json(&serving.run(&["listener", "list", "-o", "json"]));
    assert_eq!(listeners["ports"][1]["address"], address.to_string());
    serving.done(&["listener", "remove", &host, "-s", &service]);
    serving.done(&["log", "info"]);
    assert!(read_metrics(metrics_address).contains("selvedge_"), "it has metrics");
    let killed = rustix::process::Pid::from_child(&serving.child);
    rustix::process::kill_process(killed, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(serving.child.wait().expect("it ends").code(), Some(0));
    assert!(!at("control/control.sock").exists(), "it removes its socket");
    assert!(at("state").read_dir().expect("it is there").count() > 1, "its state is kept");
}

#[test]
fn a_confined_target_serves_with_io_uring() {
    serves_confined("io_uring");
}

#[test]
fn a_confined_target_serves_with_epoll() {
    serves_confined("epoll");
}
