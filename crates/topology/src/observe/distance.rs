//! How far a network interface is from each processor, as the firmware's tables count it between memory nodes.
//! Which path is taken because of it is not here.

use std::net::IpAddr;

use super::Machine;
use super::processors;
use super::reader::Reader;
use crate::Node;

/// Distance that Linux assumes between processors and devices of one node, and of others where the
/// firmware reports none.
const LOCAL: u32 = 10;
const REMOTE: u32 = 20;
/// A VLAN on a bond on devices is 2 above them; a loop of them cannot be.
const LOWER_DEPTH_MAX: usize = 4;

/// Distances of one interface from the machine's processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distances {
    /// Nodes with their distance. None where the machine has one node, or the interface's is not known.
    nodes: Vec<(Node, u32)>,
}

impl Distances {
    /// Distances to the interface by which packets from `source` leave for `destination`.
    pub fn to_address(machine: &Machine, destination: IpAddr, source: Option<IpAddr>) -> Self {
        machine
            .route(destination, source)
            .map_or_else(|_| Self::default(), |interface| Self::to_interface(machine, &interface))
    }

    /// Distances to an interface.
    pub fn to_interface(machine: &Machine, interface: &str) -> Self {
        let mut reader = Reader::new(machine);
        let nodes = processors::nodes(&mut reader, &crate::CpuSet::default()).unwrap_or_default();
        let devices = device_nodes(&mut reader, interface, 0);
        if nodes.len() < 2 || devices.is_empty() {
            return Self::default();
        }
        let ids: Vec<u16> = nodes.iter().map(|node| node.id).collect();
        let rows: Vec<Vec<u32>> = devices.iter().map(|device| row(&mut reader, *device, &ids)).collect();
        // A bond's packets leave by any of its members: the nearest counts.
        let nearest = |at: usize| rows.iter().filter_map(|row| row.get(at)).min().copied().unwrap_or(REMOTE);
        Self { nodes: nodes.into_iter().enumerate().map(|(at, node)| (node, nearest(at))).collect() }
    }

    /// The distance from a processor: 10 on the interface's own node, and where nothing is known, as with Linux.
    pub fn from_cpu(&self, cpu: usize) -> u32 {
        let is_its = |node: &Node| u32::try_from(cpu).is_ok_and(|cpu| node.cpus.contains(cpu));
        self.nodes.iter().find(|(node, _)| is_its(node)).map_or(LOCAL, |(_, distance)| *distance)
    }
}

/// The nodes of the devices that an interface stands on.
fn device_nodes(reader: &mut Reader<'_>, interface: &str, depth: usize) -> Vec<u16> {
    let folder = format!("sys/class/net/{interface}");
    let node = reader.value::<i32>(&format!("{folder}/device/numa_node"), "a number of a node or -1");
    if let Some(node) = node.ok().flatten() {
        return u16::try_from(node).into_iter().collect();
    }
    if depth == LOWER_DEPTH_MAX {
        return Vec::new();
    }
    let lower = reader.machine.list_where(&folder, |file| file.starts_with("lower_"));
    lower
        .iter()
        .filter_map(|file| file.strip_prefix("lower_"))
        .flat_map(|lower| device_nodes(reader, lower, depth + 1))
        .collect()
}

/// The distances of a node from all nodes in their order.
fn row(reader: &mut Reader<'_>, node: u16, ids: &[u16]) -> Vec<u32> {
    let text =
        reader.optional_text(&format!("{}/node{node}/distance", processors::NODES)).unwrap_or_default();
    let distances: Vec<u32> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    if distances.len() == ids.len() {
        return distances;
    }
    ids.iter().map(|id| if *id == node { LOCAL } else { REMOTE }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{recording, two_nodes};
    use crate::{Interface, InterfaceKind, Topology};

    fn machine(topology: &Topology) -> Machine {
        Machine::of_recording("two nodes", recording(topology))
    }

    /// From the first node's processors, and from the second's.
    fn ends(distances: &Distances) -> (u32, u32) {
        (distances.from_cpu(0), distances.from_cpu(15))
    }

    #[test]
    fn an_interface_is_nearer_to_its_own_nodes_processors() {
        let machine = machine(&two_nodes());
        assert_eq!(ends(&Distances::to_interface(&machine, "eth0")), (10, 21));
        assert_eq!(ends(&Distances::to_interface(&machine, "eth1")), (21, 10));
        let to = |destination: &str, source: &str| {
            let (destination, source) = (destination.parse().unwrap(), source.parse().ok());
            ends(&Distances::to_address(&machine, destination, source))
        };
        assert_eq!(to("192.168.1.20", "192.168.1.1"), (10, 21));
        assert_eq!(to("192.168.2.20", "192.168.2.1"), (21, 10));
        assert_eq!(to("192.168.3.20", "192.168.2.1"), (10, 10), "there is no way");
    }

    #[test]
    fn what_stands_on_devices_is_as_near_as_the_nearest() {
        let mut topology = two_nodes();
        for (name, lower) in
            [("bond0", vec!["eth0", "eth1"]), ("vlan100", vec!["eth1"]), ("loop", vec!["loop"])]
        {
            topology.interfaces.push(Interface {
                name: name.to_owned(),
                kind: InterfaceKind::Bond,
                lower: lower.into_iter().map(str::to_owned).collect(),
                ..Interface::default()
            });
        }
        let machine = machine(&topology);
        assert_eq!(ends(&Distances::to_interface(&machine, "bond0")), (10, 10));
        assert_eq!(ends(&Distances::to_interface(&machine, "vlan100")), (21, 10));
        assert_eq!(ends(&Distances::to_interface(&machine, "loop")), (10, 10));
    }

    #[test]
    fn what_is_not_known_counts_as_near() {
        let mut topology = two_nodes();
        topology.interfaces.iter_mut().for_each(|interface| interface.node = None);
        assert_eq!(Distances::to_interface(&machine(&topology), "eth0"), Distances::default());
        let mut topology = two_nodes();
        topology.processors.nodes.truncate(1);
        assert_eq!(Distances::to_interface(&machine(&topology), "eth1"), Distances::default());
        let distances = Distances::to_interface(&machine(&two_nodes()), "eth0");
        assert_eq!((distances.from_cpu(99), distances.from_cpu(usize::MAX)), (10, 10));
    }

    #[test]
    fn without_the_firmwares_table_other_nodes_are_remote() {
        let mut recording = recording(&two_nodes());
        recording.file("sys/devices/system/node/node0/distance", "10\n");
        let machine = Machine::of_recording("no table", recording);
        assert_eq!(ends(&Distances::to_interface(&machine, "eth0")), (10, 20));
    }
}
