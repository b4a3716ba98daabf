//! Where an initiator's I/O queues go before they are connected: which receive queue each is to have, from which ports it
//! comes there, and which processor its worker sits on. It reads a topology and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Serialize;

use super::{CpuSet, Interface, Processors, ReceiveQueue, Steering, Topology, course, legs, receive_queue};
use crate::limits::SOURCE_PORTS_MAX;

/// Request to place queues.
#[derive(Clone, Debug)]
pub struct PlaceRequest<'a> {
    /// Interface that the connections leave by.
    pub interface: &'a str,
    /// This machine's address on them.
    pub local: IpAddr,
    /// The target.
    pub peer: SocketAddr,
    /// I/O queues.
    pub queues: u16,
    /// Ports that may be connected from; absent where they cannot be chosen.
    pub ports: Option<RangeInclusive<u16>>,
    /// Processors that workers may use.
    pub allowed: &'a CpuSet,
    /// Seed that makes initiators choose different ports.
    pub seed: u64,
}

/// Placement of queues, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Placement {
    /// Each queue, by number.
    pub queues: Vec<QueuePlacement>,
    /// Reasons, a sentence each.
    pub reasons: Vec<String>,
}

/// Placement of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QueuePlacement {
    /// I/O queue (QID), from 1.
    pub queue_id: u16,
    /// Receive queue of the interface, where it can be known. With source ports it is that of a connection from one of
    /// them.
    pub receive_queue: Option<u32>,
    /// Processor for the worker.
    pub cpu: Option<u32>,
    /// Ports to connect from, the best first, `limits::SOURCE_PORTS_MAX` at most; none where the system may choose.
    pub source_ports: Vec<u16>,
}

/// Spreads I/O queues over the receive queues that the interface's hash reaches: never two of them
/// on one while another that a port leads to has none, and first to those without flows of others.
/// Workers sit on the processor that serves their receive queue; where that is unknown, taken,
/// isolated or on another node than the interface, on one that is free, those of the node first and
/// one of each core before its siblings.
pub fn place(topology: &Topology, request: &PlaceRequest<'_>) -> Placement {
    let mut reasons = Vec::new();
    let legs = legs(topology, request.interface);
    let only = match legs.as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    let receivers = match only {
        Some(leg) => Receivers::find(topology, leg, request, &mut reasons),
        None => {
            reasons.push(unknown_leg(request.interface, &legs));
            Receivers::Unknown
        }
    };
    let node =
        legs.first().and_then(|first| first.node.filter(|_| legs.iter().all(|leg| leg.node == first.node)));
    let mut worker_cpus = WorkerCpus::new(&topology.processors, request.allowed, node);
    let mut queues: Vec<QueuePlacement> = (1..=request.queues)
        .map(|queue_id| QueuePlacement { queue_id, receive_queue: None, cpu: None, source_ports: Vec::new() })
        .collect();
    receivers.deal(&mut queues, |queue| {
        let serving = only.and_then(|leg| serving_cpu(topology, leg, queue));
        serving.map_or((false, None), |cpu| (!worker_cpus.is_near(cpu), Some(cpu)))
    });
    let serving = |placed: &QueuePlacement| serving_cpu(topology, only?, placed.receive_queue?);
    let serving: Vec<Option<u32>> = queues.iter().map(serving).collect();
    // Workers on the processor of their interrupt come first: no other worker takes it then.
    for (placed, serving) in queues.iter_mut().zip(&serving) {
        placed.cpu = serving.filter(|cpu| worker_cpus.is_near(*cpu) && worker_cpus.take_if_free(*cpu));
    }
    for (placed, serving) in queues.iter_mut().zip(&serving).filter(|(placed, _)| placed.cpu.is_none()) {
        placed.cpu = worker_cpus.take(*serving);
    }
    reasons.push(worker_cpus_text(&queues, &serving, &worker_cpus));
    Placement { queues, reasons }
}

/// Why nothing is said of receive queues where there is not exactly one interface with queues.
fn unknown_leg(name: &str, legs: &[&Interface]) -> String {
    if legs.is_empty() {
        return format!("nothing is known of the queues of `{name}`: the system chooses source ports");
    }
    let names: Vec<&str> = legs.iter().map(|leg| leg.name.as_str()).collect();
    format!(
        "packets may come by any of {} below {name}, which is not this machine's to choose: the system chooses source \
         ports",
        names.join(", ")
    )
}

