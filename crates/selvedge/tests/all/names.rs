//! Names and addresses as people write them: each is read in the same way by every command, and an
//! unusable one is refused.

use std::path::PathBuf;

use crate::serving::{Serving, json, selvedge, stderr};

/// A target with a control socket.
struct Testbed {
    serving: Serving,
    folder: tempfile::TempDir,
}

impl Testbed {
    fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let control = format!("unix:{}", folder.path().join("c.sock").display());
        let line = [&["-s", "0", "--namespace", "memory:16m"], more].concat();
        Self { serving: Serving::controlled(&control, &line), folder }
    }

    fn control(&self) -> String {
        let socket: PathBuf = self.folder.path().join("c.sock");
        format!("--control=unix:{}", socket.display())
    }

    fn bench(&self, nqn: &str, host: &str) -> std::process::Output {
        let port = &self.serving.port;
        let line = ["bench", "-a", "127.0.0.1", "-s", port, "-n", nqn, "-q", host];
        selvedge(&[&line[..], &["--rw", "read", "--size", "4k", "-o", "json"]].concat())
    }
}

#[test]
fn a_list_of_hosts_is_several_hosts() {
    let (one, two) = ("nqn.2026-01.org.example:h1", "nqn.2026-01.org.example:h2");
    let testbed = Testbed::new(&["-n", "nqn.a", "--allow-host", &format!("{one},{two}")]);
    for host in [one, two] {
        json(&testbed.bench("nqn.a", host));
    }
    assert_eq!(testbed.bench("nqn.a", "nqn.2026-01.org.example:h3").status.code(), Some(1));
    // Where one name is asked for, a list is none.
    let control = testbed.control();
    for line in [
        &["host", "allow", "nqn.a", "nqn.b,nqn.c"][..],
        &["subsystem", "add", "nqn.d,nqn.e"],
        &["subsystem", "add", "nqn d"],
    ] {
        let refused = selvedge(&[line, &[&control]].concat());
        assert_ne!(refused.status.code(), Some(0), "{line:?}");
        assert!(stderr(&refused).contains("comma or a space"), "{line:?}: {}", stderr(&refused));
    }
    let added = selvedge(&["subsystem", "add", "nqn.f", "--allow-host", &format!("{one},{two}"), &control]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let known = json(&selvedge(&["host", "list", "nqn.f", "-o", "json", &control]));
    assert_eq!(known["hosts"], serde_json::json!([one, two]));
}

#[test]
fn names_as_linux_has_them_are_served_and_used() {
    let mut testbed = Testbed::new(&["-n", "mysub", "--allow-any-host"]);
    json(&testbed.bench("mysub", "client-7"));
    let address = format!("127.0.0.1:{}", testbed.serving.port);
    let found = json(&selvedge(&["list", "-a", &address, "-o", "json"]));
    assert_eq!(found["namespaces"][0]["nqn"], "mysub");
    let dry = selvedge(&["connect", "-a", &address, "-n", "mysub", "--dry-run"]);
    assert!(String::from_utf8_lossy(&dry.stdout).contains("nqn=mysub"), "{}", stderr(&dry));
    assert!(testbed.serving.logs("subsystem mysub: the name does not begin with nqn."));
}

#[test]
fn texts_that_an_earlier_version_kept_do_not_end_the_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, control) = (folder.path().join("state"), folder.path().join("c.sock"));
    std::fs::create_dir(&state).unwrap();
    let control = format!("unix:{}", control.display());
    let kept = ["-s", "0", "--state-dir", state.to_str().unwrap()];
    let begun = ["-n", "nqn.a", "--allow-host", "nqn.h", "--namespace", "memory:16m"];
    Serving::controlled(&control, &[&kept[..], &begun].concat()).kill();
    let file = state.join("state.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replacen("\"nqn.h\"", "\"nqn.h\", \"nqn.b,nqn.c\"", 1);
    let forged = "\"model\": \"Disk\\u001b\\n  hosts      any\"";
    assert!(text.contains("\"model\": \"Selvedge\""), "{text}");
    std::fs::write(&file, text.replacen("\"model\": \"Selvedge\"", forged, 1)).unwrap();
    let mut serving = Serving::controlled(&control, &kept[2..]);
    assert!(serving.logs("subsystems[0].hosts[1] `nqn.b,nqn.c`: an NQN cannot contain a comma"));
    let at = format!("--control={control}");
    let hosts = |line: &[&str]| json(&selvedge(&[line, &["-o", "json", &at]].concat()));
    assert_eq!(hosts(&["host", "list", "nqn.a"])["hosts"], serde_json::json!(["nqn.h", "nqn.b,nqn.c"]));
    // Other changes are made, and the name can be removed, and not come again.
    hosts(&["host", "allow", "nqn.a", "nqn.i"]);
    hosts(&["host", "deny", "nqn.a", "nqn.b,nqn.c"]);
    let again = selvedge(&["host", "allow", "nqn.a", "nqn.b,nqn.c", &at]);
    assert!(stderr(&again).contains("comma or a space"), "{}", stderr(&again));
    // So it is with a model, which forges no line.
    let shown = selvedge(&["subsystem", "show", "nqn.a", &at]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("Disk\u{fffd}\u{fffd}  hosts      any\n"), "{shown}");
    let again = selvedge(&["subsystem", "set", "nqn.a", "--model", "Disk\u{7}", &at]);
    assert!(stderr(&again).contains("a model cannot contain control characters"), "{}", stderr(&again));
    hosts(&["subsystem", "set", "nqn.a", "--model", "Disk"]);
}
