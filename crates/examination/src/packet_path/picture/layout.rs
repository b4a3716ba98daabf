//! Positions of the picture's parts: each column is as high as the longest, and its rows are spread
//! over that. Workers are drawn beside the processor that they run on, and a flow that is received
//! there has a straight line.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use chart::units::plural;
use topology::{Flow, Interface, InterfaceKind, Interrupt, Leg};

use crate::packet_path::words;
use crate::packet_path::{Survey, name};

/// Horizontal positions of columns, from left to right.
pub(super) mod columns {
    pub(crate) const WIDTH: f64 = 1120.0;
    pub(crate) const FLOW: f64 = 16.0;
    pub(crate) const FLOW_ROOM: f64 = 300.0;
    pub(crate) const FLOW_END: f64 = 324.0;
    pub(crate) const QUEUE: f64 = 410.0;
    pub(crate) const QUEUE_END: f64 = 476.0;
    /// For what stands over an interface's queues; it may reach over the interrupts.
    pub(crate) const QUEUE_ROOM: f64 = 240.0;
    pub(crate) const IRQ: f64 = 536.0;
    pub(crate) const IRQ_END: f64 = 572.0;
    pub(crate) const CPU: f64 = 720.0;
    pub(crate) const CPU_END: f64 = 764.0;
    pub(crate) const WORKER: f64 = 900.0;
    pub(crate) const WORKER_ROOM: f64 = 200.0;
}

/// Vertical position of the first row.
pub(super) const TOP: f64 = 142.0;
/// Part of that height which a page shows by itself: title and summary.
pub(super) const TITLES: f64 = 84.0;
/// Height of a box.
pub(super) const BOX: f64 = 14.0;
/// The least height of a row, and the most.
const ROW: f64 = 16.0;
const ROW_MAX: f64 = 44.0;
/// Height of what stands over a group.
const HEAD: f64 = 26.0;
const FOOT: f64 = 24.0;
/// Flows that are drawn: a picture of more would be longer than is looked at.
const FLOWS_MAX: usize = 512;
/// Queues of an interface up to which those without flows are drawn.
const QUEUES_MAX: usize = 256;

/// A row with a flow.
pub(super) struct FlowRow {
    pub(super) flow: usize,
    pub(super) y: f64,
}

/// A receive queue; without a number, that which is not known.
pub(super) struct QueueBox {
    pub(super) interface: String,
    pub(super) index: Option<u32>,
    pub(super) y: f64,
    pub(super) flows: usize,
    pub(super) io_flows: usize,
}

/// A processor.
pub(super) struct CpuBox {
    pub(super) cpu: u32,
    pub(super) y: f64,
}

/// A flow's worker.
pub(super) struct WorkerRow {
    pub(super) connection: (SocketAddr, SocketAddr),
    pub(super) y: f64,
    pub(super) text: String,
    /// True if the worker is drawn beside its processor, which must be known for that.
    pub(super) is_at_cpu: bool,
}

/// Heading of a group.
pub(super) struct Head {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) text: String,
}

/// The ground behind a node's processors.
pub(super) struct Band {
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// All places.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) height: f64,
    pub(super) flows: Vec<FlowRow>,
    pub(super) flows_left_out: usize,
    pub(super) queues: Vec<QueueBox>,
    pub(super) cpus: Vec<CpuBox>,
    pub(super) workers: Vec<WorkerRow>,
    pub(super) heads: Vec<Head>,
    pub(super) bands: Vec<Band>,
}

/// Rows under one head, each with the number of lines that it takes.
struct Group<T> {
    head: String,
    rows: Vec<(T, usize)>,
}

impl Layout {
    /// Finds a place for everything that is drawn.
    pub(super) fn new(survey: &Survey) -> Self {
        let flows = flow_groups(survey);
        let drawn: BTreeSet<usize> =
            flows.iter().flat_map(|group| &group.rows).map(|(flow, _)| *flow).collect();
        let queues = queue_groups(survey);
        let cpus = cpu_groups(survey, &queues);
        let homeless = homeless(survey, &drawn);
        let right =
            length(&cpus) + if homeless.is_empty() { 0.0 } else { HEAD + ROW * homeless.len() as f64 };
        let tall = length(&flows).max(length(&queues)).max(right).max(4.0 * ROW);
        let mut layout = Self { height: TOP + tall + FOOT, ..Self::default() };
        layout.flows_left_out = survey.topology.flows.len() - drawn.len();
        for (flow, y, _) in layout.spread(flows, columns::FLOW, tall) {
            layout.flows.push(FlowRow { flow, y });
        }
        let counts = counts(survey);
        for ((interface, index), y, _) in layout.spread(queues, columns::QUEUE, tall) {
            let (flows, io_flows) = counts.get(&(interface.as_str(), index)).copied().unwrap_or_default();
            layout.queues.push(QueueBox { interface, index, y, flows, io_flows });
        }
        let for_cpus = tall - (right - length(&cpus));
        layout.place_cpus(survey, &drawn, cpus, for_cpus);
        layout.place_homeless(survey, &homeless, for_cpus);
        layout
    }

