//! A target that is changed while it serves, by the program's own commands, and killed while it is changed: what it
//! serves after a restart is what it served before a change or after it.

use prerequisite::{LoopDevice, available, missing};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::serving::{Ended, program, stderr};

const NQN: &str = "nqn.2026-01.io.selvedge:target";

/// A target with a state directory and a control socket in a folder; it is killed when the test is over.
struct Serving {
    child: Ended,
    control: String,
}

impl Serving {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let control = format!("unix:{}", folder.join("control.sock").display());
        let state = folder.join("state");
        let mut arguments =
            vec!["serve", "--state-dir", state.to_str().expect("UTF-8"), "--control", &control];
        arguments.extend(["--reactors", "1"]);
        arguments.extend(more);
        let mut child = program(&arguments).stdout(Stdio::piped()).spawn().expect("the program runs");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        // One line for each address comes before it.
        let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("it prints"));
        let reply = lines.find_map(|line| line.strip_prefix("administered at ").map(str::to_owned));
        assert_eq!(reply.as_deref(), Some(control.as_str()), "it says where it is administered");
        Self { child: Ended(child), control }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        program(&[arguments, &["--control", &self.control, "-o", "json"]].concat())
    }

    fn try_run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let output = self.try_run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Output for people, with the exit status.
    fn tell(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let command = [arguments, &["--control", &self.control]].concat();
        let output = program(&command).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        (output.status.code(), text)
    }

    fn config(&self) -> Value {
        self.run(&["config", "dump"])
    }

    fn kill(mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it ends");
    }
}

fn file(folder: &Path, name: &str) -> String {
    format!("file:{},size=1m", folder.join(name).display())
}

