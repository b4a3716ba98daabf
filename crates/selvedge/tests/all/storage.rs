//! Properties of storage that count in whatever way a namespace is made: a read-only state, the size of sectors, a partition table
//! for other ones, and an end within a block.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::serving::{Ended, NQN, json, selvedge, stderr};

/// A target that is administered, and its log in a file.
struct Target {
    process: Ended,
    port: String,
    control: String,
    log: PathBuf,
}

impl Target {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let control = format!("unix:{}", folder.join("control.sock").display());
        let log = folder.join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "--reactors", "1", "--control", &control]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log).expect("a file"));
        let mut process = Ended(command.spawn().expect("the program runs"));
        let mut lines =
            BufReader::new(process.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let first = lines.find(|line| line.starts_with("listening on"));
        let first = first.unwrap_or_else(|| panic!("{}", std::fs::read_to_string(&log).expect("a log")));
        assert!(lines.any(|line| line.starts_with("administered at")));
        let port = first.rsplit_once(':').expect("a port").1.to_owned();
        Self { process, port, control, log }
    }

    fn of(folder: &Path, namespace: &str) -> Self {
        Self::start(folder, &["-s", "0", "-n", NQN, "--namespace", namespace])
    }

    fn run(&self, arguments: &[&str]) -> Output {
        selvedge(&[arguments, &["--control", &self.control]].concat())
    }

    fn namespaces(&self) -> Vec<Value> {
        let list = json(&self.run(&["namespace", "list", NQN, "-o", "json"]));
        list["namespaces"].as_array().or(list.as_array()).expect("a list").clone()
    }

    /// The namespace as hosts find it.
    fn identified(&self, nsid: u32) -> Value {
        let at = ["list", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN, "-o", "json"];
        let list = json(&selvedge(&at));
        let list = list.as_array().or(list["namespaces"].as_array()).expect("a list").clone();
        list.into_iter().find(|namespace| namespace["nsid"] == nsid).expect("it is there")
    }

    fn bench(&self, more: &[&str]) -> Output {
        selvedge(
            &[&["bench", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN, "--nsid", "1"][..], more].concat(),
        )
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }
}

/// A loop device, as long as the test runs; `None` where there are none.
struct Loop(String);

