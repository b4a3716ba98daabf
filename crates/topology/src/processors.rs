//! The machine's processors and how they are near to each other. Who runs on them is not here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CpuSet;

/// Processors, from /sys/devices/system/cpu and /sys/devices/system/node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processors {
    /// Processors that run.
    pub online: CpuSet,
    /// Processors that the scheduler leaves alone (`isolcpus`); a subset of those online or not.
    pub isolated: CpuSet,
    /// Memory nodes with their processors; one with all of them where the machine has no nodes.
    pub nodes: Vec<Node>,
    /// Processors that share a core, one set for each core.
    pub cores: Vec<CpuSet>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Number of the node.
    pub id: u16,
    /// Processors of the node, online or not.
    pub cpus: CpuSet,
}

impl Processors {
    /// The processors that run on a node, all that run where the node is not known.
    pub fn online_on(&self, node: Option<u16>) -> CpuSet {
        let found = node.and_then(|id| self.nodes.iter().find(|node| node.id == id));
        found.map_or_else(|| self.online.clone(), |node| node.cpus.intersection(&self.online))
    }

    /// The node of a processor.
    pub fn node_of(&self, cpu: u32) -> Option<u16> {
        self.nodes.iter().find(|node| node.cpus.contains(cpu)).map(|node| node.id)
    }

    /// `cpus`, with one processor of each core before the others of the same cores, each part in order of number.
    pub fn cores_first(&self, cpus: &CpuSet) -> Vec<u32> {
        let rank = |cpu: u32| {
            let core = self.cores.iter().find(|core| core.contains(cpu));
            core.map_or(0, |core| core.iter().filter(|other| *other < cpu && cpus.contains(*other)).count())
        };
        let mut ordered: Vec<u32> = cpus.iter().collect();
        ordered.sort_by_key(|cpu| (rank(*cpu), *cpu));
        ordered
    }
}
