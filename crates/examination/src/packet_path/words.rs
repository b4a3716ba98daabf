//! Common texts of tables, pictures and pages: speed of a link, owner of a flow, choice of its
//! queue, processors.

use chart::units::plural;
use topology::{FlowOwner, Steering, Topology};

/// A link's speed, from Mbit/s.
pub fn speed(mbps: u32) -> String {
    match mbps {
        mbps if mbps >= 1000 && mbps % 1000 == 0 => format!("{} Gbit/s", mbps / 1000),
        mbps if mbps >= 1000 => format!("{:.1} Gbit/s", f64::from(mbps) / 1000.0),
        mbps => format!("{mbps} Mbit/s"),
    }
}

/// Name of a flow's owner.
pub fn owner(owner: &FlowOwner) -> String {
    match owner {
        FlowOwner::Kernel => "kernel".to_owned(),
        FlowOwner::Initiator { pid } => format!("selvedge {pid}"),
        FlowOwner::Target { pid: Some(pid) } => format!("target {pid}"),
        FlowOwner::Target { pid: None } => "kernel target".to_owned(),
    }
}

/// Name of the rule that selects the receive queue.
pub fn chosen(steering: &Steering) -> String {
    match steering {
        Steering::Rule { location } => format!("rule {location}"),
        Steering::Rss { entry } => format!("entry {entry}"),
        Steering::Only => "only one".to_owned(),
        Steering::Unknown { .. } => "unknown".to_owned(),
    }
}

/// The machine in a line.
pub fn machine(topology: &Topology) -> String {
    let processors = &topology.processors;
    let threads = processors.cores.iter().map(topology::CpuSet::len).max().unwrap_or(1);
    let mut text = format!("Linux {}, CPUs {}", topology.kernel, processors.online);
    if threads > 1 {
        text.push_str(&format!(" ({}, {threads} CPUs each)", plural(processors.cores.len() as u64, "core")));
    }
    if let [_, _, ..] = processors.nodes.as_slice() {
        let nodes: Vec<String> =
            processors.nodes.iter().map(|node| format!("node {}: {}", node.id, node.cpus)).collect();
        text.push_str(&format!("; {}", nodes.join("; ")));
    }
    if !processors.isolated.is_empty() {
        text.push_str(&format!("; isolated: {}", processors.isolated));
    }
    text
}