impl Loop {
    fn over(file: &Path, more: &[&str]) -> Option<Self> {
        let made = Command::new("losetup").args(more).args(["-f", "--show"]).arg(file).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Self(String::from_utf8_lossy(&made.stdout).trim().to_owned()))
            }
            _ => {
                prerequisite::missing("loop devices: losetup and root");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

fn file(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join("disk.img");
    File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
    path
}

#[test]
fn a_device_that_is_set_read_only_is_write_protected() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = file(folder.path(), 16 << 20);
    let Some(device) = Loop::over(&disk, &["-r"]) else { return };
    let target = Target::of(folder.path(), &format!("block:{}", device.0));
    let shown = target.run(&["namespace", "show", NQN, "1"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("yes, since its storage can only be read"), "{shown}");
    assert!(target.log().contains("write protected"), "{}", target.log());
    let write = target.bench(&["--rw", "write", "--bs", "4k", "--size", "4k", "--destroy-data"]);
    assert_ne!(write.status.code(), Some(0));
    assert!(stderr(&write).contains("write protected"), "known before the first write: {}", stderr(&write));
    let read = target.bench(&["--rw", "read", "--bs", "4k", "--size", "4k"]);
    assert_eq!(read.status.code(), Some(0), "{}", stderr(&read));
    // A program that uses it as a disk learns so, too.
    let mut attach = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    attach.args(["attach", "-a", "127.0.0.1", "-s", &target.port, "-n", NQN, "--nbd", "unix:disk.nbd"]);
    attach.env("RUNTIME_DIRECTORY", folder.path()).current_dir(folder.path());
    let (_attached, report) = crate::attach::attached(&mut attach);
    assert_eq!(report["disks"][0]["read_only"], true, "{report}");
}

#[test]
fn a_devices_sectors_are_its_blocks_in_whatever_way_it_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = file(folder.path(), 16 << 20);
    let Some(device) = Loop::over(&disk, &[]) else { return };
    let spec = format!("block:{}", device.0);
    let blocks =
        |target: &Target, nsid| (target.identified(nsid)["block_size"].clone(), target.namespaces().len());

    let target = Target::of(folder.path(), &spec);
    assert_eq!(blocks(&target, 1), (json!(512), 1), "--namespace");
    drop(target);
    let target = Target::of(folder.path(), &format!("{spec},block_size=4096"));
    assert_eq!(blocks(&target, 1), (json!(4096), 1), "what is said counts");
    drop(target);

    let image = File::options().write(true).open(&disk).expect("it is there");
    image.write_all_at(b"EFI PART", 4096).and_then(|()| image.sync_all()).expect("it can be written");
    let target = Target::of(folder.path(), &spec);
    assert_eq!(blocks(&target, 1), (json!(4096), 1), "a table of a host that saw larger blocks");
    drop(target);
    image.write_all_at(&[0; 8], 4096).and_then(|()| image.sync_all()).expect("it can be written");

    let target = Target::of(folder.path(), "memory:1m");
    assert_eq!(blocks(&target, 1), (json!(4096), 1), "memory");
    json(&target.run(&["namespace", "add", NQN, &spec, "-o", "json"]));
    assert_eq!(blocks(&target, 2), (json!(512), 2), "namespace add");
    drop(target);

    let config = folder.path().join("target.toml");
    let text = |namespaces: &str| {
        let head = "[[port]]\naddress = \"127.0.0.1:0\"\n";
        format!("{head}[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n{namespaces}")
    };
    let memory = "[[subsystem.namespace]]\nnsid = 1\nbackend.memory = { size = \"1m\" }\n";
    let block = format!("[[subsystem.namespace]]\nnsid = 2\nbackend.block = {{ path = \"{}\" }}\n", device.0);
    std::fs::write(&config, text(memory)).expect("it can be written");
    let path = config.display().to_string();
    let target = Target::start(folder.path(), &["-c", &path]);
    std::fs::write(&config, text(&format!("{memory}{block}"))).expect("it can be written");
    let applied = target.run(&["config", "apply", &path]);
    assert_eq!(applied.status.code(), Some(0), "{}", stderr(&applied));
    assert_eq!(blocks(&target, 2), (json!(512), 2), "a file that is put into effect");
    let same = target.run(&["config", "diff", &path]);
    assert_eq!(same.status.code(), Some(0), "nothing differs: {}", String::from_utf8_lossy(&same.stdout));
    drop(target);
    let target = Target::start(folder.path(), &["-c", &path]);
    assert_eq!(blocks(&target, 2), (json!(512), 2), "a file at the start");
}

#[test]
fn a_device_that_comes_later_is_asked_when_it_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = file(folder.path(), 16 << 20);
    let Some(device) = Loop::over(&disk, &[]) else { return };
    let link = folder.path().join("device");
    let config = folder.path().join("target.toml");
    let text = format!(
        "[[port]]\naddress = \"127.0.0.1:0\"\n[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\nbackend.block = {{ path = \"{}\" }}\n",
        link.display()
    );
    std::fs::write(&config, text).expect("it can be written");
    let target = Target::start(folder.path(), &["-c", &config.display().to_string()]);
    assert_eq!(target.namespaces()[0]["state"], "absent");
    std::os::unix::fs::symlink(&device.0, &link).expect("a link");
    prerequisite::wait_until("the namespace is ready", || target.namespaces()[0]["state"] == "ready");
    assert_eq!(target.identified(1)["block_size"], 512);
}

