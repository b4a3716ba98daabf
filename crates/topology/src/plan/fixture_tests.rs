//! Plans for recorded machines of real shapes, against expectations that a person has read. To
//! regenerate them, set `SELVEDGE_UPDATE_FIXTURES=1`; then read the differences.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::tests::Chance;
use super::*;
use crate::{Machine, observe, sample};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn text(topology: &Topology, options: &PlanOptions) -> String {
    let plan = plan(topology, options).unwrap();
    let mut text = String::new();
    for interface in &plan.interfaces {
        let (limit, in_use) = (&interface.limit, interface.io_queues);
        let _ = writeln!(text, "{}: {in_use} of {} ({})", interface.interface, limit.queues, limit.reason);
    }
    for step in &plan.steps {
        let _ = writeln!(text, "{}", step.change.shell());
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let standing = |standing: &Standing| {
        let Standing {
            flows,
            queue_known,
            share_a_queue,
            most_on_a_queue,
            cpus_known,
            on_workers_cpu,
            off_node,
        } = standing;
        format!(
            "{flows} flows, {queue_known} on known queues, {share_a_queue} share one, at most {most_on_a_queue}; \
             {on_workers_cpu} of {cpus_known} served by their worker's CPU, {off_node} off the node"
        )
    };
    let _ = writeln!(text, "now:  {}", standing(&plan.before));
    let _ = writeln!(text, "then: {}", standing(&plan.after));
    text
}

#[test]
fn plans_are_what_a_person_has_read() {
    let is_update = std::env::var_os("SELVEDGE_UPDATE_FIXTURES").is_some();
    for name in sample::NAMES {
        let machine = Machine::open(&folder().join(format!("{name}.recording"))).unwrap();
        let topology = observe(&machine).unwrap();
        let found = text(&topology, &PlanOptions::default());
        let path = folder().join(format!("{name}.plan"));
        if is_update {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(found, expected, "{name}");
    }
}

/// A recording with some of its bytes and lines changed.
fn damaged(text: &str, seed: u64) -> String {
    let mut chance = Chance(seed);
    let mut below = |limit: usize| chance.below(limit as u32) as usize;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + below(8) {
        let (at, other) = (below(lines.len()), below(lines.len()));
        match below(4) {
            0 => {
                lines.remove(at);
            }
            1 => lines[at] = lines[other].clone(),
            2 => {
                let cut =
                    lines[at].char_indices().map(|(place, _)| place).nth(below(lines[at].len())).unwrap_or(0);
                lines[at].truncate(cut);
            }
            _ => {
                let digits = ["0", "9", "-", ",", "f", "\u{e9}", "4294967295", "18446744073709551616"];
                let (from, to) = (digits[below(3)], digits[below(digits.len())]);
                lines[at] = lines[at].replacen(from, to, 1 + below(3));
            }
        }
    }
    lines.join("\n") + "\n"
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_recording_is_refused_by_name_or_can_be_planned_for(seed: u64) {
        for name in ["virtio-one-queue", "rss-holes", "vlan", "bridge"] {
            let text = std::fs::read_to_string(folder().join(format!("{name}.recording"))).unwrap();
            let Ok(recording) = damaged(&text, seed).parse() else { continue };
            match observe(&Machine::of_recording("damaged", recording)) {
                Err(error) => proptest::prop_assert!(error.to_string().contains('/'), "{error}"),
                Ok(topology) => {
                    if let Ok(plan) = plan(&topology, &PlanOptions::default()) {
                        let _ = applied(&topology, &plan.steps);
                    }
                }
            }
        }
    }
}