    /// The middle of a processor's row.
    pub(super) fn cpu(&self, cpu: u32) -> Option<f64> {
        self.cpus.iter().find(|other| other.cpu == cpu).map(|other| other.y)
    }

    /// The box of a queue.
    pub(super) fn queue(&self, interface: &str, index: Option<u32>) -> Option<&QueueBox> {
        self.queues.iter().find(|queue| queue.interface == interface && queue.index == index)
    }

    /// Spreads a column over a height: each row with its middle and the height of one of its lines.
    fn spread<T>(&mut self, groups: Vec<Group<T>>, x: f64, height: f64) -> Vec<(T, f64, f64)> {
        let heads = groups.len() as f64 * HEAD;
        let lines: usize = groups.iter().flat_map(|group| &group.rows).map(|(_, lines)| lines).sum();
        let line = ((height - heads) / lines.max(1) as f64).clamp(ROW, ROW_MAX);
        let mut y = TOP;
        let mut placed = Vec::new();
        for group in groups {
            self.heads.push(Head { x, y: y + HEAD / 2.0, text: group.head });
            y += HEAD;
            for (row, lines) in group.rows {
                let high = line * lines as f64;
                placed.push((row, y + high / 2.0, line));
                y += high;
            }
        }
        placed
    }

    fn place_cpus(&mut self, survey: &Survey, drawn: &BTreeSet<usize>, groups: Vec<Group<u32>>, height: f64) {
        let first = self.heads.len();
        let mut bottoms = Vec::new();
        let ends: Vec<u32> =
            groups.iter().filter_map(|group| group.rows.last()).map(|(cpu, _)| *cpu).collect();
        for (cpu, y, line) in self.spread(groups, columns::CPU, height) {
            self.cpus.push(CpuBox { cpu, y });
            let mut here: Vec<(usize, &Flow)> =
                workers_on(survey, cpu).filter(|(at, _)| drawn.contains(at)).collect();
            here.sort_by_key(|(at, _)| first_leg(survey, *at).map(|leg| (leg.cpu, leg.queue)));
            // The workers of one processor lie close together, in the middle of its row.
            let step = line.min(ROW + 4.0);
            let top = y - step * (here.len() as f64 - 1.0) / 2.0;
            for (at, (_, flow)) in here.iter().enumerate() {
                let y = top + step * at as f64;
                let connection = (flow.local, flow.peer);
                self.workers.push(WorkerRow { connection, y, text: worker_text(flow), is_at_cpu: true });
            }
            if ends.contains(&cpu) {
                bottoms.push(y + line * here.len().max(1) as f64 / 2.0);
            }
        }
        let tops = self.heads[first..].iter().map(|head| head.y - HEAD / 2.0 + 2.0);
        let bands = tops.zip(bottoms).map(|(top, bottom)| Band { top, bottom: bottom + 1.0 });
        let bands: Vec<Band> = bands.collect();
        self.bands.extend(bands);
    }

    fn place_homeless(&mut self, survey: &Survey, homeless: &[usize], for_cpus: f64) {
        if homeless.is_empty() {
            return;
        }
        let top = TOP + for_cpus;
        let text = "on a CPU that is not known".to_owned();
        self.heads.push(Head { x: columns::WORKER, y: top + HEAD / 2.0, text });
        for (at, flow) in homeless.iter().filter_map(|at| survey.topology.flows.get(*at)).enumerate() {
            let y = top + HEAD + ROW * (at as f64 + 0.5);
            let connection = (flow.local, flow.peer);
            self.workers.push(WorkerRow { connection, y, text: worker_text(flow), is_at_cpu: false });
        }
    }
}

/// Flows, and I/O flows among them, of each receive queue.
fn counts(survey: &Survey) -> BTreeMap<(&str, Option<u32>), (usize, usize)> {
    let mut counts: BTreeMap<(&str, Option<u32>), (usize, usize)> = BTreeMap::new();
    for (flow, leg) in survey.ways() {
        let Some(leg) = leg else { continue };
        let (flows, io_flows) = counts.entry((leg.interface.as_str(), leg.queue)).or_default();
        *flows += 1;
        *io_flows += usize::from(flow.is_io());
    }
    counts
}

/// Returns the least height of a column.
fn length<T>(groups: &[Group<T>]) -> f64 {
    let lines: usize = groups.iter().flat_map(|group| &group.rows).map(|(_, lines)| lines).sum();
    groups.len() as f64 * HEAD + lines as f64 * ROW
}

/// The flows, by whose they are and over which interface they go.
fn flow_groups(survey: &Survey) -> Vec<Group<usize>> {
    let mut groups: Vec<Group<usize>> = Vec::new();
    for (at, flow) in survey.topology.flows.iter().enumerate().take(FLOWS_MAX) {
        let over = flow.interface.as_ref().map_or_else(String::new, |over| format!(" over {over}"));
        let whose = if flow.controller.is_empty() { String::new() } else { format!(", {}", flow.controller) };
        let head = format!("{}{whose}{over}", words::owner(&flow.owner));
        match groups.iter_mut().find(|group| group.head == head) {
            Some(group) => group.rows.push((at, 1)),
            None => groups.push(Group { head, rows: vec![(at, 1)] }),
        }
    }
    // In the order of what their lines lead to, so that these do not cross.
    for group in &mut groups {
        group.rows.sort_by_key(|(flow, _)| first_leg(survey, *flow).map(|leg| leg.queue));
    }
    groups
}

