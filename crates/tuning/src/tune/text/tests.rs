//! Tests of the text: two machines as they were read and found right by a person, and what stands in for nothing.

use std::path::Path;

use topology::{Shortfall, Topology, sample};

use super::*;

fn text(topology: Topology) -> String {
    survey_text(&Survey::new(topology))
}

#[test]
fn two_machines_read_as_reviewed() {
    for name in ["virtio-one-queue", "vlan"] {
        let shown = text(sample::topology(name).unwrap());
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/tune/text/{name}.txt"));
        // With this variable set, review the changed files.
        if std::env::var_os("SELVEDGE_UPDATE_FIXTURES").is_some() {
            std::fs::write(&file, &shown).unwrap();
        }
        assert_eq!(shown, std::fs::read_to_string(&file).unwrap(), "{name}");
    }
}

#[test]
fn without_flows_it_says_what_would_bring_some() {
    let shown = text(Topology { flows: Vec::new(), ..sample::two_nodes() });
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = words(NO_FLOWS);
    assert!(sentence.contains("nvme connect") && words(&shown).contains(&sentence), "{shown}");
    // Queues of cards are shown nevertheless.
    assert!(shown.contains("Queues of eth1"), "{shown}");
    let empty = text(Topology::default());
    assert!(words(&empty).contains(&sentence), "{empty}");
}

#[test]
fn what_was_not_seen_says_whether_root_would_see_it() {
    let shortfall = Shortfall {
        what: "/sys/kernel/debug/nvme0".to_owned(),
        reason: "Permission denied".to_owned(),
        needs_root: true,
    };
    let shown = text(Topology { shortfalls: vec![shortfall], ..sample::bridge() });
    let line = shown.lines().last().unwrap_or_default();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["/sys/kernel/debug/nvme0", "Permission", "denied", "yes"]
    );
}

#[test]
fn names_do_not_steer_the_terminal() {
    let mut machine = sample::bridge();
    machine.flows[0].controller = "nvme\u{1b}[2J0".to_owned();
    let shown = text(machine);
    assert!(!shown.contains('\u{1b}') && shown.contains("nvme\u{fffd}[2J0"), "{shown}");
}

#[test]
fn sentences_are_broken() {
    let long = "word ".repeat(60);
    let lines = wrapped(&long, 2);
    assert!(
        lines.lines().count() == 4 && lines.lines().all(|line| line.chars().count() <= COLUMNS),
        "{lines}"
    );
    assert_eq!(lines.split_whitespace().count(), 60);
    assert_eq!(wrapped("", 2), "  \n");
}
