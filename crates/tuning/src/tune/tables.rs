//! Tables of `tune show`, as texts in rows: interfaces, queues of an interface, flows, unreadable data. Other modules
//! format them for terminals and pages.

use std::collections::BTreeMap;

use chart::units::grouped;
use topology::{
    Channels, Flow, FlowSource, Interface, InterfaceKind, Leg, QueueCount, ReceiveQueue, Rss, RssFields,
    RssFunction, TransmitQueue,
};

use crate::packet_path::words::{chosen, owner, speed};
use crate::packet_path::{Survey, name};
use crate::report::table::Side;

/// A table.
pub(super) struct SurveyTable {
    /// Unique in its survey, letters and hyphens but for an interface's name.
    pub(super) id: String,
    pub(super) title: String,
    /// For people, for programs, and the side that the cells keep to.
    pub(super) columns: &'static [(&'static str, &'static str, Side)],
    /// Each as long as `columns`. What is not known or does not apply is a hyphen.
    pub(super) rows: Vec<Vec<String>>,
}

const NOTHING: &str = "-";

fn or_nothing(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

const INTERFACES: &[(&str, &str, Side)] = &[
    ("name", "name", Side::Left),
    ("kind", "kind", Side::Left),
    ("on", "lower", Side::Left),
    ("driver", "driver", Side::Left),
    ("bus", "bus_address", Side::Left),
    ("node", "node", Side::Right),
    ("link", "speed_mbps", Side::Right),
    ("MTU", "mtu_bytes", Side::Right),
    ("queues", "queues", Side::Left),
    ("RSS", "rss", Side::Left),
    ("rules", "ntuple", Side::Left),
    ("RPS", "rps", Side::Left),
    ("RFS", "rfs", Side::Left),
    ("XPS", "xps", Side::Left),
];

/// The interfaces.
pub(super) fn interfaces(survey: &Survey) -> SurveyTable {
    let row = |interface: &&Interface| {
        let lower = if interface.lower.is_empty() { NOTHING.to_owned() } else { interface.lower.join(" ") };
        vec![
            interface.name.clone(),
            kind(interface.kind).to_owned(),
            lower,
            or_nothing(interface.driver.as_ref()),
            or_nothing(interface.bus_address.as_ref()),
            or_nothing(interface.node),
            if interface.is_up { or_nothing(interface.speed_mbps.map(speed)) } else { "down".to_owned() },
            interface.mtu_bytes.to_string(),
            queues(interface),
            or_nothing(interface.rss.as_ref().map(|rss| table(rss, interface.receive.len()))),
            or_nothing(rules(interface)),
            share(interface.receive.iter().map(|queue| !queue.rps.is_empty())),
            share(interface.receive.iter().map(|queue| queue.rps_flows > 0)),
            share(interface.transmit.iter().filter_map(|queue| Some(!queue.xps.as_ref()?.is_empty()))),
        ]
    };
    SurveyTable {
        id: "interfaces".to_owned(),
        title: "Interfaces".to_owned(),
        columns: INTERFACES,
        rows: survey.interfaces().iter().map(row).collect(),
    }
}

fn kind(kind: InterfaceKind) -> &'static str {
    match kind {
        InterfaceKind::Device => "device",
        InterfaceKind::Loopback => "loopback",
        InterfaceKind::Veth => "veth",
        InterfaceKind::Bond => "bond",
        InterfaceKind::Vlan => "vlan",
        InterfaceKind::Bridge => "bridge",
        InterfaceKind::Tunnel => "tunnel",
        InterfaceKind::Virtual => "virtual",
    }
}

/// `32 of 63`, `rx 4, tx 4 of 8`.
pub(super) fn queues(interface: &Interface) -> String {
    let of = |count: QueueCount| match count.max > count.now {
        true => format!("{} of {}", count.now, count.max),
        false => count.now.to_string(),
    };
    match interface.channels {
        Some(Channels { combined, receive, transmit }) if combined.max + receive.max + transmit.max > 0 => {
            let parts = [("", combined), ("rx ", receive), ("tx ", transmit)];
            let present = parts.iter().filter(|(_, count)| count.now > 0);
            present.map(|(name, count)| format!("{name}{}", of(*count))).collect::<Vec<_>>().join(", ")
        }
        _ if interface.receive.len() == interface.transmit.len() => interface.receive.len().to_string(),
        _ => format!("rx {}, tx {}", interface.receive.len(), interface.transmit.len()),
    }
}

