//! Faults between a flow and its worker, in words. The plan has the remedies.

use std::collections::{BTreeMap, BTreeSet};

use chart::units::plural;
use schemars::JsonSchema;
use serde::Serialize;
use topology::{
    CpuSet, Flow, InitiatorQueues, Interface, InterfaceKind, Leg, ReceiveQueue, Steering, Topology, legs,
};

use super::survey::{Course, name};

/// A statement about the machine.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// The interface that it is about, where it is about one.
    pub interface: Option<String>,
    /// The statement.
    pub text: String,
    /// The flows that it is about, as places among the topology's.
    pub flows: Vec<usize>,
    /// The interface's receive queues that it is about.
    pub queues: Vec<u32>,
}

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Several flows are in one receive queue while others have none.
    SharedQueue,
    /// A worker is not on the processor that receives for it.
    WorkerElsewhere,
    /// A worker is on another node than the card.
    WorkerOffNode,
    /// An interrupt is served on another node than the card's.
    InterruptOffNode,
    /// A controller has more I/O queues than the interface has queues.
    TooFewQueues,
    /// The table of receive side scaling leaves queues out.
    QueueUnreached,
    /// RPS hands packets on to other processors.
    PacketSteering,
    /// A program moves interrupts about.
    Irqbalance,
    /// The path of packets is unknown.
    CourseUnknown,
}

impl FindingKind {
    /// The statement in short.
    pub fn title(self) -> &'static str {
        match self {
            Self::SharedQueue => "Flows share receive queues while others are free",
            Self::WorkerElsewhere => "Workers are on other CPUs than their receive queues",
            Self::WorkerOffNode => "Workers are off the card's node",
            Self::InterruptOffNode => "Interrupts are off the card's node",
            Self::TooFewQueues => "There are more I/O queues than receive queues",
            Self::QueueUnreached => "The RSS table leaves receive queues out",
            Self::PacketSteering => "RPS hands packets on to other CPUs",
            Self::Irqbalance => "irqbalance runs",
            Self::CourseUnknown => "The receive queue is unknown",
        }
    }

    /// True for a state that costs, false for information.
    pub fn is_caution(self) -> bool {
        !matches!(self, Self::Irqbalance | Self::CourseUnknown | Self::PacketSteering)
    }
}

/// Relation of one interface with queues to the I/O flows.
struct Station<'a> {
    interface: &'a Interface,
    /// Place, flow and way of each I/O flow that may come by it.
    ways: Vec<(usize, &'a Flow, &'a Leg)>,
    /// The interface above it, where flows may come by another below that as well.
    one_of: Option<&'a str>,
}

/// Maximum number of names in a finding; further ones are counted.
const NAMES_MAX: usize = 4;

/// All that can be said, the worst first.
pub(super) fn findings(topology: &Topology, courses: &[Course]) -> Vec<Finding> {
    let mut found = Vec::new();
    let stations = stations(topology, courses);
    for station in &stations {
        found.extend(shared_queue(station));
        found.extend(worker_elsewhere(station));
        found.extend(worker_off_node(topology, station));
        found.extend(interrupt_off_node(topology, station.interface));
        found.extend(queue_unreached(station.interface));
        found.extend(packet_steering(station.interface));
        found.extend(course_unknown(station));
    }
    if stations.is_empty() {
        // With nothing connected yet, interrupts can still be where they will cost.
        let devices = topology.interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Device);
        for interface in devices {
            found.extend(interrupt_off_node(topology, interface));
            found.extend(queue_unreached(interface));
            found.extend(packet_steering(interface));
        }
    }
    found.extend(too_few_queues(topology));
    found.extend(irqbalance(topology));
    found.sort_by_key(|finding| finding.kind);
    found
}

fn stations<'a>(topology: &'a Topology, courses: &'a [Course]) -> Vec<Station<'a>> {
    let mut stations: Vec<Station<'a>> = Vec::new();
    for course in courses {
        let Some(flow) = topology.flows.get(course.flow).filter(|flow| flow.is_io()) else { continue };
        let one_of = flow.interface.as_deref().filter(|_| course.legs.len() > 1);
        for leg in &course.legs {
            let way = (course.flow, flow, leg);
            match stations.iter_mut().find(|station| station.interface.name == leg.interface) {
                Some(station) => station.ways.push(way),
                None => {
                    let interface = topology.interface(&leg.interface);
                    let station = |interface| Station { interface, ways: vec![way], one_of };
                    stations.extend(interface.map(station));
                }
            }
        }
    }
    stations
}