/// Invalid changes are refused in one line.
fn refuses_nonsense(serving: &Serving) {
    for (arguments, expected) in [
        (&["namespace", "resize", NQN, "2", "1m"][..], "--shrink"),
        (&["namespace", "add", NQN, "memory:1m,nsid=1"], "already exists"),
        (&["namespace", "remove", NQN, "9"], "no namespace 9"),
        (&["namespace", "reopen", NQN, "9"], "no namespace 9"),
        (&["namespace", "reopen", NQN, "2"], "it has not failed"),
        (&["subsystem", "show", "nqn.nowhere"], "no subsystem"),
        (&["connection", "reset", "9"], "no controller 9"),
    ] {
        let output = serving.try_run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = stderr(&output);
        assert!(text.contains(expected) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
}

/// Wherever namespaces are shown, it is said how they are.
fn shows_states(serving: &Serving) {
    let shown = serving.run(&["namespace", "show", NQN, "2"]);
    assert_eq!((&shown["qos"], &shown["state"]), (&json!({ "bytes": 10 << 20 }), &json!("ready")));
    for list in [&["namespace", "list"][..], &["namespace", "list", NQN], &["subsystem", "show", NQN]] {
        let list = serving.run(list);
        let namespaces = list.pointer("/subsystems/0/namespaces").or(list.get("namespaces"));
        let states: Vec<&Value> =
            namespaces.and_then(Value::as_array).into_iter().flatten().map(|known| &known["state"]).collect();
        assert_eq!(states, ["ready", "ready"]);
    }
}

#[test]
fn a_target_is_changed_while_it_serves_and_remembers() {
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", "memory:16m"]);
    let disk = file(folder.path(), "disk.img");
    let added = serving.run(&["namespace", "add", NQN, &disk, "--iops", "5000", "--write-protect", "on"]);
    assert_eq!((&added["nsid"], &added["qos"]["iops"]), (&json!(2), &json!(5000)));
    assert_eq!(std::fs::metadata(folder.path().join("disk.img")).expect("the file").len(), 1 << 20);
    serving.run(&[
        "namespace",
        "set",
        NQN,
        "2",
        "--iops",
        "none",
        "--bw",
        "10m",
        "--visible-to",
        "nqn.host:1",
    ]);
    serving.run(&["namespace", "resize", NQN, "2", "2m"]);
    let other = "nqn.2026-01.io.selvedge:other";
    serving.run(&["subsystem", "add", other, "--serial", "S1", "--allow-host", "nqn.host:1"]);
    serving.run(&["host", "allow", other, "nqn.host:2"]);
    serving.run(&["host", "deny", other, "nqn.host:1"]);
    serving.run(&["ana", "set", NQN, "1", "non-optimized", "--port", "1=optimized"]);
    serving.run(&["referral", "add", "192.0.2.1"]);
    serving.run(&["listener", "add", "127.0.0.1", "-s", "0"]);
    for list in
        ["subsystem list", "namespace list", "listener list", "referral list", "connection list", "status"]
    {
        serving.run(&list.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(serving.run(&["host", "list", other])["hosts"], json!(["nqn.host:2"]));
    assert_eq!(serving.run(&["ana", "list", NQN])["ana_groups"][0]["state"], "non-optimized");
    shows_states(&serving);

    refuses_nonsense(&serving);

    let config = serving.config();
    let toml =
        program(&["config", "dump", "--control", &serving.control]).output().expect("the program runs");
    let path = folder.path().join("target.toml");
    std::fs::write(&path, &toml.stdout).expect("written");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(serving.run(&["config", "diff", path])["changes"], json!([]));
    let checked = program(&["config", "check", path, "-o", "json"]).output().expect("the program runs");
    assert_eq!(serde_json::from_slice::<Value>(&checked.stdout).expect("JSON"), config);

    // Another target may take neither its state nor its socket.
    let state = folder.path().join("state");
    let state = state.to_str().expect("UTF-8");
    for more in [["--state-dir", state], ["--control", &serving.control]] {
        let arguments = [&["serve", "-s", "0", "-n", NQN, "--namespace", "memory:1m"][..], &more].concat();
        let output = program(&arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    }

    serving.kill();
    let serving = Serving::start(folder.path(), &[]);
    assert_eq!(serving.config(), config);
    serving.run(&["subsystem", "remove", other]);
    let applied = serving.run(&["config", "apply", path]);
    assert_eq!(applied["changes"][0]["change"], "subsystem_added");
    assert_eq!(serving.config(), config);
    serving.kill();
    // A file that is served becomes the state.
    std::fs::remove_file(folder.path().join("state/state.json")).expect("it was there");
    Serving::start(folder.path(), &["-c", path]).kill();
    assert_eq!(Serving::start(folder.path(), &[]).config(), config);
}

#[test]
fn sizes_and_identities_stand_wherever_namespaces_are_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let nguid = "ef90689c6c46d44c89c14067801309a8";
    let namespace = format!("{},nguid={nguid}", file(folder.path(), "disk.img"));
    let serving = Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", &namespace]);
    let shown = serving.run(&["namespace", "show", NQN, "1"]);
    let uuid = shown["uuid"].as_str().expect("it has one").to_owned();
    assert_eq!((&shown["size_bytes"], &shown["nguid"]), (&json!(1 << 20), &json!(nguid)));
    let status = serving.run(&["status"])["namespaces"][0].clone();
    for known in [listed(&serving), serving.run(&["subsystem", "show", NQN])["namespaces"][0].clone(), status]
    {
        for name in ["size_bytes", "uuid", "nguid"] {
            assert_eq!(known[name], shown[name], "{known}");
        }
    }
    for arguments in
        [&["namespace", "list"][..], &["subsystem", "show", NQN], &["namespace", "show", NQN, "1"]]
    {
        let (_, text) = serving.tell(arguments);
        assert!(text.contains("1 MiB") && text.contains(&uuid), "{text}");
    }
    serving.run(&["namespace", "resize", NQN, "1", "2m"]);
    serving.run(&["namespace", "set", NQN, "1", "--iops", "5000"]);
    let (_, text) = serving.tell(&["namespace", "list"]);
    assert!(text.contains("2 MiB") && text.contains("5000 commands/s"), "{text}");
}

#[test]
fn a_difference_has_both_values_and_a_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", "memory:2m"]);
    let path = folder.path().join("target.toml");
    let path = path.to_str().expect("UTF-8");
    let (status, dumped) = serving.tell(&["config", "dump"]);
    assert_eq!(status, Some(0));
    std::fs::write(path, &dumped).expect("written");
    assert_eq!(serving.tell(&["config", "diff", path]), (Some(0), "nothing is different\n".to_owned()));

    std::fs::write(path, format!("reactors = 1\nquotas.controllers_per_host = 9\n{dumped}"))
        .expect("written");
    let output = serving.try_run(&["config", "diff", path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("not compared: reactors, quotas; they count from"),
        "{}",
        stderr(&output)
    );

    let smaller = dumped.replace("2m", "1m").replace("allow_any_host = true", "allow_any_host = false");
    std::fs::write(path, smaller.replace("hosts = []", "hosts = [\"nqn.host:1\"]")).expect("written");
    let (status, text) = serving.tell(&["config", "diff", path]);
    assert_eq!(status, Some(3), "{text}");
    for line in [
        format!("would resize namespace 1 of {NQN}"),
        "  size: 2 MiB → 1 MiB".to_owned(),
        format!("would change the allowed hosts of {NQN}"),
        "  hosts: none → nqn.host:1".to_owned(),
    ] {
        assert!(text.lines().any(|reply| reply == line), "{line}: {text}");
    }
    assert!(text.contains("requires --shrink"), "{text}");
    let output = serving.try_run(&["config", "diff", path]);
    assert_eq!(output.status.code(), Some(3));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let resized =
        json["changes"].as_array().expect("a list").iter().find(|c| c["change"] == "namespace_resized");
    let resized = resized.expect("it is resized");
    let expected = json!([{ "setting": "backend.memory.size", "from": 2 << 20, "to": 1 << 20 }]);
    assert_eq!((&resized["differences"], &resized["shrinks"]), (&expected, &json!(true)));

    let (status, text) = serving.tell(&["config", "apply", path]);
    assert!(status == Some(1) && text.contains("add --shrink"), "{text}");
    let (status, text) = serving.tell(&["config", "apply", "--shrink", path]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("resized namespace 1 of {NQN}\n  size: 2 MiB → 1 MiB\n")), "{text}");
}

#[test]
fn a_device_that_has_grown_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("device.img");
    let size = |bytes: u64| {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&image).expect("a file");
        file.set_len(bytes).expect("it has a size");
    };
    size(4 << 20);
    let Some(loop_device) = available("a loop device", LoopDevice::attach(&image, &[])) else { return };
    let device = loop_device.path().to_str().expect("UTF-8");
    let serving =
        Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", &format!("block:{device}")]);
    let (status, text) = serving.tell(&["namespace", "resize", NQN, "1", "8m"]);
    assert!(status == Some(1) && text.contains("resize the device first"), "{text}");
    size(8 << 20);
    prerequisite::run("losetup", &["--set-capacity", device]).expect("losetup runs");
    let resized = serving.run(&["namespace", "resize", NQN, "1", "8m"]);
    let shown = listed(&serving)["size_bytes"].clone();
    drop(serving);
    assert_eq!(shown, json!(8 << 20), "{resized}");
}

#[test]
fn typing_errors_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", "memory:1m"]);
    for arguments in
        [&["ana", "set", NQN, "1", "optimised"][..], &["ana", "set", NQN, "1", "change", "--port", "1=best"]]
    {
        let (status, text) = serving.tell(arguments);
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains("non-optimized"), "it names those there are: {text}");
    }
    let (status, text) = serving.tell(&["ana", "set", NQN, "9", "optimized"]);
    assert!(
        status == Some(1) && text.contains("no ANA group 9") && text.contains("only group is 1"),
        "{text}"
    );
    let (_, text) = serving.tell(&["ana", "set", NQN, "1", "optimized"]);
    assert!(text.ends_with("is optimized\n"), "{text}");

    // What `add` took, `remove` takes.
    for (id, address) in [("5", "127.0.0.1"), ("4", "127.0.0.2")] {
        serving.run(&["listener", "add", address, "-s", "0", "--id", id]);
    }
    let ports = serving.run(&["listener", "list"])["ports"].clone();
    let address = ports[1]["address"].as_str().expect("an address");
    let port = address.rsplit(':').next().expect("a port");
    // In the order of their numbers, however they came.
    let dumped: Vec<Value> =
        serving.config()["ports"].as_array().expect("a list").iter().map(|port| port["id"].clone()).collect();
    assert_eq!(dumped, [1, 4, 5]);
    let (status, text) = serving.tell(&["listener", "remove", "127.0.0.1", "-s", "1"]);
    assert!(status == Some(1) && text.contains("does not listen on 127.0.0.1:1, but on"), "{text}");
    let removed = serving.run(&["listener", "remove", "127.0.0.1", "-s", port]);
    assert_eq!(removed, json!({ "removed": 5 }));
    serving.run(&["listener", "remove", "4"]);
    assert_eq!(serving.run(&["listener", "list"])["ports"].as_array().map(Vec::len), Some(1));

    let (_, text) = serving.tell(&["status"]);
    let version = env!("CARGO_PKG_VERSION");
    let expected =
        format!("selvedge {version}, up 0 s: 1 subsystem, 1 namespace, 0 hosts connected by 0 controllers\n");
    // A busy machine may take a second or more for all of it.
    let reply = text.lines().next().unwrap_or_default();
    let (before, after) = expected.trim_end().split_once("0 s").expect("it is there");
    assert!(reply.starts_with(before) && reply.ends_with(after), "{text}");
    assert!(text.contains("any CPU") && !text.contains("cpu_time_us"), "{text}");
}

