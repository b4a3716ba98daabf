//! How the flows of a topology stand, in a few numbers that a plan is to make better.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Topology, course};

/// Distribution of the I/O queues' flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// Flows of I/O queues.
    pub flows: u32,
    /// Flows whose receive queue is known.
    pub queue_known: u32,
    /// Flows that share their receive queue with another.
    pub share_a_queue: u32,
    /// Flows on the receive queue with the most.
    pub most_on_a_queue: u32,
    /// Flows whose worker's processor is known, as well as the queue's.
    pub cpus_known: u32,
    /// Of those, flows whose queue is served by the worker's processor.
    pub on_workers_cpu: u32,
    /// Flows whose queue is served by a processor that is not on the interface's node.
    pub off_node: u32,
}

impl Standing {
    /// Reckons it up. A flow over a bond counts by the first of its members.
    pub fn of(topology: &Topology) -> Self {
        let mut standing = Self::default();
        let mut on_queue: BTreeMap<(String, u32), u32> = BTreeMap::new();
        for flow in topology.flows.iter().filter(|flow| flow.is_io()) {
            standing.flows += 1;
            let Some(leg) = course(topology, flow).into_iter().next() else { continue };
            let node = topology.interface(&leg.interface).and_then(|interface| interface.node);
            if let Some(queue) = leg.queue {
                standing.queue_known += 1;
                *on_queue.entry((leg.interface.clone(), queue)).or_default() += 1;
            }
            if let Some(is_workers) = leg.is_workers {
                standing.cpus_known += 1;
                standing.on_workers_cpu += u32::from(is_workers);
            }
            let on_node = |cpu| node.is_none() || topology.processors.node_of(cpu) == node;
            standing.off_node += u32::from(leg.cpu.is_some_and(|cpu| !on_node(cpu)));
        }
        standing.share_a_queue = on_queue.values().filter(|flows| **flows > 1).sum();
        standing.most_on_a_queue = on_queue.values().copied().max().unwrap_or(0);
        standing
    }
}