/// `128 entries, all queues`, `128 entries, queues 0-1,4-5`.
fn table(rss: &Rss, queue_count: usize) -> String {
    let named: topology::CpuSet = rss.table.iter().copied().collect();
    let which = match named.len() {
        count if count == queue_count => "all queues".to_owned(),
        1 => format!("queue {named}"),
        _ => format!("queues {named}"),
    };
    let hash = match (rss.function, rss.is_symmetric, rss.tcp4) {
        (_, true, _) => ", symmetric hash",
        (RssFunction::Xor, _, _) => ", hash xor",
        (RssFunction::Crc32, _, _) => ", hash crc32",
        (RssFunction::Unknown, _, _) => ", hash unknown",
        (RssFunction::Toeplitz, _, RssFields::Addresses) => ", addresses only",
        (RssFunction::Toeplitz, _, RssFields::Nothing) => ", nothing hashed",
        (RssFunction::Toeplitz, _, RssFields::Unknown) => ", fields unknown",
        (RssFunction::Toeplitz, _, RssFields::AddressesAndPorts) => "",
    };
    format!("{} entries, {which}{hash}", rss.table.len())
}

/// Returns the state of rules for single flows, and if they can be enabled.
fn rules(interface: &Interface) -> Option<String> {
    let ntuple = interface.ntuple.as_ref()?;
    Some(match (ntuple.is_supported, ntuple.is_enabled) {
        (false, _) => "none possible".to_owned(),
        (true, true) => format!("on, {}", grouped(ntuple.rules.len() as u64)),
        (true, false) if ntuple.is_switchable => "off, possible".to_owned(),
        (true, false) => "off, fixed".to_owned(),
    })
}

/// Of how many queues something holds.
fn share(queues: impl Iterator<Item = bool>) -> String {
    let all: Vec<bool> = queues.collect();
    match all.iter().filter(|is| **is).count() {
        _ if all.is_empty() => NOTHING.to_owned(),
        0 => "off".to_owned(),
        on if on == all.len() => "on".to_owned(),
        on => format!("{on} of {}", all.len()),
    }
}

const QUEUES: &[(&str, &str, Side)] = &[
    ("queue", "queue", Side::Right),
    ("RX IRQ", "irq", Side::Right),
    ("interrupt", "interrupt", Side::Left),
    ("came", "count", Side::Right),
    ("CPU", "cpu", Side::Right),
    ("allowed", "affinity", Side::Left),
    ("node", "node", Side::Right),
    ("RSS entries", "rss_entries", Side::Right),
    ("RPS", "rps", Side::Left),
    ("TX IRQ", "transmit_irq", Side::Right),
    ("XPS", "xps", Side::Left),
    ("flows", "flows", Side::Left),
];

/// The queues of one interface, receiving and sending ones of a number in one row.
pub(super) fn interface_queues(survey: &Survey, interface: &Interface) -> SurveyTable {
    let mut flows: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (flow, leg) in survey.ways() {
        if let Some((leg, queue)) = leg.and_then(|leg| Some((leg, leg.queue?)))
            && leg.interface == interface.name
        {
            flows.entry(queue).or_default().push(name(flow));
        }
    }
    let entries = |queue: u32| {
        let table = interface.rss.as_ref().map(|rss| &rss.table);
        table.map(|table| table.iter().filter(|named| **named == queue).count())
    };
    let row = |index: u32| {
        let receive = interface.receive.iter().find(|queue| queue.index == index);
        let transmit = interface.transmit.iter().find(|queue| queue.index == index);
        let interrupt = receive.and_then(|queue| queue.interrupt.as_ref());
        let cpu = interrupt.and_then(topology::Interrupt::cpu);
        vec![
            index.to_string(),
            or_nothing(interrupt.map(|interrupt| interrupt.irq)),
            or_nothing(interrupt.map(|interrupt| &interrupt.name)),
            or_nothing(interrupt.map(|interrupt| grouped(interrupt.count))),
            or_nothing(cpu),
            or_nothing(interrupt.map(|interrupt| &interrupt.affinity)),
            or_nothing(cpu.and_then(|cpu| survey.topology.processors.node_of(cpu))),
            or_nothing(receive.and_then(|queue| entries(queue.index))),
            receive.map_or_else(|| NOTHING.to_owned(), steering),
            or_nothing(transmit.and_then(|queue| queue.interrupt.as_ref()).map(|interrupt| interrupt.irq)),
            transmit.map_or_else(|| NOTHING.to_owned(), sends),
            flows.get(&index).map_or_else(String::new, |flows| flows.join(", ")),
        ]
    };
    let receive = interface.receive.iter().map(|queue| queue.index);
    let all: std::collections::BTreeSet<u32> =
        receive.chain(interface.transmit.iter().map(|queue| queue.index)).collect();
    SurveyTable {
        id: format!("queues-{}", interface.name),
        title: format!("Queues of {}", interface.name),
        columns: QUEUES,
        rows: all.into_iter().map(row).collect(),
    }
}