#[test]
fn a_file_is_valid_although_disks_are_absent_which_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("target.toml");
    let text = format!(
        "[[port]]\naddress = \"127.0.0.1\"\n[[subsystem]]\nnqn = \"{NQN}\"\n[[subsystem.namespace]]\n\
         file = \"/nowhere/disk.img\"\nsize = \"1m\"\n[[subsystem.namespace]]\nblock_device = \"/dev/zvol/tank/vm\"\n\
         [[subsystem.namespace]]\nmemory = \"1m\"\n"
    );
    let reported = |text: &str| {
        std::fs::write(&path, text).expect("written");
        let output =
            program(&["config", "check", path.to_str().expect("UTF-8")]).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0));
        stderr(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = reported(&text);
    assert!(
        lines[0].contains("namespace 1 of") && lines[0].contains("/nowhere has to be a folder"),
        "{lines:?}"
    );
    assert!(lines[1].contains("/dev/zvol/tank/vm has to be a block device: No such file"), "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");

    // The file itself is a regular file, and its folder is neither that nor a device.
    let (file, folder) = (path.display(), folder.path().display());
    let text = format!(
        "[[port]]\naddress = \"127.0.0.1\"\n[[subsystem]]\nnqn = \"{NQN}\"\n\
         [[subsystem.namespace]]\nbackend.file = {{ path = \"{folder}\" }}\n\
         [[subsystem.namespace]]\nbackend.file = {{ path = \"{folder}\", size = \"1m\" }}\n\
         [[subsystem.namespace]]\nbackend.block = {{ path = \"{file}\" }}\n\
         [[subsystem.namespace]]\nbackend.file = {{ path = \"{file}\" }}\n"
    );
    let lines = reported(&text);
    for (line, expected) in lines.iter().zip(["a regular file", "a regular file", "a block device"]) {
        assert!(
            line.ends_with(&format!("has to be {expected}; the namespace is absent until then")),
            "{line}"
        );
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
}

/// The one namespace that is served, as `namespace list` has it.
fn listed(serving: &Serving) -> Value {
    serving.run(&["namespace", "list", NQN])["namespaces"][0].clone()
}

#[test]
fn a_namespace_that_cannot_be_synchronized_is_shown_and_reopened() {
    let disk = match crate::bad_disks::LyingDisk::new() {
        Ok(disk) => disk,
        Err(reason) => return missing(format!("nothing can be mounted here: {reason}")),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let image = crate::bad_disks::text(&disk.file());
    // Blocks smaller than what O_DIRECT takes there, so that writes stay in the page cache until they are flushed.
    let serving = Serving::start(
        folder.path(),
        &["-s", "0", "-n", NQN, "--namespace", &format!("file:{image},size=24m,block=512")],
    );
    let address = serving.run(&["status"])["ports"][0]["address"].as_str().expect("an address").to_owned();
    let port = address.rsplit(':').next().expect("a port");
    let writes = || {
        let arguments = ["bench", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--rw", "write", "--size", "8m"];
        let more = ["--bs", "64k", "--fsync", "128", "--runtime", "2", "--destroy-data"];
        program(&[&arguments[..], &more].concat()).output().expect("the program runs")
    };
    let output = writes();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(listed(&serving)["state"], "ready");

    // Past what was written there is no room.
    disk.take_room(true);
    let arguments = ["bench", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--rw", "write", "--offset", "8m"];
    let more = ["--size", "8m", "--bs", "64k", "--fsync", "128", "--runtime", "5", "--destroy-data"];
    let output = program(&[&arguments[..], &more].concat()).output().expect("the program runs");
    assert_ne!(output.status.code(), Some(0), "a Flush fails");
    disk.take_room(false);
    assert_ne!(writes().status.code(), Some(0), "nothing is written, though the disk is well again");
    let failed = listed(&serving);
    assert_eq!(failed["state"], "failed");
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(reason.contains("fdatasync failed") && reason.contains(&image), "{reason}");
    let reply = |arguments: &[&str]| {
        let output = program(&[arguments, &["--control", &serving.control]].concat()).output();
        String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8")
    };
    assert!(reply(&["status"]).contains(&format!("namespace 1 of {NQN} is failed: {reason}")));
    assert!(reply(&["namespace", "show", NQN, "1"]).contains(&format!("failed: {reason}")));

    serving.run(&["namespace", "reopen", NQN, "1"]);
    assert_eq!(listed(&serving)["state"], "ready");
    let output = writes();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_namespace_is_added_with_all_that_its_specification_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", "memory:1m"]);
    let spec = format!("{},shared=yes,write_delay=3s", file(folder.path(), "slow.img"));
    serving.run(&["namespace", "add", NQN, &spec]);
    let added = serving.run(&["namespace", "show", NQN, "2"]);
    assert_eq!((&added["write_delay_ms"], &added["shared_storage"]), (&json!(3000), &json!(true)));
}

#[test]
fn a_command_quiesce_time_is_fixed_measured_and_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["-s", "0", "-n", NQN, "--namespace", "memory:1m", "--command-quiesce", "auto"];
    let serving = Serving::start(folder.path(), &arguments);
    let reply = || {
        let reply = serving.run(&["status"])["subsystems"][0].clone();
        (reply["command_quiesce"].clone(), reply["command_quiesce_ms"].clone())
    };
    let set = |time: &str| serving.try_run(&["subsystem", "set", NQN, "--command-quiesce", time]);
    assert_eq!(reply(), (json!("auto"), json!(2000)));
    for (time, expected) in [
        ("31s", ("fixed", 31_000)),
        ("auto", ("auto", 2000)),
        ("300ms", ("fixed", 300)),
        ("default", ("fixed", 2000)),
    ] {
        assert_eq!(set(time).status.code(), Some(0));
        assert_eq!(reply(), (json!(expected.0), json!(expected.1)), "{time}");
    }
    let slow = format!("{},write_delay=3s", file(folder.path(), "slow.img"));
    serving.run(&["namespace", "add", NQN, &slow]);
    assert_eq!(reply(), (json!("fixed"), json!(3500)), "a write that is held back takes that time");
    for (time, code, expected) in [
        ("3499ms", 1, "set 3500 ms or more"),
        ("0", 2, "is not from 1ms to 65535ms"),
        ("66s", 2, "is not from 1ms to 65535ms"),
        ("soon", 2, "soon"),
    ] {
        let output = set(time);
        assert_eq!(output.status.code(), Some(code), "{time}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{time}: {}", stderr(&output));
    }
    assert_eq!(reply(), (json!("fixed"), json!(3500)), "nothing of it was taken over");
    // What is measured is kept like any other setting.
    assert_eq!(set("auto").status.code(), Some(0));
    serving.kill();
    let serving = Serving::start(folder.path(), &[]);
    assert_eq!(serving.run(&["status"])["subsystems"][0]["command_quiesce"], "auto");
}

/// Chance that repeats with its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        // An xorshift generator; it must not start at zero.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A change, as a command, and what the configuration is after it.
fn change(round: u64, chance: &mut Chance, folder: &Path, before: &Value) -> (Vec<String>, Value) {
    let mut after = before.clone();
    let subsystem = &mut after["subsystems"][0];
    let arguments: Vec<String> = match chance.below(4) {
        0 => {
            let nqn = format!("nqn.2026-01.io.selvedge:{round}");
            subsystem["hosts"].as_array_mut().expect("a list").push(json!(nqn));
            vec!["host".into(), "allow".into(), NQN.into(), nqn]
        }
        1 => {
            let iops = 1 + chance.below(1 << 40);
            subsystem["namespaces"][0]["qos"] = json!({ "iops": iops });
            vec!["namespace".into(), "set".into(), NQN.into(), "1".into(), "--iops".into(), iops.to_string()]
        }
        2 => {
            let serial = format!("S{round}");
            subsystem["serial"] = json!(serial);
            vec!["subsystem".into(), "set".into(), NQN.into(), "--serial".into(), serial]
        }
        _ => {
            let path: PathBuf = folder.join(format!("{round}.img"));
            let list = subsystem["namespaces"].as_array_mut().expect("a list");
            let nsid = 1 + list.len();
            list.push(json!({
                "nsid": nsid,
                "backend": { "file": { "path": path, "size": 1 << 20 } },
                "block_size": 4096,
                "ana_group": 1,
                "visible": { "all_except": [] },
            }));
            vec!["namespace".into(), "add".into(), NQN.into(), file(folder, &format!("{round}.img"))]
        }
    };
    (arguments, after)
}

#[test]
fn a_kill_in_a_change_leaves_what_was_before_it_or_after_it() {
    let kills = std::env::var("SELVEDGE_KILLS")
        .map_or(25, |kills| kills.parse().expect("SELVEDGE_KILLS is a number"));
    let seed =
        SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos() as u64 | 1;
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = file(folder.path(), "disk.img");
    let mut serving = Serving::start(folder.path(), &["-s", "0", "-n", NQN, "--namespace", &namespace]);
    let (mut made, mut not_made) = (0, 0);
    for round in 0..kills {
        let before = serving.config();
        let (arguments, after) = change(round, &mut chance, folder.path(), &before);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut client = serving.command(&arguments);
        let mut client =
            client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs");
        std::thread::sleep(Duration::from_micros(chance.below(20_000)));
        serving.kill();
        let answered = client.wait().expect("it ends").success();
        serving = Serving::start(folder.path(), &[]);
        let served = serving.config();
        assert!(
            served == before || served == after,
            "round {round}, seed {seed}: {arguments:?}\n{before}\n{served}"
        );
        // What was answered was kept.
        assert!(!answered || served == after, "round {round}, seed {seed}: {arguments:?} was lost");
        *(if served == after { &mut made } else { &mut not_made }) += 1;
    }
    println!("{made} changes were made, {not_made} were not");
}
