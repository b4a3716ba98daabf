//! A refused host is in the log at its default level, with its name, its address and the reason:
//! the search for a failed connection begins there.

use std::process::Output;

use crate::serving::{NQN, Serving, selvedge, stderr};

const LISTED: &str = "nqn.2026-01.org.example:listed";
const STRANGER: &str = "nqn.2026-01.org.example:stranger";
const OTHER: &str = "nqn.2026-01.org.example:typo";

#[test]
fn who_is_not_on_the_list_or_asks_for_nothing_that_is_here_is_named() {
    let mut serving = Serving::start_with("memory:1m", &["--allow-host", LISTED]);
    let bench = |host: &str, nqn: &str| -> Output {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["bench", "-a", "127.0.0.1", "-s", &serving.port, "-n", nqn, "-q", host]);
        command.args(["--nsid", "1", "--rw", "read", "--bs", "4k", "--size", "4k"]).output().expect("it runs")
    };
    assert_eq!(bench(LISTED, NQN).status.code(), Some(0));
    for (host, nqn) in [(STRANGER, NQN), (LISTED, OTHER)] {
        assert_eq!(bench(host, nqn).status.code(), Some(1));
    }
    let lines = serving.lines_until("unknown_subsystem");
    assert!(lines.iter().all(|line| line.contains("WARN")), "{lines:?}");
    let refused = |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(
        refused(&[STRANGER, NQN, "127.0.0.1", "not on the subsystem's list", "not_allowed"]),
        "{lines:?}"
    );
    assert!(refused(&[LISTED, OTHER, "127.0.0.1", "no such subsystem", "unknown_subsystem"]), "{lines:?}");
}

#[test]
fn an_announcement_by_mdns_lets_in_no_host() {
    let serving = Serving::start_with("memory:1m", &["--allow-host", LISTED, "--mdns"]);
    for (host, is_listed) in [(LISTED, true), (STRANGER, false)] {
        let address = ["-a", "127.0.0.1", "-s", &serving.port, "-q", host];
        let found = selvedge(&[&["discover"], &address[..]].concat());
        assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
        assert_eq!(String::from_utf8_lossy(&found.stdout).contains(NQN), is_listed, "{host}");
        let used = selvedge(&[&["identify", "-n", NQN], &address[..]].concat());
        assert_eq!(used.status.success(), is_listed, "{host}: {}", stderr(&used));
    }
}
