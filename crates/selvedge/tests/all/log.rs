//! The log of a target: as JSON, at a level that is changed while it runs, and never anything but a level; and a reason
//! that hosts do not show.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use nvme::Status;
use nvme::features::FeatureId;
use nvme::reservation::{PersistenceChange, RegisterAction};
use serde_json::Value;

use crate::raw_host::{self, assert_status};
use crate::reservation_party::Party;
use crate::serving::{Ended, Serving, json, selvedge, stderr};

#[test]
fn the_level_changes_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = format!("unix:{}", folder.path().join("control.sock").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["serve", "-s", "0", "--reactors", "1", "--control", &control, "--namespace", "null:1m"]);
    command.args(["--log-format", "json", "--log-level", "error"]).stdin(Stdio::null());
    let mut target =
        Ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs"));
    let mut lines = BufReader::new(target.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let first = lines.next().expect("where it listens");
    let port = first.rsplit(':').next().expect("a port").to_owned();
    assert!(lines.any(|line| line.contains(" null ")));

    assert_eq!(json(&selvedge(&["log", "--control", &control, "-o", "json"]))["level"], "error");
    // Unheard of: nothing but errors is logged.
    assert!(selvedge(&["list", "-a", "127.0.0.1", "-s", &port]).status.success());
    let wrong = selvedge(&["log", "loud", "--control", &control]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("error, warn, info, debug or trace"), "{}", stderr(&wrong));
    let changed = selvedge(&["log", "info", "--control", &control]);
    assert!(changed.status.success(), "{}", stderr(&changed));
    assert!(selvedge(&["list", "-a", "127.0.0.1", "-s", &port]).status.success());

    let logged = BufReader::new(target.0.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut logged = logged.map(|line| serde_json::from_str::<Value>(&line).expect("each line is an object"));
    let first = logged.next().expect("something is logged");
    assert_eq!((&first["level"], &first["message"]), (&"WARN".into(), &"the log level has changed".into()));
    let second = logged.next().expect("a host is an event");
    assert_eq!(second["level"], "INFO", "{second}");
}

#[test]
fn a_wrong_level_is_a_wrong_command_line() {
    let output = selvedge(&["serve", "--log-level", "loud", "--namespace", "null:1m"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`loud` is not a log level"), "{}", stderr(&output));
}

#[test]
fn a_registration_that_cannot_be_kept_is_logged_with_the_remedy() {
    let arguments = ["-s", "0", "-n", raw_host::NQN, "--namespace", "memory:1m"];
    let mut serving = Serving::controlled("none", &arguments);
    let address = format!("127.0.0.1:{}", serving.port).parse().expect("an address");
    let mut linux = Party::connect(address, 1);
    let (keys, persist) = ((0, linux.key), PersistenceChange::PersistThroughPowerLoss);
    let status = linux.register_with(1, RegisterAction::Register, keys, persist);
    assert_status(status, Status::INVALID_FIELD, "there is no place to keep it");
    let logged = serving.lines_until("Refused a registration");
    let line = logged.last().expect("that one");
    assert!(line.contains("WARN") && line.contains("host-1") && line.contains("--state-dir"), "{line}");
}

#[test]
fn a_host_that_may_not_set_persistence_is_logged_seldom() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state").display().to_string();
    let arguments = ["-s", "0", "-n", raw_host::NQN, "--namespace", "memory:1m", "--state-dir", &state];
    let mut serving = Serving::controlled("none", &arguments);
    let address: SocketAddr = format!("127.0.0.1:{}", serving.port).parse().expect("an address");
    let [mut registered, mut other] = [1, 2].map(|number| Party::connect(address, number));
    registered.register(1);
    for _ in 0..32 {
        let status = other.set_feature(FeatureId::RESERVATION_PERSISTENCE, 1, 1);
        assert_status(status, Status::RESERVATION_CONFLICT, "another host is registered");
    }
    let logged = serving.lines_until("times=32");
    let refused = logged.iter().filter(|line| line.contains("Refused to set Reservation Persistence"));
    assert!(refused.count() < 20);
}
