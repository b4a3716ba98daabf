//! Tests of machines that are trees and recordings.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn text(line: &str) -> String {
    format!("{line}\n")
}

#[test]
fn a_recording_is_read_by_its_paths() {
    let lines = [
        "# a comment",
        "F sys/class/net/eth0/mtu\t1500\\n",
        "L sys/class/net/eth0/device/driver\t../../bus/pci/drivers/mlx5_core",
        "E sys/kernel/debug\t13 Permission denied",
        "D proc/1",
        "",
    ];
    let recording: Recording = lines.join("\n").parse().unwrap();
    let machine = Machine::of_recording("x", recording.clone());
    assert_eq!(machine.read("sys/class/net/eth0/mtu").unwrap(), "1500\n");
    assert_eq!(machine.list("sys/class/net").unwrap(), ["eth0"]);
    assert_eq!(machine.list("sys/class/net/eth0").unwrap(), ["device", "mtu"]);
    assert_eq!(machine.list("proc/1").unwrap(), [""; 0]);
    assert!(machine.link("sys/class/net/eth0/device/driver").unwrap().ends_with("mlx5_core"));
    assert_eq!(machine.read("sys/kernel/debug/block/x").unwrap_err().raw_os_error(), Some(13));
    assert_eq!(machine.read("sys/class").unwrap_err().raw_os_error(), Some(libc::EISDIR));
    assert_eq!(machine.link("sys/class/net/eth0/mtu").unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert!(is_absent(&machine.read("sys/class/net/eth1/mtu").unwrap_err()));
    assert_eq!(machine.name("proc/1"), "proc/1 in x");
    assert_eq!(recording.to_string().parse::<Recording>().unwrap(), recording);
}

#[test]
fn an_invalid_recording_is_refused_with_its_line() {
    for (line, reason) in [
        ("F sys/a", "tab"),
        ("F /sys/a\tx", "not a path"),
        ("F sys/../a\tx", "not a path"),
        ("X sys/a\tx", "none of F, L, D and E"),
        ("E sys/a\tx", "not an error number"),
        ("F sys/a\tx\\q", "backslash"),
        ("F sys/b\tagain", "second time"),
        ("L sys/a\t", "target"),
        ("D sys/a\tx", "no value"),
        ("nonsense", "letter"),
    ] {
        let error = format!("F sys/b\tx\n{line}\n").parse::<Recording>().unwrap_err();
        assert_eq!(error.line, 2, "{line}");
        assert!(error.reason.contains(reason), "{line}: {error}");
    }
}

#[test]
fn links_of_a_tree_stay_in_it() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sys/devices/a")).unwrap();
    std::fs::create_dir_all(root.path().join("sys/class")).unwrap();
    std::fs::write(root.path().join("sys/devices/a/mtu"), "1500\n").unwrap();
    symlink("/sys/devices/a", root.path().join("sys/class/absolute")).unwrap();
    symlink("../devices/a", root.path().join("sys/class/relative")).unwrap();
    symlink(outside.path(), root.path().join("sys/class/out")).unwrap();
    symlink("../../../../../../../../../..", root.path().join("sys/class/up")).unwrap();
    let machine = Machine::open(root.path()).unwrap();
    assert_eq!(machine.read("sys/class/absolute/mtu").unwrap(), "1500\n");
    assert_eq!(machine.read("sys/class/relative/mtu").unwrap(), "1500\n");
    assert!(machine.read("sys/class/out/secret").is_err());
    assert_eq!(machine.list("sys/class/up").unwrap(), ["sys"]);
    assert_eq!(machine.link("sys/class/relative").unwrap(), "../devices/a");
    assert_eq!(machine.link("sys/devices/a").unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert_eq!(machine.list("sys/class").unwrap(), ["absolute", "out", "relative", "up"]);
    assert!(machine.name("sys").starts_with(root.path().to_str().unwrap()));
}

#[test]
fn what_was_read_can_be_read_again_of_its_recording() {
    let machine = Machine::live().record();
    let online = machine.read("sys/devices/system/cpu/online").unwrap();
    let names = machine.list("sys/class/net").unwrap();
    assert!(is_absent(&machine.read("no/such/file").unwrap_err()));
    let link = machine.link("proc/self/exe").unwrap();
    let ethtool = machine.ethtool("lo").unwrap();
    let loopback = "127.0.0.1".parse().unwrap();
    let route = machine.route(loopback, None).unwrap();
    let sockets = machine.sockets().unwrap();
    let directories = machine.program_directories().unwrap();

    let written = machine.recording().unwrap().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), written).unwrap();
    let again = Machine::open(file.path()).unwrap();
    assert_eq!(again.read("sys/devices/system/cpu/online").unwrap(), online);
    assert_eq!(again.list("sys/class/net").unwrap(), names);
    assert!(is_absent(&again.read("no/such/file").unwrap_err()));
    assert_eq!(again.link("proc/self/exe").unwrap(), link);
    assert_eq!(again.ethtool("lo").unwrap(), ethtool);
    assert_eq!(again.route(loopback, None).unwrap(), route);
    assert_eq!(again.sockets().unwrap(), sockets);
    assert_eq!(again.program_directories().unwrap(), directories);
}

#[test]
fn answers_that_are_no_json_name_their_file() {
    let mut recording = Recording::default();
    recording.file("selvedge/ethtool/eth0.json", "{\"chanels\":{}}");
    let error = Machine::of_recording("x", recording).ethtool("eth0").unwrap_err();
    assert!(error.to_string().starts_with("selvedge/ethtool/eth0.json in x: unknown field"), "{error}");
}

#[test]
fn a_file_that_is_no_recording_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text("what")).unwrap();
    let error = Machine::open(file.path()).unwrap_err().to_string();
    assert!(error.starts_with(file.path().to_str().unwrap()) && error.contains("line 1: "), "{error}");
    assert!(Machine::open(std::path::Path::new("/no/such/tree")).is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read(files in proptest::collection::btree_map("[a-z]{1,3}(/[a-z\\t\\\\]{1,3}){0,3}", any::<String>(), 0..8)) {
        let mut recording = Recording::default();
        for (path, text) in &files {
            recording.file(path, text);
        }
        let again: Recording = recording.to_string().parse().unwrap();
        prop_assert_eq!(&again, &recording);
        for (path, text) in &files {
            prop_assert_eq!(&again.read(path).unwrap(), text);
        }
    }

    #[test]
    fn random_texts_never_panic(text in "[FLED# ]{0,2}[a/.\\t\\\\n0-9 ]{0,40}(\\n[FLED] [a/.\\t\\\\n]{0,20}){0,3}") {
        let _ = text.parse::<Recording>();
    }
}
