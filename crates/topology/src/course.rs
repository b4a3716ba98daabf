//! Where a flow's packets go: from the interface by rule or hash to a receive queue, its interrupt and the processor
//! that serves it, and whether that is the worker's. It follows from what was seen, and changes nothing.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::toeplitz;
use super::{CpuSet, Flow, Interface, InterfaceKind, Rss, RssFields, RssFunction, Ruling, Topology};

/// Interfaces on interfaces: a VLAN on a bond in a bridge has three.
const DEPTH_MAX: usize = 8;

/// The way of one flow's packets through one interface that has queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leg {
    /// The interface. It is not the flow's own where that is a bond, a VLAN or a bridge.
    pub interface: String,
    /// Hash of a received packet, where the interface has a table and a key for it.
    pub hash: Option<u32>,
    /// Mechanism that decides the receive queue.
    pub steering: Steering,
    /// The receive queue; absent where it cannot be known.
    pub queue: Option<u32>,
    /// The queue's interrupt.
    pub irq: Option<u32>,
    /// Processors that may serve the queue: those of its interrupt, or those of RPS where that is on.
    pub cpus: CpuSet,
    /// The processor that serves it, where it is one.
    pub cpu: Option<u32>,
    /// The transmit queue of the worker's processor (XPS), where both are known.
    pub transmit_queue: Option<u32>,
    /// True if the queue's processor is the worker's. Absent where one of them is unknown.
    pub is_workers: Option<bool>,
}

/// Mechanism that decides the receive queue of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Steering {
    /// A rule for this flow, or for several of which it is one.
    Rule {
        /// Location of the rule.
        location: u32,
    },
    /// Hash of the flow, by this entry of the table.
    Rss {
        /// The entry.
        entry: u32,
    },
    /// There is but one queue.
    Only,
    /// The mechanism is unknown.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// The interfaces with queues that stand below the one with this name: itself, a bond's members, the parent of a VLAN or
/// of a macvlan, the devices in a bridge. Empty where the topology does not have it.
pub fn legs<'a>(topology: &'a Topology, name: &str) -> Vec<&'a Interface> {
    let mut found = Vec::new();
    collect(topology, name, DEPTH_MAX, &mut found);
    found
}

fn collect<'a>(topology: &'a Topology, name: &str, depth: usize, found: &mut Vec<&'a Interface>) {
    let Some(interface) = topology.interface(name) else { return };
    if found.iter().any(|known| known.name == name) {
        return;
    }
    let stands_on_others = matches!(
        interface.kind,
        InterfaceKind::Bond | InterfaceKind::Vlan | InterfaceKind::Bridge | InterfaceKind::Virtual
    );
    if !stands_on_others || interface.lower.is_empty() {
        found.push(interface);
        return;
    }
    for lower in interface.lower.iter().filter(|_| depth > 0) {
        // Of a bridge's ports, those that lead to guests and containers have no part in what comes from outside.
        let leads_out = |lower: &Interface| {
            interface.kind != InterfaceKind::Bridge
                || !matches!(
                    lower.kind,
                    InterfaceKind::Veth
                        | InterfaceKind::Tunnel
                        | InterfaceKind::Virtual
                        | InterfaceKind::Loopback
                )
        };
        if topology.interface(lower).is_some_and(leads_out) {
            collect(topology, lower, depth - 1, found);
        }
    }
}

/// The way of a flow through each interface that its packets may come by; several where it is a bond.
pub fn course(topology: &Topology, flow: &Flow) -> Vec<Leg> {
    let name = flow.interface.as_deref().unwrap_or_default();
    legs(topology, name).into_iter().map(|interface| leg(topology, interface, flow)).collect()
}

