//! Tests of the made-up machines: that they make sense.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;
use crate::{Machine, Recording, course, observe};

#[test]
fn every_machine_makes_sense() {
    for name in NAMES {
        let machine = topology(name).unwrap_or_else(|| panic!("there is no {name}"));
        let mut irqs = BTreeSet::new();
        for interface in &machine.interfaces {
            for interrupt in interface.receive.iter().filter_map(|queue| queue.interrupt.as_ref()) {
                assert!(irqs.insert(interrupt.irq), "{name}: {} comes twice", interrupt.irq);
                let cpus = &interrupt.affinity;
                assert_eq!(cpus.intersection(&machine.processors.online), *cpus, "{name}");
            }
            for queue in interface.rss.iter().flat_map(|rss| &rss.table) {
                assert!((*queue as usize) < interface.receive.len(), "{name}");
            }
            assert!(interface.lower.iter().all(|lower| machine.interface(lower).is_some()), "{name}");
        }
        let ends: BTreeSet<_> = machine.flows.iter().map(|flow| (flow.local, flow.peer)).collect();
        assert_eq!(ends.len(), machine.flows.len(), "{name}: a connection comes twice");
        for flow in &machine.flows {
            assert!(!course(&machine, flow).is_empty(), "{name}: {} leads nowhere", flow.local);
        }
    }
}

#[test]
fn the_seeds_machine_has_two_threads_for_each_core_on_two_nodes() {
    let machine = cpu72(32);
    let processors = &machine.processors;
    assert_eq!(processors.nodes[0].cpus.to_string(), "0-17,36-53");
    assert_eq!(processors.nodes[1].cpus.to_string(), "18-35,54-71");
    assert_eq!(processors.cores[17].to_string(), "17,53");
    assert_eq!(machine.flows.len(), 33);
    assert_eq!(machine.flows[32].worker.as_ref().and_then(|worker| worker.cpu), Some(31));
    assert_eq!(cpu72(72).flows.len(), 73);
}

/// Path of the stored recordings, which can be read without building anything.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/{name}.recording"))
}

#[test]
fn the_recordings_that_are_kept_are_of_these_machines() {
    for name in NAMES {
        let machine = topology(name).unwrap();
        let text = recording(&machine).to_string();
        let file = fixture(name);
        // The developer who sets this reviews the differences.
        if std::env::var_os("SELVEDGE_UPDATE_FIXTURES").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let kept =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(
            kept == text,
            "{name}.recording is of another machine: SELVEDGE_UPDATE_FIXTURES=1 writes it again"
        );
        assert_eq!(kept.parse::<Recording>().unwrap(), recording(&machine), "{name}");
    }
}

#[test]
fn what_is_seen_in_a_recording_is_the_machine() {
    for name in NAMES {
        let machine = topology(name).unwrap();
        let seen = observe(&Machine::of_recording(name, recording(&machine))).unwrap();
        assert_eq!(seen.processors, machine.processors, "{name}");
        assert_eq!(seen.interfaces, machine.interfaces, "{name}");
        assert_eq!(seen.flows, machine.flows, "{name}");
        assert_eq!(seen, machine, "{name}");
    }
}
