//! Addresses as people write them: each is read in the same way at every entrance, and shown as it can be written again.

use std::path::Path;
use std::process::{Command, Output};

use prerequisite::available;
use serde_json::json;

use crate::serving::{Serving, json as json_of, selvedge, stderr};

const NQN: &str = "nqn.2026-01.org.example:addresses";

/// A target with a control socket.
struct Testbed {
    serving: Serving,
    control: String,
    folder: tempfile::TempDir,
}

impl Testbed {
    fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let control = format!("unix:{}", folder.path().join("c.sock").display());
        let line = ["-s", "0", "-n", NQN, "--namespace", "memory:16m"];
        let serving = Serving::controlled(&control, &[&line[..], more].concat());
        Self { serving, control, folder }
    }

    fn ask(&self, line: &[&str]) -> Output {
        selvedge(&[line, &["--control", &self.control]].concat())
    }

    /// Returns the error of a command that is refused.
    fn refused(&self, line: &[&str]) -> String {
        let output = self.ask(line);
        assert_ne!(output.status.code(), Some(0), "{line:?}");
        stderr(&output)
    }
}

/// The program where names are those of this file.
fn with_hosts(hosts: &Path, line: &[&str]) -> Output {
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", script]).arg(hosts);
    command.arg(env!("CARGO_BIN_EXE_selvedge")).args(line).output().expect("unshare runs")
}

fn namespaces(kinds: &str) -> Option<()> {
    let tried = prerequisite::run("unshare", &[kinds, "true"]);
    available("a mount and a network namespace (root)", tried.map(drop))
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let Some(()) = namespaces("-m") else { return };
    let testbed = Testbed::new(&[]);
    let hosts = testbed.folder.path().join("hosts");
    std::fs::write(&hosts, "::1 storage.example\n127.0.0.1 storage.example\n").unwrap();
    let port = testbed.serving.port.as_str();
    let both = format!("storage.example:{port}");
    for line in [
        &["list", "-a", "storage.example", "-s", port, "-o", "json"][..],
        &["list", "-a", &both, "-o", "json"],
        &["bench", "-a", &both, "-n", NQN, "--rw", "read", "--size", "4k", "-o", "json"],
    ] {
        json_of(&with_hosts(&hosts, line));
    }
    // Where there is none, each is named with its reason.
    let nothing = with_hosts(&hosts, &["list", "-a", "storage.example:1"]);
    let said = stderr(&nothing);
    assert!(
        nothing.status.code() == Some(1) && said.contains("[::1]:1 (") && said.contains("127.0.0.1:1 ("),
        "{said}"
    );
    let unknown = with_hosts(&hosts, &["list", "-a", "other.invalid"]);
    assert!(stderr(&unknown).contains("a name that can be looked up"), "{}", stderr(&unknown));
}

#[test]
fn a_link_local_address_keeps_its_interface() {
    let Some(()) = namespaces("-n") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"
        ip link set lo up && ip addr add fe80::5/64 dev lo nodad || exit 9
        "$0" serve -a fe80::5%lo -n "$1" --allow-any-host --namespace memory:1m --control unix:c.sock > log 2>&1 &
        for _ in $(seq 600); do grep -q ^listening log && break; kill -0 $! || exit 8; sleep 0.1; done
        head -n 1 log
        "$0" list -a fe80::5%lo -o json > list || exit 7
        "$0" list -a '[fe80::5%lo]:4420' -o json > again || exit 6
        "$0" list -a fe80::5 -f lo -o json > interface || exit 5
        "$0" connect -a fe80::5%1 --dry-run > connect || exit 4
        "$0" listener list --control unix:c.sock > listeners || exit 3
        kill $! && wait $!
    "#;
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", script]).arg(env!("CARGO_BIN_EXE_selvedge")).arg(NQN);
    let output = command.current_dir(folder.path()).output().expect("unshare runs");
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert!(output.status.success(), "{output:?}: {}", file("log"));
    assert!(file("log").starts_with("listening on [fe80::5%lo]:4420\n"), "{}", file("log"));
    for list in ["list", "again", "interface"] {
        let list: serde_json::Value = serde_json::from_str(&file(list)).unwrap();
        assert_eq!(list["namespaces"][0]["address"], "[fe80::5%lo]:4420");
    }
    assert!(file("connect").contains("traddr=fe80::5%lo,trsvcid=4420"), "{}", file("connect"));
    assert!(file("listeners").contains("[fe80::5%lo]:4420"), "{}", file("listeners"));
}

