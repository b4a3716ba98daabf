//! `selvedge attach list`, `detach` and `recover` as processes, with disks that need no driver of
//! the kernel: records, lists, detached disks, and remains of a killed process.

use std::fs::{DirBuilder, File};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use crate::attach::{arguments, attached, end, program, target};
use crate::serving::{Ended, NQN, stderr};

/// A runtime directory of the test's own, and a target behind it.
struct World {
    folder: tempfile::TempDir,
    port: String,
    _target: Ended,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, port) = target(folder.path());
        Self { folder, port, _target: target }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn attach(&self, more: &[&str]) -> Ended {
        let mut command = program(self.folder.path(), &arguments(&self.port, more));
        attached(command.env("RUNTIME_DIRECTORY", self.folder.path())).0
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = program(self.folder.path(), &[&["attach"], words].concat());
        let command = command.env("RUNTIME_DIRECTORY", self.folder.path()).stdout(Stdio::piped());
        command.output().expect("the program runs")
    }

    /// Listed disks of this test's folder, as place, state and process. Other tests may attach
    /// disks meanwhile.
    fn list(&self) -> Vec<(String, String, u64)> {
        let report = self.json(&["list"], "attach-list");
        let disks = report["disks"].as_array().expect("disks").iter();
        let own = disks.filter(|disk| disk["nqn"] == NQN && self.is_own(&disk["place"]));
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        own.map(|disk| (text(&disk["place"]), text(&disk["state"]), disk["pid"].as_u64().expect("a number")))
            .collect()
    }

    fn is_own(&self, place: &Value) -> bool {
        place.as_str().is_some_and(|place| Path::new(place).starts_with(self.folder.path()))
    }

    fn json(&self, words: &[&str], name: &str) -> Value {
        let output = self.run(&[words, &["-o", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let report = serde_json::from_slice(&output.stdout).expect("JSON");
        let made = program(self.folder.path(), &["generate", "--output", "generated"]).output();
        assert!(made.expect("the program runs").status.success());
        let schema = std::fs::read(self.path(&format!("generated/schema/{name}.json"))).expect("a schema");
        let schema = serde_json::from_slice(&schema).expect("JSON");
        assert_eq!(crate::schema_tests::mistake(&schema, &schema, &report, name), None, "{report}");
        report
    }

    fn records(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("attach")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    fn place(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

#[test]
fn what_is_attached_is_listed_and_detached() {
    let world = World::new();
    let both = ["--nsid", "1,2", "--vhost-user", "a.vhost", "--vhost-user", "b.vhost"];
    let (mut guests, mut clients) =
        (world.attach(&both), world.attach(&["--nbd", "unix:c.nbd", "--allow-second-attach"]));
    let (first, second) = (u64::from(guests.0.id()), u64::from(clients.0.id()));
    let mut listed = world.list();
    listed.sort();
    let state = |name: &str, pid| (world.place(name), "attached".to_owned(), pid);
    assert_eq!(listed, [state("a.vhost", first), state("b.vhost", first), state("c.nbd", second)]);
    for record in world.records() {
        let mode = std::fs::metadata(&record).expect("a record").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let half = world.run(&["detach", "a.vhost"]);
    assert_eq!(half.status.code(), Some(1));
    assert!(stderr(&half).contains("b.vhost too: name all"), "{}", stderr(&half));
    assert!(guests.0.try_wait().expect("it can be asked").is_none());
    let report = world.json(&["detach", "a.vhost", "unix:b.vhost"], "attach-detach");
    assert_eq!(report["detached"].as_array().expect("disks").len(), 2, "{report}");
    assert_eq!(report["detached"][0]["pid"], first);
    assert!(guests.0.wait().expect("it has ended").success());
    assert_eq!(world.list(), [state("c.nbd", second)]);
    let report = world.run(&["detach", &world.place("c.nbd")]);
    let said = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(said.contains(&format!("c.nbd is detached: process {second} has ended")), "{said}");
    assert!(clients.0.wait().expect("it has ended").success());
    assert!(world.list().is_empty() && world.records().is_empty());
    assert!(!world.path("a.vhost").exists() && !world.path("c.nbd").exists());
}

#[test]
fn one_of_two_that_attach_at_once_gets_the_disk() {
    let world = World::new();
    for round in 0..8 {
        let mut both = ["a.nbd", "b.nbd"].map(|name| {
            let place = format!("unix:{name}");
            let mut command = program(world.folder.path(), &arguments(&world.port, &["--nbd", &place]));
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            (Ended(command.spawn().expect("the program runs")), world.place(name))
        });
        let has_ended = |one: &mut Ended| one.0.try_wait().expect("it can be asked").is_some();
        prerequisite::wait_until("one is refused", || both.iter_mut().any(|(one, _)| has_ended(one)));
        let refused = usize::from(has_ended(&mut both[1].0));
        let mut said = String::new();
        let errors = both[refused].0.0.stderr.as_mut().expect("a pipe");
        errors.read_to_string(&mut said).expect("text");
        assert!(said.contains("attached for writing as"), "round {round}: {said}");
        let [first, second] = both;
        let (one, place) = if refused == 0 { second } else { first };
        let listed = || String::from_utf8_lossy(&world.run(&["list"]).stdout).into_owned();
        prerequisite::wait_until("the other one is attached", || listed().contains(&place));
        assert_eq!(end(one, Signal::TERM), Some(0), "round {round}");
    }
}

#[test]
fn no_client_is_greeted_before_the_disk_is_the_process_s() {
    let world = World::new();
    let folder = world.path("attach");
    DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
    // As a process that looks for records, and is about to write its own.
    let lock = File::open(&folder).expect("the folder");
    lock.lock().expect("it is free");
    let mut command = program(world.folder.path(), &arguments(&world.port, &["--nbd", "unix:a.nbd"]));
    let attached = Ended(command.stdout(Stdio::null()).spawn().expect("the program runs"));
    let socket = world.path("a.nbd");
    let mut client = prerequisite::wait_for("it listens", || UnixStream::connect(&socket).ok());
    let has_record = thread::spawn({
        let folder = folder.clone();
        move || {
            client.read_exact(&mut [0; 18]).expect("a greeting");
            let mut files = std::fs::read_dir(folder).expect("a folder");
            files.any(|file| file.expect("an entry").path().extension().is_some_and(|end| end == "json"))
        }
    });
    let process = PathBuf::from(format!("/proc/{}", attached.0.id()));
    let waits = || {
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == folder)
    };
    let sleeps = || -> u64 {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
    };
    prerequisite::wait_until("it waits for the lock", || waits() || has_record.is_finished());
    let before = sleeps();
    prerequisite::wait_until("it has tried the lock again", || {
        sleeps() > before + 4 || has_record.is_finished()
    });
    drop(lock);
    assert!(has_record.join().expect("a greeting"), "it was greeted before there was a record");
    assert_eq!(end(attached, Signal::TERM), Some(0));
}

#[test]
fn the_disks_of_a_file_are_one_process_s() {
    let world = World::new();
    let port = &world.port;
    let text = format!(
        "[defaults]\nallow_second_attach = true\ntraddr = \"127.0.0.1\"\ntrsvcid = {port}\nnqn = \"{NQN}\"\n[disk.a]\nnbd = \"unix:a.nbd\"\n\
         [disk.b]\nnsid = [1, 2]\nvhost_user = [\"b.vhost\", \"c.vhost\"]\n"
    );
    std::fs::write(world.path("attach.toml"), &text).expect("written");
    let check = ["serve", "--config", "attach.toml", "--check"];
    let checked = world.run(&check);
    assert!(
        checked.status.success() && stderr(&checked).contains("attach.toml is valid: a, b"),
        "{}",
        stderr(&checked)
    );
    let refused = world.run(&[&check[..], &["--metrics", "0.0.0.0:0"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--metrics-for-anybody"), "{}", stderr(&refused));
    // One that cannot be attached keeps no other away.
    let more = format!("{text}[disk.z]\nnsid = 99\nnbd = \"unix:z.nbd\"\n");
    std::fs::write(world.path("attach.toml"), more).expect("written");
    let mut command = program(world.folder.path(), &["attach", "serve", "-c", "attach.toml"]);
    // It goes on to print what it serves, and needs an open output for it.
    let said = std::fs::File::create(world.path("said")).expect("a file");
    command.env("RUNTIME_DIRECTORY", world.folder.path()).stdout(said);
    let mut served = Ended(command.spawn().expect("the program runs"));
    let pid = u64::from(served.0.id());
    let all = ["a.nbd", "b.vhost", "c.vhost"].map(|name| (world.place(name), "attached".to_owned(), pid));
    prerequisite::wait_until("all are attached", || {
        let mut listed = world.list();
        listed.sort();
        assert!(served.0.try_wait().expect("it can be asked").is_none(), "{listed:?}");
        listed == all
    });
    let half = world.run(&["detach", "b.vhost", "c.vhost"]);
    assert!(stderr(&half).contains("a.nbd too: name all"), "{}", stderr(&half));
    assert!(world.run(&["detach", "a.nbd", "b.vhost", "c.vhost"]).status.success());
    assert_eq!(served.0.wait().expect("it has ended").code(), Some(1), "one was not served");
    assert!(world.list().is_empty() && world.records().is_empty() && !world.path("a.nbd").exists());
    for (text, said) in [
        ("[disk.a]\nnbdd = true\n", "attach.toml:2: unknown setting `nbdd`: did you mean `nbd`?"),
        (
            "[disk.a]\ntraddr = \"127.0.0.1\"\nnbd = true\nnbd_tls_psk_file = \"gone.psk\"\n",
            "disk a: gone.psk cannot be read",
        ),
    ] {
        std::fs::write(world.path("attach.toml"), text).expect("written");
        let refused = world.run(&check);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

#[test]
fn remains_of_a_killed_process_are_listed_and_removed() {
    let world = World::new();
    let attached = world.attach(&["--nbd", "unix:a.nbd"]);
    let pid = u64::from(attached.0.id());
    assert_eq!(end(attached, Signal::KILL), None);
    assert_eq!(world.list(), [(world.place("a.nbd"), "left".to_owned(), pid)]);
    let said = String::from_utf8_lossy(&world.run(&["list"]).stdout).into_owned();
    assert!(said.contains("its process is gone: selvedge attach detach"), "{said}");
    let report = world.json(&["detach", "a.nbd"], "attach-detach");
    assert_eq!(report["detached"][0]["pid"], Value::Null);
    assert!(!world.path("a.nbd").exists() && world.records().is_empty());
    // One that was killed before it had a record has left its socket for upgrades, and no process has this number.
    let left = world.path("attach").join(format!("{}.upgrade", u32::MAX));
    drop(UnixListener::bind(&left).expect("a socket"));
    assert_eq!(world.run(&["detach", "a.nbd"]).status.code(), Some(1));
    assert!(!left.exists());
    // The next one on the same socket replaces what the last one has written down, too.
    assert_eq!(end(world.attach(&["--nbd", "unix:a.nbd"]), Signal::KILL), None);
    let next = world.attach(&["--nbd", "unix:a.nbd"]);
    assert_eq!(world.list(), [(world.place("a.nbd"), "attached".to_owned(), u64::from(next.0.id()))]);
    assert_eq!(end(next, Signal::TERM), Some(0));
    assert!(world.records().is_empty());
}

#[test]
fn what_cannot_be_done_is_said_in_a_line() {
    let world = World::new();
    for (words, status, said) in [
        (&["detach", "missing.nbd"][..], 1, "missing.nbd is not attached"),
        (&["detach", "127.0.0.1:1"], 1, "127.0.0.1:1 is not attached"),
        (&["detach"], 2, "required"),
        (&["recover", "--ublk-device", "sda"], 2, "the number of a block device"),
        (&["list", "--ublk"], 2, "unexpected argument"),
        (&["-a", "127.0.0.1", "--nbd", "list"], 2, "PLACE"),
    ] {
        let output = world.run(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{words:?}: {}", stderr(&output));
    }
    if !Path::new("/dev/ublk-control").exists() {
        let output = world.run(&["recover"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("modprobe ublk_drv"), "{}", stderr(&output));
    }
    // It would stand in a file, and is seen by everybody already.
    let secret = "DHHC-1:00:5Y5H3cJmkPEBgBNbVKT1ZJMLVJrIoQDdJWMDn6rAVSzfYGcz:";
    let output = world.run(&["-a", "127.0.0.1", "-S", secret, "--nbd", "unix:a.nbd"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("write it into a file") && !stderr(&output).contains(secret));
    assert!(!world.path("attach").exists() || world.records().is_empty());
}