/// The processor that gets the packets of a receive queue, where it is one.
fn serving_cpu(topology: &Topology, interface: &Interface, queue: u32) -> Option<u32> {
    let ReceiveQueue { interrupt, rps, .. } =
        interface.receive.iter().find(|receive| receive.index == queue)?;
    let cpu = if rps.is_empty() {
        interrupt.as_ref().and_then(super::Interrupt::cpu)
    } else {
        rps.intersection(&topology.processors.online).only()
    };
    cpu.filter(|cpu| topology.processors.online.contains(*cpu))
}

/// Receive queues that connections may reach.
enum Receivers {
    /// The source port decides: the ports that lead to each queue, and how many flows of others it has.
    Chosen {
        ports: BTreeMap<u32, Vec<u16>>,
        others: BTreeMap<u32, usize>,
    },
    /// There is no choice.
    Only(u32),
    Unknown,
}

impl Receivers {
    fn find(
        topology: &Topology,
        leg: &Interface,
        request: &PlaceRequest<'_>,
        reasons: &mut Vec<String>,
    ) -> Self {
        let name = &leg.name;
        let local = |port: u16| SocketAddr::new(request.local, port);
        let unknown = match receive_queue(leg, request.peer, local(0)) {
            (Steering::Only, _, Some(queue)) => {
                reasons.push(format!("{name} has one receive queue, which all connections share"));
                return Self::Only(queue);
            }
            (Steering::Unknown { reason }, ..) => Some(reason),
            _ => None,
        };
        let Some(range) = request.ports.clone().filter(|_| unknown.is_none()) else {
            let why = unknown.unwrap_or_else(|| "that depends on ports that the system chooses".to_owned());
            reasons.push(format!(
                "which receive queue of {name} a connection comes to is not known beforehand: {why}"
            ));
            return Self::Unknown;
        };
        let in_use: Vec<u16> = topology.flows.iter().map(|flow| flow.local.port()).collect();
        let table = leg.rss.as_ref().map(|rss| rss.table.as_slice()).unwrap_or_default();
        let named = table.iter().collect::<BTreeSet<_>>().len();
        let wanted = usize::from(request.queues).div_ceil(named.max(1)) * SOURCE_PORTS_MAX;
        let mut ports: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        let mut full = 0;
        for port in from_anywhere(range, request.seed).filter(|port| !in_use.contains(port)) {
            let (_, _, Some(queue)) = receive_queue(leg, request.peer, local(port)) else { continue };
            let found = ports.entry(queue).or_default();
            if found.len() < wanted {
                found.push(port);
                full += usize::from(found.len() == wanted);
            }
            if full == named {
                break;
            }
        }
        match ports.len() {
            0 => {
                reasons.push(format!("no source port is left to choose for {name}: the system chooses"));
                Self::Unknown
            }
            1 => {
                let queue = ports.into_keys().next().unwrap_or_default();
                reasons.push(format!(
                    "all connections of these two addresses come to receive queue {queue} of {name}, from whatever port"
                ));
                Self::Only(queue)
            }
            count => {
                reasons.push(format!(
                    "source ports are chosen so that the hash of {name} spreads {} over {count} receive queues",
                    queues_text(request.queues)
                ));
                Self::Chosen { ports, others: others(topology, leg) }
            }
        }
    }

    /// Gives each queue its receive queue and ports. `worker_cpu` says of a receive queue whether it is served far from the
    /// interface, and by which processor.
    fn deal(self, queues: &mut [QueuePlacement], worker_cpu: impl Fn(u32) -> (bool, Option<u32>)) {
        let (ports, others) = match self {
            Self::Chosen { ports, others } => (ports, others),
            Self::Only(only) => {
                queues.iter_mut().for_each(|placed| placed.receive_queue = Some(only));
                return;
            }
            Self::Unknown => return,
        };
        let mut own: BTreeMap<u32, usize> = BTreeMap::new();
        let mut served: BTreeMap<u32, usize> = BTreeMap::new();
        for placed in &mut *queues {
            let rank = |queue: &u32| {
                let (is_far, cpu) = worker_cpu(*queue);
                let count = |of: &BTreeMap<u32, usize>, key: u32| of.get(&key).copied().unwrap_or(0);
                let on_cpu = cpu.map_or(0, |cpu| count(&served, cpu));
                (count(&own, *queue), count(&others, *queue), is_far, on_cpu, *queue)
            };
            // Each needs a port of its own.
            let has_port = |queue: &&u32| own.get(queue).copied().unwrap_or(0) < ports[queue].len();
            let Some(best) = ports.keys().filter(has_port).min_by_key(|queue| rank(queue)).copied() else {
                break;
            };
            placed.receive_queue = Some(best);
            *own.entry(best).or_default() += 1;
            if let Some(cpu) = worker_cpu(best).1 {
                *served.entry(cpu).or_default() += 1;
            }
        }
        for (queue, ports) in ports {
            let mut sharers: Vec<&mut QueuePlacement> =
                queues.iter_mut().filter(|placed| placed.receive_queue == Some(queue)).collect();
            let count = sharers.len();
            for (at, port) in ports.into_iter().take(count * SOURCE_PORTS_MAX).enumerate() {
                sharers[at % count].source_ports.push(port);
            }
        }
    }
}