fn finding(
    kind: FindingKind,
    interface: Option<&Interface>,
    text: String,
    flows: Vec<usize>,
    queues: Vec<u32>,
) -> Finding {
    Finding { kind, interface: interface.map(|interface| interface.name.clone()), text, flows, queues }
}

/// Names in a row, the first few of many.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        all if all.len() <= NAMES_MAX => {
            let (last, first) = all.split_last().expect("it is not empty");
            format!("{} and {last}", first.join(", "))
        }
        all => format!("{} and {} more", all[..NAMES_MAX - 1].join(", "), all.len() - (NAMES_MAX - 1)),
    }
}

/// Numbers as the kernel writes lists of processors: `2-3,6`.
fn numbers(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().collect::<CpuSet>().to_string()
}

/// `queue 3`, `queues 3-5`.
fn queues(list: &[u32]) -> String {
    format!("queue{} {}", if list.len() == 1 { "" } else { "s" }, numbers(list.iter().copied()))
}

/// The flows in each receive queue.
fn by_queue<'a>(station: &Station<'a>) -> BTreeMap<u32, Vec<(usize, &'a Flow)>> {
    let mut queues: BTreeMap<u32, Vec<(usize, &Flow)>> = BTreeMap::new();
    for (place, flow, leg) in &station.ways {
        if let Some(queue) = leg.queue {
            queues.entry(queue).or_default().push((*place, flow));
        }
    }
    queues
}

/// Returns the condition for an interface that is one of several on which flows may arrive.
fn if_it_comes(station: &Station<'_>) -> String {
    station.one_of.map_or_else(String::new, |bond| format!(" (so far as {bond} receives by it)"))
}

fn shared_queue(station: &Station<'_>) -> Option<Finding> {
    let taken = by_queue(station);
    let all = station.interface.receive.iter().map(|queue| queue.index);
    let free: Vec<u32> = all.filter(|queue| !taken.contains_key(queue)).collect();
    let mut shared: Vec<(&u32, &Vec<(usize, &Flow)>)> =
        taken.iter().filter(|(_, flows)| flows.len() > 1).collect();
    if shared.is_empty() || free.is_empty() {
        return None;
    }
    shared.sort_by_key(|(queue, flows)| (std::cmp::Reverse(flows.len()), **queue));
    let described = |(queue, flows): &(&u32, &Vec<(usize, &Flow)>)| {
        let names: Vec<String> = flows.iter().map(|(_, flow)| name(flow)).collect();
        format!("queue {queue} has {} ({})", flows.len(), listed(&names))
    };
    let described: Vec<String> = shared.iter().map(described).collect();
    let count = taken.values().map(Vec::len).sum::<usize>();
    let text = format!(
        "{} come in by {} of the {} of {}{}: {}. Free: {}.",
        plural(count as u64, "I/O flow"),
        taken.len(),
        plural(station.interface.receive.len() as u64, "receive queue"),
        station.interface.name,
        if_it_comes(station),
        listed(&described),
        queues(&free),
    );
    let flows = shared.iter().flat_map(|(_, flows)| flows.iter().map(|(place, _)| *place)).collect();
    let queues = shared.iter().map(|(queue, _)| **queue).collect();
    Some(finding(FindingKind::SharedQueue, Some(station.interface), text, flows, queues))
}

/// True if the processor that serves a flow's queue is known to be another than its worker's.
pub(super) fn is_elsewhere(flow: &Flow, leg: &Leg) -> bool {
    let Some(worker) = flow.worker.as_ref() else { return false };
    match leg.is_workers {
        Some(is_workers) => !is_workers,
        None => {
            worker.cpu.is_none()
                && !worker.allowed.is_empty()
                && leg.cpu.is_some_and(|cpu| !worker.allowed.contains(cpu))
        }
    }
}