fn steering(queue: &ReceiveQueue) -> String {
    match (queue.rps.is_empty(), queue.rps_flows) {
        (true, _) => "off".to_owned(),
        (false, 0) => queue.rps.to_string(),
        (false, flows) => format!("{}, {} flows", queue.rps, grouped(u64::from(flows))),
    }
}

fn sends(queue: &TransmitQueue) -> String {
    match &queue.xps {
        None => NOTHING.to_owned(),
        Some(cpus) if cpus.is_empty() => "off".to_owned(),
        Some(cpus) => cpus.to_string(),
    }
}

const FLOWS: &[(&str, &str, Side)] = &[
    ("owner", "owner", Side::Left),
    ("controller", "controller", Side::Left),
    ("qid", "queue_id", Side::Right),
    ("known", "source", Side::Left),
    ("worker", "worker_cpu", Side::Right),
    ("local", "local", Side::Left),
    ("peer", "peer", Side::Left),
    ("by", "interface", Side::Left),
    ("hash", "hash", Side::Left),
    ("chosen by", "steering", Side::Left),
    ("RX", "queue", Side::Right),
    ("IRQ", "irq", Side::Right),
    ("CPU", "cpu", Side::Right),
    ("same", "is_workers", Side::Left),
    ("TX", "transmit_queue", Side::Right),
    ("Recv-Q", "receive_queue_bytes", Side::Right),
    ("Send-Q", "send_queue_bytes", Side::Right),
    ("RTT µs", "rtt_us", Side::Right),
    ("resent", "retransmissions", Side::Right),
];

/// The flows with their ways; a flow over a bond has a row for each of its ways.
pub(super) fn flows(survey: &Survey) -> SurveyTable {
    SurveyTable {
        id: "flows".to_owned(),
        title: "NVMe/TCP queues".to_owned(),
        columns: FLOWS,
        rows: survey.ways().map(|(flow, leg)| way(flow, leg)).collect(),
    }
}

fn way(flow: &Flow, leg: Option<&Leg>) -> Vec<String> {
    let worker = flow.worker.as_ref();
    let cpu = worker.and_then(|worker| match worker.cpu {
        Some(cpu) => Some(cpu.to_string()),
        None if worker.allowed.is_empty() => None,
        None => Some(worker.allowed.to_string()),
    });
    let served = leg.and_then(|leg| match leg.cpu {
        Some(cpu) => Some(cpu.to_string()),
        None if leg.cpus.is_empty() => None,
        None => Some(leg.cpus.to_string()),
    });
    vec![
        owner(&flow.owner),
        or_nothing(Some(&flow.controller).filter(|name| !name.is_empty())),
        or_nothing(flow.queue_id),
        source(flow.source).to_owned(),
        or_nothing(cpu),
        flow.local.to_string(),
        flow.peer.to_string(),
        by(flow, leg),
        or_nothing(leg.and_then(|leg| leg.hash).map(|hash| format!("{hash:08x}"))),
        or_nothing(leg.map(|leg| chosen(&leg.steering))),
        or_nothing(leg.and_then(|leg| leg.queue)),
        or_nothing(leg.and_then(|leg| leg.irq)),
        or_nothing(served),
        or_nothing(leg.and_then(|leg| leg.is_workers).map(yes)),
        or_nothing(leg.and_then(|leg| leg.transmit_queue)),
        flow.receive_queue_bytes.to_string(),
        flow.send_queue_bytes.to_string(),
        or_nothing(flow.rtt_us),
        or_nothing(flow.retransmissions),
    ]
}

fn source(source: FlowSource) -> &'static str {
    match source {
        FlowSource::Program => "program",
        FlowSource::Kernel => "debugfs",
        FlowSource::Derived => "derived",
        FlowSource::Guessed => "guessed",
    }
}

/// `bond0/eth1`: the interface of the route, and the one with queues where that is another.
fn by(flow: &Flow, leg: Option<&Leg>) -> String {
    match (flow.interface.as_deref(), leg) {
        (Some(own), Some(leg)) if own != leg.interface => format!("{own}/{}", leg.interface),
        (Some(own), _) => own.to_owned(),
        (None, _) => NOTHING.to_owned(),
    }
}

const UNSEEN: &[(&str, &str, Side)] = &[
    ("what", "what", Side::Left),
    ("why not", "reason", Side::Left),
    ("root sees it", "needs_root", Side::Left),
];

/// Table of unreadable data.
pub(super) fn unseen(survey: &Survey) -> SurveyTable {
    let row = |shortfall: &topology::Shortfall| {
        vec![shortfall.what.clone(), shortfall.reason.clone(), yes(shortfall.needs_root).to_owned()]
    };
    SurveyTable {
        id: "not-seen".to_owned(),
        title: "Not seen".to_owned(),
        columns: UNSEEN,
        rows: survey.topology.shortfalls.iter().map(row).collect(),
    }
}