/// All ports of a range once, from a place in it that the seed decides.
pub(super) fn from_anywhere(range: RangeInclusive<u16>, seed: u64) -> impl Iterator<Item = u16> {
    let (first, last) = (*range.start(), *range.end());
    // A round of mixing, so that seeds that are near each other begin far from each other.
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16;
    let count = u64::from(last.saturating_sub(first)) + 1;
    let start = first.saturating_add((mixed % count) as u16).min(last);
    (start..=last).chain(first..start)
}

/// Flows that each receive queue has already.
fn others(topology: &Topology, leg: &Interface) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for flow in topology.flows.iter().filter(|flow| flow.is_io()) {
        let its = course(topology, flow).into_iter().find(|its| its.interface == leg.name);
        if let Some(queue) = its.and_then(|its| its.queue) {
            *counts.entry(queue).or_default() += 1;
        }
    }
    counts
}

/// Processors for workers, with the number of workers on each.
struct WorkerCpus<'a> {
    processors: &'a Processors,
    /// Processors in the order in which they are taken when nothing else speaks for one, with their workers.
    taken: Vec<(u32, usize)>,
    near: CpuSet,
}

impl<'a> WorkerCpus<'a> {
    fn new(processors: &'a Processors, allowed: &CpuSet, node: Option<u16>) -> Self {
        let runs = processors.online.intersection(allowed);
        let open = runs.difference(&processors.isolated);
        // A caller that allows only isolated processors means to use them.
        let usable = if open.is_empty() { runs } else { open };
        let taken = processors.cores_first(&usable).into_iter().map(|cpu| (cpu, 0)).collect();
        let near = processors.online_on(node).intersection(&usable);
        Self { processors, taken, near }
    }

    /// True if it may be used and is on the interface's node.
    fn is_near(&self, cpu: u32) -> bool {
        self.near.contains(cpu)
    }

    fn take_if_free(&mut self, cpu: u32) -> bool {
        let free = self.taken.iter_mut().find(|(of, workers)| *of == cpu && *workers == 0);
        free.map(|(_, workers)| *workers += 1).is_some()
    }

    /// The processor with the fewest workers; of several alike one of the node, then `wanted`, then one whose core has
    /// the fewest.
    fn take(&mut self, wanted: Option<u32>) -> Option<u32> {
        let on_core = |cpu: u32| {
            let core = self.processors.cores.iter().find(|core| core.contains(cpu));
            let workers = self.taken.iter().filter(|(of, _)| core.is_some_and(|core| core.contains(*of)));
            workers.map(|(_, workers)| workers).sum::<usize>()
        };
        let rank = |(at, (cpu, workers)): &(usize, &(u32, usize))| {
            (*workers, !self.is_near(*cpu), Some(*cpu) != wanted, on_core(*cpu), *at)
        };
        let best = self.taken.iter().enumerate().min_by_key(rank)?.0;
        self.taken[best].1 += 1;
        Some(self.taken[best].0)
    }
}

fn queues_text(count: u16) -> String {
    if count == 1 { "1 I/O queue".to_owned() } else { format!("{count} I/O queues") }
}

/// Why workers sit where they do.
fn worker_cpus_text(
    queues: &[QueuePlacement],
    serving: &[Option<u32>],
    worker_cpus: &WorkerCpus<'_>,
) -> String {
    if worker_cpus.taken.is_empty() {
        return "there is no CPU that workers may be kept on".to_owned();
    }
    let known = serving.iter().flatten().count();
    let with_it =
        queues.iter().zip(serving).filter(|(placed, cpu)| cpu.is_some() && placed.cpu == **cpu).count();
    let spread: CpuSet = queues.iter().filter_map(|placed| placed.cpu).collect();
    match (known, queues.len() - with_it) {
        (0, _) => format!(
            "no one CPU is known to serve the receive queues: workers are spread over CPUs {spread}, one of each core first"
        ),
        (_, 0) => "each worker sits on the CPU that serves its receive queue".to_owned(),
        (_, apart) => format!(
            "{with_it} of {} sit on the CPU that serves their receive queue; for the other {apart} it is another \
             worker's, not to be used or far from the interface, and they have CPUs that are free or the least used",
            queues.len()
        ),
    }
}
