//! Recorded machines: the files of a system and the kernel's answers about queues, tables, rules,
//! sockets and routes, from an untrusted source. Any topology read from them can be planned for,
//! modelled and described.

use topology::model::{Costs, Load, simulate};
use topology::plan::{PlanOptions, QueuesWanted, applied, plan};
use topology::{Machine, Recording, course, observe};

/// A text is refused with the name of what is invalid, or it is a machine that a plan can be made for.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(recording) = text.parse::<Recording>() else { return };
    assert_eq!(
        recording.to_string().parse::<Recording>().unwrap(),
        recording,
        "it is read back as it was written"
    );
    let topology = match observe(&Machine::of_recording("recording", recording)) {
        Ok(topology) => topology,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for flow in &topology.flows {
        let _ = course(&topology, flow);
    }
    for queues in [None, Some(QueuesWanted::Most), Some(QueuesWanted::Count(4))] {
        let interfaces = match queues {
            None => Vec::new(),
            Some(_) => topology.interfaces.iter().map(|interface| interface.name.clone()).collect(),
        };
        let options = PlanOptions { interfaces, queues, ..PlanOptions::default() };
        let Ok(plan) = plan(&topology, &options) else { continue };
        let after = applied(&topology, &plan.steps);
        for step in &plan.steps {
            assert!(!step.change.shell().is_empty() && !step.why.is_empty());
        }
        let load = Load { depth: 2, simulated_ms: 1, ..Load::SEED };
        let _ = simulate(&after, &Costs::FITTED, &load);
    }
}
