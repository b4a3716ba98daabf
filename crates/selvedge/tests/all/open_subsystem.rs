//! A list of hosts beside a subsystem that every host may use: each change says what it comes to.

use std::process::Output;

use crate::serving::{NQN, Serving, selvedge, stderr};

const LISTED: &str = "nqn.2026-01.org.example:listed";
const STRANGER: &str = "nqn.2026-01.org.example:stranger";

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_list_without_effect_is_reported_and_can_be_given_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("control.sock");
    let serving = Serving::administered("memory:1m", &socket);
    let control = format!("unix:{}", socket.display());
    let host = |words: &[&str]| selvedge(&[&["host"], words, &["--control", &control]].concat());
    let reads = |nqn: &str| {
        let mut bench =
            serving.bench(&["-q", nqn, "--nsid", "1", "--rw", "read", "--bs", "4k", "--size", "4k"]);
        bench.output().expect("the program runs").status.success()
    };
    let closes = format!("selvedge host deny {NQN} --any");
    let allowed = text(&host(&["allow", NQN, LISTED]));
    assert!(allowed.contains("has no effect yet") && allowed.contains(&closes), "{allowed}");
    assert!(reads(LISTED) && reads(STRANGER));
    let denied = text(&host(&["deny", NQN, LISTED]));
    assert!(denied.contains("may use it all the same") && denied.contains(&closes), "{denied}");
    let unknown = host(&["deny", NQN, STRANGER]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("--any"), "{}", stderr(&unknown));

    text(&host(&["allow", NQN, LISTED]));
    text(&host(&["deny", NQN, "--any"]));
    assert!(reads(LISTED) && !reads(STRANGER));
    let allowed = text(&host(&["allow", NQN, STRANGER]));
    assert!(allowed.contains("may use") && !allowed.contains("every host"), "{allowed}");
    assert!(reads(STRANGER));
    let denied = text(&host(&["deny", NQN, STRANGER]));
    assert!(!denied.contains("every host"), "{denied}");
    assert!(reads(LISTED) && !reads(STRANGER));
}