/// The first of the ways that a flow's packets may take.
fn first_leg(survey: &Survey, flow: usize) -> Option<&Leg> {
    survey.courses.get(flow)?.legs.first()
}

/// The receive queues of each interface that flows come by; of all devices where there are no flows.
fn queue_groups(survey: &Survey) -> Vec<Group<(String, Option<u32>)>> {
    let legs = || survey.courses.iter().flat_map(|course| &course.legs);
    let is_shown = |interface: &&Interface| match survey.topology.flows.is_empty() {
        true => interface.kind == InterfaceKind::Device,
        false => legs().any(|leg| leg.interface == interface.name),
    };
    let group = |interface: &Interface| {
        let used: BTreeSet<Option<u32>> =
            legs().filter(|leg| leg.interface == interface.name).map(|leg| leg.queue).collect();
        let is_many = interface.receive.len() > QUEUES_MAX;
        let all = interface.receive.iter().map(|queue| Some(queue.index));
        let mut shown: BTreeSet<Option<u32>> = all.filter(|queue| !is_many || used.contains(queue)).collect();
        shown.extend(used);
        let card = [
            interface.driver.clone(),
            interface.speed_mbps.map(words::speed),
            interface.node.map(|node| format!("node {node}")),
            is_many.then(|| format!("used of {}", plural(interface.receive.len() as u64, "queue"))),
        ];
        let card: Vec<String> = card.into_iter().flatten().collect();
        Group {
            head: format!("{} {}", interface.name, card.join(", ")).trim_end().to_owned(),
            rows: shown.into_iter().map(|queue| ((interface.name.clone(), queue), 1)).collect(),
        }
    };
    survey.topology.interfaces.iter().filter(is_shown).map(group).collect()
}

/// The processors that have a part in it, by node; each as high as its workers need.
fn cpu_groups(survey: &Survey, queues: &[Group<(String, Option<u32>)>]) -> Vec<Group<u32>> {
    let mut cpus: BTreeSet<u32> = BTreeSet::new();
    for ((name, index), _) in queues.iter().flat_map(|group| &group.rows) {
        let interface = survey.topology.interface(name);
        let receive = interface
            .and_then(|interface| interface.receive.iter().find(|queue| Some(queue.index) == *index));
        cpus.extend(receive.and_then(|queue| queue.interrupt.as_ref()).and_then(Interrupt::cpu));
    }
    for leg in survey.courses.iter().flat_map(|course| &course.legs) {
        cpus.extend(leg.cpu);
        if leg.cpu.is_none() {
            cpus.extend(leg.cpus.iter().take(super::GUESSES_MAX));
        }
    }
    cpus.extend(survey.topology.flows.iter().filter_map(|flow| flow.worker.as_ref()?.cpu));
    let processors = &survey.topology.processors;
    let mut groups: Vec<(Option<u16>, Group<u32>)> = Vec::new();
    for cpu in cpus {
        let node = processors.node_of(cpu);
        let row = (cpu, workers_on(survey, cpu).count().max(1));
        match groups.iter_mut().find(|(other, _)| *other == node) {
            Some((_, group)) => group.rows.push(row),
            None => {
                let head = node.map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
                groups.push((node, Group { head, rows: vec![row] }));
            }
        }
    }
    groups.sort_by_key(|(node, _)| *node);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The flows whose worker is on a processor.
fn workers_on(survey: &Survey, cpu: u32) -> impl Iterator<Item = (usize, &Flow)> {
    let flows = survey.topology.flows.iter().enumerate().take(FLOWS_MAX);
    flows.filter(move |(_, flow)| flow.worker.as_ref().and_then(|worker| worker.cpu) == Some(cpu))
}

/// The flows whose worker is somewhere among several processors.
fn homeless(survey: &Survey, drawn: &BTreeSet<usize>) -> Vec<usize> {
    let is_homeless = |at: &usize| {
        let worker = survey.topology.flows.get(*at).and_then(|flow| flow.worker.as_ref());
        worker.is_some_and(|worker| worker.cpu.is_none() && !worker.allowed.is_empty())
    };
    let mut homeless: Vec<usize> = drawn.iter().copied().filter(is_homeless).collect();
    homeless.sort_by_key(|at| first_leg(survey, *at).map(|leg| (leg.cpu, leg.queue)));
    homeless
}

fn worker_text(flow: &Flow) -> String {
    let Some(worker) = flow.worker.as_ref() else { return String::new() };
    match (worker.cpu, worker.thread) {
        (None, _) => format!("{}: CPUs {}", name(flow), worker.allowed),
        (Some(_), Some(thread)) => format!("{}, thread {thread}", name(flow)),
        (Some(_), None) => name(flow),
    }
}