/// The processors of a flow's worker in words.
fn worker_cpus(flow: &Flow) -> String {
    let Some(worker) = flow.worker.as_ref() else { return "unknown".to_owned() };
    worker.cpu.map_or_else(|| format!("CPUs {}", worker.allowed), |cpu| format!("CPU {cpu}"))
}

fn worker_elsewhere(station: &Station<'_>) -> Option<Finding> {
    let away: Vec<_> = station.ways.iter().filter(|(_, flow, leg)| is_elsewhere(flow, leg)).collect();
    if away.is_empty() {
        return None;
    }
    let described = |(_, flow, leg): &&(usize, &Flow, &Leg)| {
        let queue = leg.queue.map_or_else(String::new, |queue| format!("queue {queue}, "));
        let cpu = leg.cpu.map_or_else(String::new, |cpu| format!("CPU {cpu}"));
        format!("{} ({queue}{cpu}; worker on {})", name(flow), worker_cpus(flow))
    };
    let names: Vec<String> = away.iter().map(described).collect();
    let text = format!(
        "{} of {} over {}{} {} received on another CPU than {} on: {}.",
        away.len(),
        plural(station.ways.len() as u64, "I/O flow"),
        station.interface.name,
        if_it_comes(station),
        if away.len() == 1 { "is" } else { "are" },
        if away.len() == 1 { "its worker is" } else { "their workers are" },
        listed(&names),
    );
    let flows = away.iter().map(|(place, _, _)| *place).collect();
    let queues: BTreeSet<u32> = away.iter().filter_map(|(_, _, leg)| leg.queue).collect();
    let queues = queues.into_iter().collect();
    Some(finding(FindingKind::WorkerElsewhere, Some(station.interface), text, flows, queues))
}

/// True if a processor is on another node than the interface's device.
pub(super) fn is_off_node(topology: &Topology, interface: &Interface, cpu: u32) -> bool {
    let nodes = interface.node.zip(topology.processors.node_of(cpu));
    nodes.is_some_and(|(own, other)| own != other)
}

fn worker_off_node(topology: &Topology, station: &Station<'_>) -> Option<Finding> {
    let far = |(_, flow, _): &&(usize, &Flow, &Leg)| {
        let cpu = flow.worker.as_ref().and_then(|worker| worker.cpu);
        cpu.is_some_and(|cpu| is_off_node(topology, station.interface, cpu))
    };
    let away: Vec<_> = station.ways.iter().filter(far).collect();
    let node = station.interface.node.filter(|_| !away.is_empty())?;
    let described: Vec<String> =
        away.iter().map(|(_, flow, _)| format!("{} ({})", name(flow), worker_cpus(flow))).collect();
    let text = format!(
        "{} of {} over {} {} off node {node}, which the card is on: {}.",
        plural(away.len() as u64, "worker"),
        plural(station.ways.len() as u64, "I/O flow"),
        station.interface.name,
        if away.len() == 1 { "is" } else { "are" },
        listed(&described),
    );
    let flows = away.iter().map(|(place, _, _)| *place).collect();
    Some(finding(FindingKind::WorkerOffNode, Some(station.interface), text, flows, Vec::new()))
}

fn interrupt_off_node(topology: &Topology, interface: &Interface) -> Option<Finding> {
    let cpu = |queue: &ReceiveQueue| queue.interrupt.as_ref()?.cpu();
    let far: Vec<(u32, u32)> = interface
        .receive
        .iter()
        .filter_map(|queue| Some((queue.index, cpu(queue)?)))
        .filter(|(_, cpu)| is_off_node(topology, interface, *cpu))
        .collect();
    let node = interface.node.filter(|_| !far.is_empty())?;
    let list: Vec<u32> = far.iter().map(|(queue, _)| *queue).collect();
    let text = format!(
        "Interrupts of {} of {}'s {} are served off node {node}, which the card is on: {} on CPUs {}.",
        far.len(),
        interface.name,
        plural(interface.receive.len() as u64, "receive queue"),
        queues(&list),
        numbers(far.iter().map(|(_, cpu)| *cpu)),
    );
    Some(finding(FindingKind::InterruptOffNode, Some(interface), text, Vec::new(), list))
}

