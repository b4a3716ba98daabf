//! `selvedge tune` as people and scripts use it, on recorded machines and on this one.

use std::path::{Path, PathBuf};

use topology::{Recording, sample};

use crate::serving::{json, selvedge, stderr};

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

/// A made-up machine's recording in a file.
fn recorded(folder: &Path, name: &str) -> PathBuf {
    let machine = sample::topology(name).expect("there is such a machine");
    let file = folder.join(format!("{name}.recording"));
    std::fs::write(&file, sample::recording(&machine).to_string()).expect("the folder can be written");
    file
}

#[test]
fn every_recorded_machine_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in sample::NAMES {
        let file = recorded(folder.path(), name);
        let output = selvedge(&["tune", "show", "--sysroot", text(&file), "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let machine = sample::topology(name).expect("there is such a machine");
        let expected = serde_json::to_value(&machine).expect("it has a JSON form");
        let shown = json(&output);
        assert_eq!(shown["topology"], expected, "{name}");
        let courses = shown["courses"].as_array().expect("a list");
        assert_eq!(courses.len(), machine.flows.len(), "{name}");
        assert!(courses.iter().all(|course| course["legs"].as_array().is_some_and(|legs| !legs.is_empty())));
        assert!(shown["findings"].is_array());

        let output = selvedge(&["tune", "show", "--sysroot", text(&file)]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        for part in ["Interfaces\n", "NVMe/TCP queues\n", "Findings\n"] {
            assert!(shown.contains(part), "{name}: {shown}");
        }
    }
}

#[test]
fn pictures_are_written_by_their_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recorded(folder.path(), "two-nodes");
    let (svg, html) = (folder.path().join("a.svg"), folder.path().join("a.html"));
    for picture in [&svg, &html] {
        let output = selvedge(&["tune", "show", "--sysroot", text(&file), "--picture", text(picture)]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    assert!(std::fs::read_to_string(svg).expect("it is there").starts_with("<svg "));
    assert!(std::fs::read_to_string(html).expect("it is there").starts_with("<!DOCTYPE html>"));
    let output = selvedge(&["tune", "show", "--sysroot", text(&file), "--picture", "a.png"]);
    assert_eq!(output.status.code(), Some(2));
    let nowhere = folder.path().join("no/where.svg");
    let output = selvedge(&["tune", "show", "--sysroot", text(&file), "--picture", text(&nowhere)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/where.svg"), "{}", stderr(&output));
}

#[test]
fn a_recording_of_a_recording_shows_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let again = folder.path().join("again.recording");
    for name in sample::NAMES {
        let file = recorded(folder.path(), name);
        let first =
            selvedge(&["tune", "show", "--sysroot", text(&file), "--record", text(&again), "-o", "json"]);
        assert_eq!(first.status.code(), Some(0), "{name}: {}", stderr(&first));
        let second = selvedge(&["tune", "show", "--sysroot", text(&again), "-o", "json"]);
        assert_eq!(json(&first), json(&second), "{name}");
    }
}

#[test]
fn a_recording_of_show_has_the_route_and_the_round_trip_that_advice_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut advised = 0;
    for name in sample::NAMES {
        let machine = sample::topology(name).expect("there is such a machine");
        let Some(flow) = machine.flows.iter().find(|flow| flow.interface.is_some()) else { continue };
        let (file, target) = (recorded(folder.path(), name), flow.peer.ip().to_string());
        let output = selvedge(&["tune", "advise", "--sysroot", text(&file), "-a", &target, "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let advice = json(&output);
        let path = &advice["paths"][0];
        assert!(path["rtt_us"].is_u64() && path["interface"].is_string(), "{name}: {path}");
        advised += 1;
    }
    assert!(advised > 4, "{advised} machines");
}

#[test]
fn this_machine_is_shown_and_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("here.recording");
    let output = selvedge(&["tune", "show", "--record", text(&file), "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = json(&output);
    let interfaces = shown["topology"]["interfaces"].as_array().expect("a list");
    assert!(interfaces.iter().any(|interface| interface["kind"] == "loopback"), "{shown}");
    let recorded: Recording =
        std::fs::read_to_string(&file).expect("it was written").parse().expect("it is a recording");
    assert_ne!(recorded, Recording::default());
    let again = selvedge(&["tune", "show", "--sysroot", text(&file), "-o", "json"]);
    assert_eq!(json(&again)["topology"]["processors"], shown["topology"]["processors"]);
    assert_eq!(json(&again)["topology"]["interfaces"], shown["topology"]["interfaces"]);
}

#[test]
fn a_plan_compares_the_kernels_queues_with_the_rule_of_july_2026() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, words) in [
        (
            "card",
            "creates 4 (the lesser of 8 CPUs and 4 queues of eth0). It logs `limiting I/O queues to 4 (",
        ),
        (
            "vlan",
            "creates 1 (the lesser of 8 CPUs and 1 queue of top0); the number of queues says nothing here",
        ),
        ("tunnel", "top0 is a tunnel"),
    ] {
        let machine = sample::stacked(name).expect("there is such a machine");
        let file = folder.path().join(name);
        std::fs::write(&file, sample::recording(&machine).to_string()).expect("the folder can be written");
        let output = selvedge(&["tune", "plan", "--sysroot", text(&file)]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("nvme0: this kernel created 8 I/O queues, one with the series"), "{shown}");
        assert!(shown.contains(words), "{name}: {shown}");
        let output = selvedge(&["tune", "plan", "--sysroot", text(&file), "-o", "json"]);
        let queues = &json(&output)["kernel_queues"][0];
        assert_eq!(queues["controller"]["name"], "nvme0", "{queues}");
        assert_eq!(queues["choice"]["doubt"].is_null(), name == "card", "{queues}");
    }
}

#[test]
fn one_interface_brings_what_it_stands_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recorded(folder.path(), "vlan");
    let shown =
        json(&selvedge(&["tune", "show", "--sysroot", text(&file), "--interface", "eth0.100", "-o", "json"]));
    let interfaces = shown["topology"]["interfaces"].as_array().expect("a list");
    let names: Vec<&str> = interfaces.iter().filter_map(|interface| interface["name"].as_str()).collect();
    assert_eq!(names, ["eth0", "eth0.100"]);
    let output = selvedge(&["tune", "show", "--sysroot", text(&file), "--interface", "eth9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("eth0.100"), "it says which there are: {}", stderr(&output));
    let output =
        selvedge(&["tune", "plan", "--sysroot", text(&file), "--interface", "eth0", "--cpus", "1000"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("none of the CPUs 1000"), "{}", stderr(&output));
}

#[test]
fn a_machine_that_makes_no_sense_is_named_and_not_guessed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.recording");
    let machine = sample::topology("bridge").expect("there is such a machine");
    let right = sample::recording(&machine).to_string();
    for (from, to, status, named) in [
        (
            "F sys/class/net/enp1s0/mtu\t1500",
            "F sys/class/net/enp1s0/mtu\tmany",
            1,
            "sys/class/net/enp1s0/mtu",
        ),
        ("F sys/devices/system/cpu/online\t0-7", "F sys/devices/system/cpu/online\t7-0", 1, "cpu/online"),
        ("F sys/class/net/enp1s0/mtu\t1500", "X sys/class/net/enp1s0/mtu\t1500", 2, "line"),
        ("\"table\":[0,", "\"table\":[\"a\",", 1, "selvedge/ethtool/enp1s0.json"),
    ] {
        assert!(right.contains(from), "{from}");
        std::fs::write(&file, right.replace(from, to)).expect("the folder can be written");
        let output = selvedge(&["tune", "show", "--sysroot", text(&file)]);
        assert_eq!(output.status.code(), Some(status), "{to}: {}", stderr(&output));
        assert!(stderr(&output).contains(named), "{to}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{to}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{to}");
    }
    let output = selvedge(&["tune", "show", "--sysroot", "no-such-machine"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("no-such-machine"));
}
