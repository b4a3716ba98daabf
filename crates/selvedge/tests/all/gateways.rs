//! Gateways of a group as processes over a real cluster: one is changed and both follow, one is killed and the other
//! serves, it comes back and has its own again. The suite `ceph` runs it: `SELVEDGE_CEPH_CONF` names a cluster's configuration that
//! has a pool `rbd`, and says so where not. What hosts notice is the lab's.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use prerequisite::{wait_for, wait_until};
use serde_json::{Value, json};

use crate::serving::Ended;

const NQN: &str = "nqn.2026-01.io.selvedge:gateways";

struct Gateway {
    child: Ended,
    control: String,
}

impl Gateway {
    fn start(folder: &Path, group: &str, name: &str) -> Self {
        let control = format!("unix:{}", folder.join(format!("{name}.sock")).display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "-s", "0", "--reactors", "1", "--gateway-group", group]);
        command.args(["--gateway-name", name, "--control", &control]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program runs");
        Self { child: Ended(child), control }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(arguments).args(["--control", &self.control, "-o", "json"]).stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let output = self.ask(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Waits until this gateway serves these load-balancing groups.
    fn wait_for_groups(&self, wanted: &[u64]) {
        wait_until(&format!("{wanted:?} are served"), || {
            let output = self.ask(&["gateways"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let groups = status["load_balancing_groups"].as_array().cloned().unwrap_or_default();
            let served = groups.iter().filter(|group| group["is_served_here"] == json!(true));
            served.filter_map(|group| group["id"].as_u64()).eq(wanted.iter().copied())
        });
    }

    /// The namespaces with their ANA groups and the groups' states, once there are that many.
    fn wait_for_namespaces(&self, count: usize) -> Vec<(u64, u64, String)> {
        wait_for(&format!("{count} namespaces"), || {
            let subsystem = self.run(&["subsystem", "show", NQN]);
            let namespaces = subsystem["namespaces"].as_array().cloned().unwrap_or_default();
            let groups = subsystem["ana_groups"].as_array().cloned().unwrap_or_default();
            let state =
                |id: u64| groups.iter().find(|group| group["id"] == json!(id)).unwrap()["state"].clone();
            let row = |namespace: &Value| {
                let group = namespace["ana_group"].as_u64().unwrap();
                let state = state(group).as_str().unwrap().to_owned();
                (namespace["nsid"].as_u64().unwrap(), group, state)
            };
            (namespaces.len() == count).then(|| namespaces.iter().map(row).collect())
        })
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("it ends").code()
    }
}

/// Two gateways of a group of their own in the cluster that the environment names, and the folder with all that is theirs.
fn pair() -> (tempfile::TempDir, String, [Gateway; 2]) {
    let conf = std::env::var_os("SELVEDGE_CEPH_CONF").expect("SELVEDGE_CEPH_CONF names a cluster");
    let folder = tempfile::tempdir().unwrap();
    let group = format!("rbd/test-{},conf={}", uuid::Uuid::new_v4(), conf.to_string_lossy());
    let gateways = [("a", 1), ("b", 2)].map(|(name, number)| {
        let gateway = Gateway::start(folder.path(), &group, name);
        gateway.wait_for_groups(&[number]);
        gateway
    });
    (folder, group, gateways)
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn gateways_follow_each_other_and_stand_in_for_each_other() {
    let (folder, group, [a, b]) = pair();
    a.wait_for_groups(&[1]);
    a.run(&["subsystem", "add", NQN, "--allow-any-host"]);
    for _ in 0..2 {
        b.run(&["namespace", "add", NQN, "null:1m"]);
    }
    a.run(&["namespace", "add", NQN, "null:1m", "--load-balancing-group", "2"]);
    let row = |nsid, group, state: &str| (nsid, group, state.to_owned());
    let (here, there) = ("optimized", "inaccessible");
    assert_eq!(b.wait_for_namespaces(3), [row(1, 1, there), row(2, 2, here), row(3, 2, here)]);
    assert_eq!(a.wait_for_namespaces(3), [row(1, 1, here), row(2, 2, there), row(3, 2, there)]);
    let refused = a.ask(&["namespace", "add", NQN, "memory:1m"]);
    assert_eq!(refused.status.code(), Some(1), "what only one gateway can have is refused");
    // One that is killed is stood in for, and has its own again when it is back.
    a.end("-KILL");
    b.wait_for_groups(&[1, 2]);
    b.run(&["namespace", "remove", NQN, "3"]);
    let a = Gateway::start(folder.path(), &group, "a");
    a.wait_for_groups(&[1]);
    assert_eq!(a.wait_for_namespaces(2), [row(1, 1, here), row(2, 2, there)]);
    // One that ends in order gives its own away first.
    assert_eq!(b.end("-TERM"), Some(0));
    a.wait_for_groups(&[1, 2]);
    assert_eq!(a.end("-TERM"), Some(0));
    // A gateway without others takes all groups.
    let b = Gateway::start(folder.path(), &group, "b");
    b.wait_for_groups(&[1, 2]);
    assert_eq!(b.wait_for_namespaces(2), [row(1, 1, here), row(2, 2, here)]);
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    for (arguments, expected) in [
        (&["--gateway-group", "rbd"][..], "POOL[/NAMESPACE]/GROUP"),
        (&["--gateway-group", "rbd/g", "--namespace", "null:1m"], "cannot be used with"),
        (&["--gateway-name", "a"], "--gateway-group"),
        (&["--gateway-group", "rbd/g", "--gateway-name", "a b"], "1 to 128 letters"),
        (&["--gateway-location", "east"], "--gateway-group"),
        (&["--gateway-group", "rbd/g", "--gateway-location", "a b"], "1 to 128 letters"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let output = command.arg("serve").args(arguments).stdin(Stdio::null()).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

/// Makes a secret, or a TLS key, as the content of this file.
fn make_secret(file: &Path, is_tls: bool) {
    let _ = std::fs::remove_file(file);
    let mut make = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    make.args(["key", "generate", "--output"]).arg(file).args(is_tls.then_some("--tls"));
    assert!(make.stdout(Stdio::null()).status().expect("the program runs").success());
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn gateways_read_their_files_of_secrets_and_keys_when_one_is_asked_to() {
    for is_tls in [false, true] {
        read_their_files_when_one_is_asked_to(is_tls);
    }
}

fn read_their_files_when_one_is_asked_to(is_tls: bool) {
    let (folder, _, [a, b]) = pair();
    a.run(&["subsystem", "add", NQN, "--allow-any-host"]);
    let [served, former] = ["served", "former"].map(|name| folder.path().join(name));
    let host = "nqn.2026-01.io.selvedge:host";
    let set = |gateway: &Gateway, more: &[&str]| {
        let file = served.to_str().unwrap();
        let flag = if is_tls { "--tls-key-file" } else { "--dhchap-secret-file" };
        gateway.run(&[&["host", "set-key", NQN, host, flag, file], more].concat());
    };
    let port = |gateway: &Gateway| {
        let status = gateway.run(&["status"]);
        let address = status["ports"][0]["address"].as_str().expect("an address").to_owned();
        address.rsplit(':').next().unwrap().to_owned()
    };
    let ports = [&a, &b].map(port);
    let accepts = |port: &str, secret: &Path| {
        let mut look = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        look.args(["identify", "-a", "127.0.0.1", "-s", port, "-n", NQN, "-q", host]);
        look.arg(if is_tls { "--tls-key-file" } else { "--dhchap-secret-file" }).arg(secret);
        look.stdin(Stdio::null()).output().expect("the program runs").status.success()
    };
    // The file has another name when it is asked with, since the served one changes.
    let both = |expected: &dyn Fn(&str) -> bool| {
        wait_until("both gateways read their file", || ports.iter().all(|port| expected(port)));
    };
    make_secret(&served, is_tls);
    set(&a, &[]);
    both(&|port| accepts(port, &served));
    std::fs::rename(&served, &former).unwrap();
    make_secret(&served, is_tls);
    set(&b, &["--overlap", "10m"]);
    both(&|port| accepts(port, &served));
    assert!(ports.iter().all(|port| accepts(port, &former)), "the overlap counts for all");
    // Without an overlap the second is refused at once, by both.
    std::fs::rename(&served, &former).unwrap();
    make_secret(&served, is_tls);
    set(&b, &[]);
    both(&|port| accepts(port, &served) && !accepts(port, &former));
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn a_host_with_a_tls_key_goes_on_with_the_other_gateway() {
    let (folder, _, [a, b]) = pair();
    let (key, host) = (folder.path().join("key"), "nqn.2026-01.io.selvedge:host");
    make_secret(&key, true);
    a.run(&["subsystem", "add", NQN]);
    a.run(&["namespace", "add", NQN, "null:1m"]);
    a.run(&["host", "allow", NQN, host]);
    a.run(&["host", "set-key", NQN, host, "--tls-key-file", key.to_str().unwrap()]);
    b.wait_for_namespaces(1);
    let address = |gateway: &Gateway| {
        gateway.run(&["status"])["ports"][0]["address"].as_str().expect("an address").to_owned()
    };
    let addresses = [&a, &b].map(address);
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(arguments).args(["-n", NQN, "-q", host]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // Both require TLS now, although no gateway's flags say so.
    for address in &addresses {
        let mut look = command(&["identify", "-a", address]);
        wait_until("no host is let in without its key", || {
            let output = look.output().expect("it runs");
            String::from_utf8_lossy(&output.stderr).contains("it may require TLS")
        });
    }
    let both = addresses.join(",");
    let mut bench = command(&["bench", "-a", &both, "--rw", "randrw", "--runtime", "15", "-i", "2"]);
    bench.args(["--iodepth", "8", "--tls-record-limit", "500", "-c", "1", "--destroy-data"]);
    let bench = bench.arg("--tls-key-file").arg(&key).spawn().expect("it runs");
    std::thread::sleep(Duration::from_secs(4));
    a.end("-KILL");
    b.wait_for_groups(&[1, 2]);
    let output = bench.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
