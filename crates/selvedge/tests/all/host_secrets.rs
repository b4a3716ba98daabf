//! Files of secrets, as the program's commands read them: which are refused, and what is said of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use prerequisite::missing;

use crate::serving::{NQN, Serving, json, program, stderr};

const HOST: &str = "nqn.2026-01.io.selvedge:host";
/// A user without files.
const UNPRIVILEGED: u32 = 65534;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A secret, made by the program.
fn secret() -> String {
    let made = program(&["key", "generate"]).output().expect("the program runs");
    String::from_utf8(made.stdout).expect("text")
}

fn written(folder: &Path, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its mode");
    path
}

/// A target.toml whose host has its secret in this file, and the subsystem its own in that.
fn target_toml(folder: &Path, own: &Path, controller: &Path) -> PathBuf {
    let toml = format!(
        "[[port]]\naddress = \"127.0.0.1\"\nservice = 0\n[[subsystem]]\nnqn = \"{NQN}\"\nhosts = [\"{HOST}\"]\n\
         [[subsystem.host_key]]\nhost = \"{HOST}\"\ndhchap_secret_file = \"{}\"\ndhchap_ctrl_secret_file = \"{}\"\n\
         [[subsystem.namespace]]\nmemory = \"1m\"\n",
        own.display(),
        controller.display()
    );
    written(folder, "target.toml", &toml, 0o644)
}

#[test]
fn a_check_tells_of_files_of_secrets_what_a_target_would() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = secret();
    let file = |name: &str, content: &str, mode| written(folder.path(), name, content, mode);
    let own = file("own", &good, 0o600);
    let check = |own: &Path, controller: &Path| {
        let toml = target_toml(folder.path(), own, controller);
        let checked = program(&["config", "check", text(&toml)]).output().expect("the program runs");
        let message = stderr(&checked);
        if !checked.status.success() {
            let serve = ["serve", "-c", text(&toml), "--control", "none"];
            let served = program(&serve).output().expect("the program runs");
            let what = stderr(&served);
            let what = what.lines().last().expect("a reason").trim_start_matches("selvedge: ");
            assert!(message.contains(what), "{message:?} and {what:?}");
        }
        (checked.status.code(), message)
    };
    assert_eq!(check(&own, &own), (Some(0), String::new()));
    let missing = folder.path().join("missing");
    let open = file("open", &good, 0o644);
    let (status, message) = check(&missing, &open);
    assert_eq!((status, message.lines().count()), (Some(2), 2), "{message}");
    assert!(message.contains(&format!("subsystem {NQN}: secrets of host {HOST}: ")), "{message}");
    assert!(
        message.contains("missing cannot be read: ") && message.contains("is readable by other users"),
        "{message}"
    );
    let (status, message) = check(&own, &file("cut", &good[..30], 0o600));
    assert_eq!((status, message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("cut, line 1: ") && !message.contains(&good[10..30]), "{message}");
    let (status, message) = check(&file("many", &good.repeat(9), 0o600), &own);
    assert_eq!((status, message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("many has 9 secrets, and 8 are the most"), "{message}");
}

#[test]
fn a_file_that_another_user_may_read_is_not_called_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its mode");
    let own = written(folder.path(), "own", &secret(), 0o000);
    let toml = target_toml(folder.path(), &own, &own);
    let mut check = program(&["config", "check", text(&toml)]);
    if rustix::process::getuid().is_root() {
        // Root may read everything.
        check.uid(UNPRIVILEGED);
    }
    let checked = match check.output() {
        Ok(checked) => checked,
        Err(error) => return missing(format!("another user cannot run the program where it lies: {error}")),
    };
    let message = stderr(&checked);
    assert_eq!((checked.status.code(), message.lines().count()), (Some(0), 2), "{message}");
    assert!(
        message.contains("Permission denied") && message.contains("the service has to be able to"),
        "{message}"
    );
}

#[test]
fn a_host_is_who_nvme_clis_file_says_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, controller, other) = (secret(), secret(), secret());
    let file = |name: &str, content: &str| written(folder.path(), name, content, 0o600);
    let toml = target_toml(folder.path(), &file("own", &own), &file("controller", &controller));
    let serving = Serving::of_file(text(&toml));
    // As libnvme writes it: a host that is not meant comes first.
    let config = |of_port: &str, of_controller: &str| {
        format!(
            r#"[{{"hostnqn":"nqn.2026-01.io.selvedge:other","subsystems":[{{"nqn":"{NQN}","ports":[
               {{"transport":"tcp","traddr":"192.0.2.1","trsvcid":"4420"}}]}}]}},
               {{"hostnqn":"{HOST}","hostid":"1b4e28ba-2fa1-11d2-883f-0016d3ccabcd","dhchap_key":"{}",
               "subsystems":[{{"nqn":"{NQN}","ports":[{{"transport":"tcp","traddr":"127.0.0.1","trsvcid":"{}",
               "dhchap_key":"{of_port}","dhchap_ctrl_key":"{of_controller}","nr_io_queues":2}}]}}]}}]"#,
            other.trim(),
            serving.port
        )
    };
    let right = file("config.json", &config(own.trim(), controller.trim()));
    let look = |command: &str, file: &Path, more: &[&str]| {
        let mut look = program(&[command, "-a", "127.0.0.1", "-s", &serving.port, "-J", text(file)]);
        look.args(more).output().expect("the program runs")
    };
    let list = json(&look("list", &right, &["-o", "json"]));
    assert_eq!(list["namespaces"].as_array().map(Vec::len), Some(1), "{list}");
    for command in ["discover", "identify"] {
        assert_eq!(look(command, &right, &[]).status.code(), Some(0), "{command}");
    }
    let short = ["--rw", "randread", "--runtime", "1", "--reauth-interval", "1s"];
    assert_eq!(look("bench", &right, &short).status.code(), Some(0));
    let refused = |file: &Path, more: &[&str]| {
        let output = look("identify", file, &[&["-n", NQN], more].concat());
        let message = stderr(&output);
        assert!(
            [&own, &controller, &other].iter().all(|secret| !message.contains(&secret[10..30])),
            "{message}"
        );
        (output.status.code(), message)
    };
    // The host's key is not the port's; the other host may not connect; and the target is to prove itself.
    let (status, message) = refused(&file("wrong.json", &config(other.trim(), controller.trim())), &[]);
    assert!(status == Some(1) && message.contains("secret is not the one"), "{message}");
    let (status, message) = refused(&file("impostor.json", &config(own.trim(), other.trim())), &[]);
    assert!(status == Some(1) && message.contains("the controller's response is wrong"), "{message}");
    let (status, _) = refused(&right, &["-q", "nqn.2026-01.io.selvedge:other"]);
    assert_eq!(status, Some(1));
    let (status, message) = refused(&right, &["-q", "nqn.2026-01.io.selvedge:stranger"]);
    assert!(status == Some(2) && message.contains("it has no host"), "{message}");
    let (status, message) = refused(&right, &["-S", text(&folder.path().join("own"))]);
    assert!(status == Some(2) && message.contains("cannot be used with"), "{message}");
    fs::set_permissions(&right, Permissions::from_mode(0o644)).expect("its mode");
    let (status, message) = refused(&right, &[]);
    assert!(status == Some(2) && message.contains("is readable by other users"), "{message}");
}
