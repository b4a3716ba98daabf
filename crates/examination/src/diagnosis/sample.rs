//! Targets that are well, for the rules' cases: each case is one of them with one thing changed.

use super::finding::Finding;
use super::findings;
use super::served::{Served, ServedNamespace};
use crate::target_rates::rates::{
    ControllerRates, Flow, Latency, Load, NamespaceRates, Rates, ReactorRates, SubsystemRates,
};

pub const NQN: &str = "nqn.2026-01.org.example:a";

/// Returns the first finding, which must be this rule's.
#[track_caller]
pub fn named_first(target: &Served, rule: &str) -> Finding {
    let found = findings(target);
    let first = found.first().unwrap_or_else(|| panic!("{rule} has found nothing"));
    assert_eq!(first.rule, rule, "{found:#?}");
    first.clone()
}

/// A target of one namespace, which serves 10,000 reads a second.
pub fn well() -> Served {
    let flow = Flow {
        iops: Some(10_000.0),
        bytes_per_s: Some(40_960_000.0),
        latency: Some(Latency { mean_ns: 120_000.0, ..Latency::default() }),
        stages_percent: [("storage".to_owned(), 98.0), ("receive".to_owned(), 2.0)].into(),
        ..Flow::default()
    };
    let namespace = NamespaceRates {
        nsid: 1,
        size_bytes: Some(1 << 30),
        load: Load { read: flow.clone(), total: flow.clone(), ..Load::default() },
        operations: [("read".to_owned(), flow)].into(),
        ..NamespaceRates::default()
    };
    let rates = Rates {
        interval_s: Some(1.0),
        subsystems: vec![SubsystemRates {
            nqn: NQN.to_owned(),
            namespaces: vec![namespace],
            controllers: vec![ControllerRates { cntlid: 1, ready: true, ..ControllerRates::default() }],
            ..SubsystemRates::default()
        }],
        reactors: vec![ReactorRates {
            number: 0,
            connections: 3,
            busy_percent: Some(40.0),
            commands_per_s: Some(10_000.0),
            ..ReactorRates::default()
        }],
        ..Rates::default()
    };
    let place = "unix:/run/selvedge/4420.sock";
    Served {
        name: place.to_owned(),
        asked_at: place.to_owned(),
        rates,
        namespaces: vec![ServedNamespace {
            subsystem: NQN.to_owned(),
            nsid: 1,
            state: "ready".to_owned(),
            oldest_operation_ms: 3,
            ..ServedNamespace::default()
        }],
        reactors_busy: [(0, 0.4)].into(),
        ..Served::default()
    }
}

/// Target without connected hosts.
pub fn idle() -> Served {
    let mut target = well();
    target.rates.subsystems.clear();
    target.rates.reactors[0].commands_per_s = Some(0.0);
    target.reactors_busy = [(0, 0.01)].into();
    target
}
