//! The processors, their nodes and cores.

use super::reader::{Reader, numbered};
use super::{Machine, ObserveError};
use crate::{CpuSet, Node, Processors};

const ONLINE: &str = "sys/devices/system/cpu/online";
pub(super) const NODES: &str = "sys/devices/system/node";

/// Reads them.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Processors, ObserveError> {
    if is_missing(reader.machine) {
        let expected = "the CPUs that run, as in 0-3".to_owned();
        return Err(ObserveError::Missing { file: reader.machine.name(ONLINE), expected });
    }
    let online = reader.cpus(ONLINE)?.unwrap_or_default();
    let isolated = reader.cpus("sys/devices/system/cpu/isolated")?.unwrap_or_default();
    let nodes = nodes(reader, &online)?;
    let mut cores: Vec<CpuSet> = Vec::new();
    for cpu in online.iter() {
        if cores.iter().rev().any(|core| core.contains(cpu)) {
            continue;
        }
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let Some(core) = reader.cpus(&path)? else { continue };
        if !core.contains(cpu) {
            let expected = format!("a list of CPUs with {cpu} in it");
            return Err(reader.nonsense(&path, &core.to_string(), &expected));
        }
        cores.push(core);
    }
    Ok(Processors { online, isolated, nodes, cores })
}

fn is_missing(machine: &Machine) -> bool {
    machine.read(ONLINE).err().is_some_and(|error| crate::machine::is_absent(&error))
}

/// Memory nodes; one with all processors where there are none.
pub(super) fn nodes(reader: &mut Reader<'_>, online: &CpuSet) -> Result<Vec<Node>, ObserveError> {
    let mut nodes = Vec::new();
    for name in reader.list(NODES) {
        let Some(id) = numbered(&name, "node").and_then(|id| u16::try_from(id).ok()) else { continue };
        if let Some(cpus) = reader.cpus(&format!("{NODES}/{name}/cpulist"))? {
            nodes.push(Node { id, cpus });
        }
    }
    nodes.sort_by_key(|node| node.id);
    if nodes.is_empty() && !online.is_empty() {
        nodes.push(Node { id: 0, cpus: online.clone() });
    }
    Ok(nodes)
}