fn queue_unreached(interface: &Interface) -> Option<Finding> {
    let table = &interface.rss.as_ref().filter(|rss| !rss.table.is_empty())?.table;
    let all = interface.receive.iter().map(|queue| queue.index);
    let left_out: Vec<u32> = all.filter(|queue| !table.contains(queue)).collect();
    if left_out.is_empty() {
        return None;
    }
    let with_rules = interface.ntuple.as_ref().is_some_and(|ntuple| ntuple.is_supported);
    let text = format!(
        "The RSS table of {} names {} of its {}: {} get {}.",
        interface.name,
        interface.receive.len() - left_out.len(),
        plural(interface.receive.len() as u64, "receive queue"),
        queues(&left_out),
        if with_rules { "only what a rule sends there" } else { "nothing" },
    );
    Some(finding(FindingKind::QueueUnreached, Some(interface), text, Vec::new(), left_out))
}

fn packet_steering(interface: &Interface) -> Option<Finding> {
    let steered = interface.receive.iter().filter(|queue| !queue.rps.is_empty());
    let list: Vec<u32> = steered.clone().map(|queue| queue.index).collect();
    let cpus: BTreeSet<u32> = steered.flat_map(|queue| queue.rps.iter()).collect();
    if list.is_empty() {
        return None;
    }
    let text = format!(
        "RPS hands packets of {} {} on to CPUs {} after the interrupt: which of them receives a flow is unknown.",
        interface.name,
        queues(&list),
        numbers(cpus),
    );
    Some(finding(FindingKind::PacketSteering, Some(interface), text, Vec::new(), list))
}

fn course_unknown(station: &Station<'_>) -> Option<Finding> {
    let lost: Vec<_> = station.ways.iter().filter(|(_, _, leg)| leg.queue.is_none()).collect();
    let reason = lost.iter().find_map(|(_, _, leg)| match &leg.steering {
        Steering::Unknown { reason } => Some(reason.as_str()),
        _ => None,
    });
    if lost.is_empty() {
        return None;
    }
    let text = format!(
        "It is unknown which queue of {} receives {}: {}.",
        station.interface.name,
        plural(lost.len() as u64, "I/O flow"),
        reason.unwrap_or("a rule sends them elsewhere"),
    );
    let flows = lost.iter().map(|(place, _, _)| *place).collect();
    Some(finding(FindingKind::CourseUnknown, Some(station.interface), text, flows, Vec::new()))
}

/// Controllers with more I/O queues than one of the interfaces below them has queues.
fn too_few_queues(topology: &Topology) -> Vec<Finding> {
    let judge = |queues: InitiatorQueues<'_>| {
        let InitiatorQueues { controller, pid, interface, flows } = queues;
        let whose = pid.map_or_else(|| controller.to_owned(), |pid| format!("{controller} of process {pid}"));
        let least = legs(topology, interface.unwrap_or_default())
            .into_iter()
            .min_by_key(|interface| interface.receive.len())?;
        let has = least.receive.len();
        let is_few = least.kind == InterfaceKind::Device && has < flows.len();
        let combined = least.channels.map(|channels| channels.combined);
        let more = combined.filter(|combined| combined.max > combined.now);
        let hint = more.map_or_else(String::new, |combined| {
            let wanted = combined.max.min(flows.len() as u32);
            format!("; `ethtool -L {} combined {wanted}` would give it more", least.name)
        });
        let text = format!(
            "{whose} has {}, and {} has {} to receive by{hint}.",
            plural(flows.len() as u64, "I/O queue"),
            least.name,
            if has == 1 { "one queue".to_owned() } else { plural(has as u64, "queue") }
        );
        is_few.then(|| finding(FindingKind::TooFewQueues, Some(least), text, flows, Vec::new()))
    };
    topology.initiators().into_iter().filter_map(judge).collect()
}

fn irqbalance(topology: &Topology) -> Option<Finding> {
    let pid = topology.irqbalance?;
    let text = format!(
        "irqbalance runs (process {pid}): it moves interrupts to other CPUs from time to time, also those that were placed."
    );
    Some(finding(FindingKind::Irqbalance, None, text, Vec::new(), Vec::new()))
}

#[cfg(test)]
pub(crate) mod tests;