#[test]
fn what_is_shown_can_be_written() {
    let testbed = Testbed::new(&["--metrics", "localhost:0"]);
    let first = format!("127.0.0.1:{}", testbed.serving.port);
    let list = || json_of(&testbed.ask(&["listener", "list", "-o", "json"]));
    assert_eq!(list()["ports"][0]["address"], json!(first));
    let added = json_of(&testbed.ask(&["listener", "add", "127.0.0.2:0", "-o", "json"]));
    let address = added["address"].as_str().unwrap().to_owned();
    assert!(testbed.refused(&["listener", "add", &address]).contains("already"));
    assert!(testbed.ask(&["listener", "remove", &address]).status.success());
    assert_eq!(list()["ports"].as_array().map(Vec::len), Some(1));
    assert!(testbed.refused(&["listener", "remove", &address]).contains(&first), "the ones that there are");
    // A referral is an address and a port, however they are written.
    for (line, shown) in [
        (&["referral", "add", "localhost:8010"][..], json!({"address": "localhost", "service": "8010"})),
        (&["referral", "add", "[2001:db8::1]:8011"], json!({"address": "2001:db8::1", "service": "8011"})),
        (&["referral", "add", "10.0.0.1", "-s", "8012"], json!({"address": "10.0.0.1", "service": "8012"})),
    ] {
        let added = json_of(&testbed.ask(&[line, &["-o", "json"]].concat()));
        assert_eq!(added, shown);
    }
    let log = json_of(&selvedge(&["discover", "-a", &first, "-o", "json"]));
    let found: Vec<(&str, &str)> = log["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (record["traddr"].as_str().unwrap(), record["trsvcid"].as_str().unwrap()))
        .collect();
    for referral in [("localhost", "8010"), ("2001:db8::1", "8011"), ("10.0.0.1", "8012")] {
        assert!(found.contains(&referral), "{found:?}");
    }
    assert!(testbed.ask(&["referral", "remove", "localhost:8010"]).status.success());
}

#[test]
fn a_discovery_log_is_followed_beside_records_of_no_use() {
    let other = "nqn.2026-01.org.example:referred";
    let testbed = Testbed::new(&[]);
    let referred = Serving::controlled("none", &["-s", "0", "-n", other, "--namespace", "memory:1m"]);
    let first = format!("127.0.0.1:{}", testbed.serving.port);
    let second = format!("127.0.0.1:{}", referred.port);
    // A link-local address belongs to no interface here, and nothing listens on port 1.
    for line in [
        &["listener", "add", "127.0.0.1:0", "--advertise", "fe80::1"][..],
        &["referral", "add", "127.0.0.1:1"],
        &["referral", "add", &first],
        &["referral", "add", &second],
    ] {
        let output = testbed.ask(line);
        assert!(output.status.success(), "{line:?}: {}", stderr(&output));
    }
    for (line, rows) in [
        (&["list", "-a", &first, "-o", "json"][..], "namespaces"),
        (&["connect", "-a", &first, "--dry-run", "-o", "json"], "connections"),
    ] {
        let output = selvedge(line);
        let said = stderr(&output);
        assert!(said.contains("fe80::1") && said.contains("Connection refused"), "{line:?}: {said}");
        let printed = json_of(&output);
        let found: Vec<&str> =
            printed[rows].as_array().unwrap().iter().map(|row| row["nqn"].as_str().unwrap()).collect();
        assert_eq!(found, [NQN, other], "{line:?}");
    }
}

#[test]
fn a_subsystem_is_listed_by_the_port_that_can_be_reached() {
    // Nothing listens at the address that the first port is known by.
    let testbed = Testbed::new(&["--advertise", "127.0.0.9"]);
    let asked = format!("127.0.0.1:{}", testbed.serving.port);
    let line = ["list", "-a", &asked, "-o", "json"];
    let said = stderr(&selvedge(&line));
    assert!(said.contains("127.0.0.9") && said.contains("Connection refused"), "{said}");
    let added = json_of(&testbed.ask(&["listener", "add", "127.0.0.2:0", "-o", "json"]));
    assert_eq!(json_of(&selvedge(&line))["namespaces"][0]["address"], added["address"]);
}

#[test]
fn addresses_that_mean_nothing_are_refused() {
    let testbed = Testbed::new(&[]);
    for (line, reason) in [
        (&["list", "-a", "127.0.0.1:0"][..], "port 0"),
        (&["list", "-a", "127.0.0.1:65536"], "above 65535"),
        (&["list", "-a", "[::1"], "not closed"),
        (&["list", "-a", "::1:4420:"], "in brackets"),
        (&["list", "-a", "fe80::1"], "add its interface"),
        (&["disconnect", "-n", NQN, "-a", "host:"], "not a port"),
        (&["doctor", "-a", "a b"], "neither"),
        (&["tune", "advise", "-a", "127.0.0.1:0"], "port 0"),
        (&["attach", "-a", "127.0.0.1:0", "--nbd", "unix:x.nbd"], "port 0"),
        (&["attach", "-a", "127.0.0.1", "--nbd", "localhost:x"], "not a port"),
        (&["serve", "--namespace", "memory:1m", "-a", "127.0.0.1:70000"], "above 65535"),
        (&["serve", "--namespace", "memory:1m", "--advertise", "10.0.0.1:4420"], "without a port"),
        (&["serve", "--namespace", "memory:1m", "--metrics", "localhost"], "ADDR:PORT"),
    ] {
        let output = selvedge(line);
        assert_ne!(output.status.code(), Some(0), "{line:?}");
        assert!(stderr(&output).contains(reason), "{line:?}: {}", stderr(&output));
    }
    for (line, reason) in [
        (&["listener", "add", "127.0.0.1:x"][..], "not a port"),
        (&["listener", "add", "127.0.0.1", "--advertise", "fe80::1%lo"], "interfaces of their own"),
        (&["referral", "add", "host:8009", "-s", "8010"], "keep one"),
        (&["referral", "add", "host:0"], "1 to 65535"),
        (&["referral", "add", "0.0.0.0"], "any address"),
        (&["referral", "add", "fe80::1%lo"], "interfaces of their own"),
    ] {
        let said = testbed.refused(line);
        assert!(said.contains(reason), "{line:?}: {said}");
    }
}