#[test]
fn a_table_for_other_sectors_and_an_end_within_a_block_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = file(folder.path(), (16 << 20) + 512);
    let image = File::options().write(true).open(&disk).expect("it is there");
    image.write_all_at(b"EFI PART", 512).expect("it can be written");
    let spec = format!("file:{}", disk.display());
    let target = Target::of(folder.path(), &spec);
    for words in [
        "partition table for sectors of 512 bytes",
        "its last 512 bytes, which fill no block",
        "block_size=512",
    ] {
        assert!(target.log().contains(words), "{words}: {}", target.log());
    }
    let remarks = target.namespaces()[0]["remarks"].clone();
    assert_eq!(remarks.as_array().map(Vec::len), Some(2), "{remarks}");
    drop(target);
    let target = Target::of(folder.path(), &format!("{spec},block_size=512"));
    assert!(
        !target.log().contains("partition table") && !target.log().contains("less than a block"),
        "{}",
        target.log()
    );
    assert_eq!(target.namespaces()[0].get("remarks"), None);
    assert_eq!(target.namespaces()[0]["size_bytes"], (16 << 20) + 512);
}

#[test]
fn an_image_in_a_format_of_its_own_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = file(folder.path(), 16 << 20);
    let spec = format!("file:{}", disk.display());
    let words = "image in the format qcow2";
    let target = Target::of(folder.path(), &spec);
    assert!(!target.log().contains(words), "{}", target.log());
    drop(target);
    let image = File::options().write(true).open(&disk).expect("it is there");
    image.write_all_at(b"QFI\xfb", 0).expect("it can be written");
    let target = Target::of(folder.path(), &spec);
    assert!(target.log().contains(words), "{}", target.log());
}

#[test]
fn a_start_that_fails_leaves_nothing_in_the_way_of_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new.img");
    let spec = |size: &str| format!("file:{},size={size}", path.display());
    let start = |namespaces: &[&str]| {
        let mut command = Command::new("sh");
        // No file may have more than 4 MiB.
        command.args(["-c", "ulimit -f 8192 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_selvedge")]);
        command.args(["serve", "-s", "0", "--control", "none"]).stdin(Stdio::null());
        namespaces.iter().for_each(|namespace| _ = command.args(["--namespace", namespace]));
        let output = command.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    };
    start(&[&spec("8m")]);
    assert!(!path.exists(), "an empty file is left");
    let missing = format!("file:{}", folder.path().join("missing.img").display());
    start(&[&spec("1m"), &missing]);
    assert!(!path.exists(), "a file is left of a start that failed for another reason");
    // A process that was killed while it made a file leaves an empty one.
    File::create(&path).expect("a file");
    let target = Target::of(folder.path(), &spec("2m"));
    assert_eq!(target.namespaces()[0]["size_bytes"], 2 << 20);
    assert_eq!(std::fs::metadata(&path).expect("it is there").len(), 2 << 20);
    kill_process(Pid::from_child(&target.process.0), Signal::KILL).expect("it runs");
    drop(target);
    assert!(path.exists(), "one that was served stays");
}

#[test]
fn memory_that_no_machine_has_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let started = selvedge(&["serve", "-s", "0", "--control", "none", "--namespace", "memory:64t"]);
    assert_eq!(started.status.code(), Some(1), "{}", stderr(&started));
    assert!(stderr(&started).contains("64 TiB together"), "{}", stderr(&started));
    let target = Target::of(folder.path(), "memory:1m");
    let added = target.run(&["namespace", "add", NQN, "memory:64t"]);
    assert_eq!(added.status.code(), Some(1));
    assert!(stderr(&added).contains("together, and"), "{}", stderr(&added));
    let resized = target.run(&["namespace", "resize", NQN, "1", "60g"]);
    let memory = std::fs::read_to_string("/proc/meminfo").expect("Linux tells");
    let total_kib = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number")
    };
    if total_kib("MemTotal:") + total_kib("SwapTotal:") < 60 << 20 {
        assert_eq!(resized.status.code(), Some(1), "{}", stderr(&resized));
    }
    assert_eq!(target.namespaces().len(), 1, "nothing is half done");
}