fn leg(topology: &Topology, interface: &Interface, flow: &Flow) -> Leg {
    let (steering, hash, queue) = receive_queue(interface, flow.peer, flow.local);
    let receive = queue.and_then(|index| interface.receive.iter().find(|queue| queue.index == index));
    let interrupt = receive.and_then(|queue| queue.interrupt.as_ref());
    let rps = receive.map(|queue| queue.rps.clone()).unwrap_or_default();
    let cpus = match interrupt {
        _ if !rps.is_empty() => rps.intersection(&topology.processors.online),
        Some(interrupt) => interrupt.affinity.clone(),
        None => CpuSet::default(),
    };
    let cpu = if rps.is_empty() { interrupt.and_then(super::Interrupt::cpu) } else { cpus.only() };
    let worker = flow.worker.as_ref().and_then(|worker| worker.cpu);
    Leg {
        interface: interface.name.clone(),
        hash,
        steering,
        queue,
        irq: interrupt.map(|interrupt| interrupt.irq),
        cpu,
        transmit_queue: worker.and_then(|cpu| transmit_queue(interface, cpu)),
        is_workers: worker.zip(cpu).map(|(worker, cpu)| worker == cpu),
        cpus,
    }
}

/// The transmit queue that a processor's packets leave by, where it is one.
fn transmit_queue(interface: &Interface, cpu: u32) -> Option<u32> {
    let serves = |xps: &Option<CpuSet>| xps.as_ref().is_some_and(|cpus| cpus.contains(cpu));
    let mut queues = interface.transmit.iter().filter(|queue| serves(&queue.xps));
    let only = queues.next();
    only.filter(|_| queues.next().is_none()).map(|queue| queue.index)
}

/// Receive queue of a packet from `source` to `destination`: the mechanism, the hash, and the
/// queue.
pub fn receive_queue(
    interface: &Interface,
    source: SocketAddr,
    destination: SocketAddr,
) -> (Steering, Option<u32>, Option<u32>) {
    let unknown = |reason: &str| Steering::Unknown { reason: reason.to_owned() };
    let hashed = interface.rss.as_ref().map(|rss| hash(rss, source, destination));
    let hash = hashed.as_ref().and_then(|hashed| hashed.as_ref().ok()).copied();
    match interface.ntuple.as_ref().map(|ntuple| ntuple.ruling(source, destination)) {
        Some(Ruling::By(rule)) => return (Steering::Rule { location: rule.location }, hash, rule.queue),
        Some(Ruling::Perhaps(rule)) => {
            let reason = format!(
                "rule {} may lead it elsewhere, and not all that it compares is known",
                rule.location
            );
            return (Steering::Unknown { reason }, hash, None);
        }
        Some(Ruling::None) | None => {}
    }
    if interface.kind == InterfaceKind::Loopback {
        return (unknown("the machine talks to itself: the sender's processor receives"), None, None);
    }
    if let [only] = interface.receive.as_slice() {
        return (Steering::Only, hash, Some(only.index));
    }
    match (&interface.rss, hashed) {
        (Some(rss), Some(Ok(hash))) if !rss.table.is_empty() => {
            let entry = hash as usize % rss.table.len();
            (Steering::Rss { entry: entry as u32 }, Some(hash), Some(rss.table[entry]))
        }
        (Some(_), Some(Ok(_))) => (unknown("its table of receive side scaling is empty"), hash, None),
        (Some(_), Some(Err(reason))) => (unknown(reason), None, None),
        _ if interface.kind == InterfaceKind::Veth => {
            (unknown("the other end of the veth pair chooses the queue it sends by"), None, None)
        }
        _ => (unknown("the driver does not tell its receive side scaling"), None, None),
    }
}

fn hash(rss: &Rss, source: SocketAddr, destination: SocketAddr) -> Result<u32, &'static str> {
    if rss.is_symmetric {
        return Err("the hash is made symmetric, in a way that is the device's");
    }
    if rss.function != RssFunction::Toeplitz {
        return Err("the hash is not Toeplitz");
    }
    let (source_ip, destination_ip): (IpAddr, IpAddr) =
        (source.ip().to_canonical(), destination.ip().to_canonical());
    let fields = if source_ip.is_ipv4() { rss.tcp4 } else { rss.tcp6 };
    let hash = match fields {
        RssFields::AddressesAndPorts => toeplitz::hash(&rss.key, source, destination),
        RssFields::Addresses => toeplitz::hash_addresses(&rss.key, source_ip, destination_ip),
        RssFields::Nothing => Some(0),
        RssFields::Unknown => return Err("the driver does not tell which fields are hashed"),
    };
    hash.ok_or("the key is too short for the addresses")
}
