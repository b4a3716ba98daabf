//! Lists of `selvedge top`: columns, rows, and the list that a row opens. The view owns the
//! selection, and the layout the widths.

use chart::units;

use super::grid::{
    Cell, Column, Grid, List, Row, bandwidth, busiest_first, bytes, column, named, number, rate, shown,
    time_us, words,
};
use crate::report::table::Side;
use crate::target_rates::rates::{
    ControllerRates, Flow, Latency, NamespaceRates, QueueRates, Rates, ReactorRates, SubsystemRates,
};
use crate::target_rates::sample::{Stages, UNBOUNDED};

/// List of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetList {
    Subsystems,
    Reactors,
    /// The controllers of a subsystem.
    Controllers(String),
    /// The namespaces of a subsystem.
    Namespaces(String),
    /// The queues of a subsystem's controller.
    Queues(String, u16),
    /// Operations of a subsystem's namespace.
    Operations(String, u32),
}

use Side::{Left, Right};

const SUBSYSTEMS: &[Column] = &[
    column("SUBSYSTEM", Left, 20, 0),
    column("NS", Right, 4, 6),
    column("HOSTS", Right, 5, 5),
    column("QUEUES", Right, 6, 8),
    column("DEPTH", Right, 5, 7),
    column("R IOPS", Right, 6, 0),
    column("READ", Right, 9, 2),
    column("W IOPS", Right, 6, 0),
    column("WRITE", Right, 9, 2),
    column("MEAN", Right, 7, 4),
    column("P50≤", Right, 7, 9),
    column("P99≤", Right, 7, 3),
    column("P99.9≤", Right, 7, 10),
    column("ERR/S", Right, 6, 6),
];
const NAMESPACES: &[Column] = &[
    column("NAMESPACE", Left, 9, 0),
    column("SIZE", Right, 8, 5),
    column("R IOPS", Right, 6, 0),
    column("READ", Right, 9, 2),
    column("R P99≤", Right, 7, 3),
    column("W IOPS", Right, 6, 0),
    column("WRITE", Right, 9, 2),
    column("W P99≤", Right, 7, 3),
    column("IOPS", Right, 6, 7),
    column("MEAN", Right, 7, 4),
    column("P50≤", Right, 7, 8),
    column("P99.9≤", Right, 7, 9),
    column("ERR/S", Right, 6, 6),
    column("MEDIA", Right, 6, 10),
];
const OPERATIONS: &[Column] = &[
    column("OPERATION", Left, 19, 0),
    column("IOPS", Right, 6, 0),
    column("BANDWIDTH", Right, 9, 0),
    column("MEAN", Right, 7, 0),
    column("P50≤", Right, 7, 0),
    column("P90≤", Right, 7, 1),
    column("P99≤", Right, 7, 0),
    column("P99.9≤", Right, 7, 2),
    column("STORAGE", Right, 7, 3),
    column("LIMITS", Right, 6, 4),
    column("RECEIVE", Right, 7, 5),
    column("BUFFER", Right, 6, 6),
    column("OTHERS", Right, 6, 7),
];
const CONTROLLERS: &[Column] = &[
    column("HOST", Left, 20, 0),
    column("CNTLID", Right, 6, 0),
    column("PORT", Right, 5, 7),
    column("READY", Left, 5, 8),
    column("QUEUES", Right, 6, 4),
    column("DEPTH", Right, 5, 3),
    column("IOPS", Right, 6, 0),
    column("IN", Right, 9, 1),
    column("OUT", Right, 9, 1),
    column("RTT", Right, 7, 5),
    column("RETR/S", Right, 6, 6),
    column("PEER", Left, 21, 9),
];
const QUEUES: &[Column] = &[
    column("QUEUE", Left, 9, 0),
    column("REACTOR", Right, 7, 3),
    column("ENTRIES", Right, 7, 9),
    column("DEPTH", Right, 5, 0),
    column("IOPS", Right, 6, 0),
    column("IN", Right, 9, 1),
    column("OUT", Right, 9, 1),
    column("STAGE", Left, 13, 8),
    column("RTT", Right, 7, 2),
    column("RETR/S", Right, 6, 4),
    column("RECV-Q", Right, 6, 5),
    column("SEND-Q", Right, 6, 5),
    column("CARRIED BY", Left, 10, 7),
    column("PEER", Left, 21, 6),
];
const REACTORS: &[Column] = &[
    column("REACTOR", Left, 9, 0),
    column("CPU", Right, 4, 3),
    column("BUSY", Right, 7, 0),
    column("CONNECTIONS", Right, 11, 0),
    column("IOPS", Right, 6, 0),
    column("EVENTS/S", Right, 8, 1),
    column("ROUNDS/S", Right, 8, 2),
    column("EV/ROUND", Right, 8, 4),
    column("BUFFERS", Right, 8, 5),
];

impl List for TargetList {
    type Known = Rates;
    const OPENS: &'static str = "open it: a subsystem's controllers, a controller's queues";
    const OTHER: &'static str = "the other list: reactors, or the namespaces of a subsystem";
    const ENDS: &'static str = "end; Ctrl-C too";
    const NOTES: &'static [&'static str] = &[
        "Rates are over the last interval. P99≤: 99 of 100 commands took no longer, in",
        "steps of powers of two, from taking a command off the socket to queueing its",
        "answer. IN and OUT are the connections' bytes as the kernel counts them. BUSY",
        "is the processor time of a reactor, polling too.",
    ];

    fn first() -> Self {
        Self::Subsystems
    }

    fn columns(&self) -> &'static [Column] {
        match self {
            Self::Subsystems => SUBSYSTEMS,
            Self::Reactors => REACTORS,
            Self::Controllers(_) => CONTROLLERS,
            Self::Namespaces(_) => NAMESPACES,
            Self::Queues(..) => QUEUES,
            Self::Operations(..) => OPERATIONS,
        }
    }

    fn first_order(&self) -> (usize, bool) {
        match self {
            Self::Namespaces(_) | Self::Queues(..) | Self::Reactors => (0, false),
            Self::Subsystems | Self::Operations(..) | Self::Controllers(_) => busiest_first(self.columns()),
        }
    }

    fn sibling(&self) -> Option<Self> {
        match self {
            Self::Subsystems => Some(Self::Reactors),
            Self::Reactors => Some(Self::Subsystems),
            Self::Controllers(nqn) => Some(Self::Namespaces(nqn.clone())),
            Self::Namespaces(nqn) => Some(Self::Controllers(nqn.clone())),
            Self::Queues(..) | Self::Operations(..) => None,
        }
    }

    fn grid(&self, rates: &Rates) -> Option<Grid<Self>> {
        let columns = self.columns();
        let (title, rows): (String, Vec<Row<Self>>) = match self {
            Self::Subsystems => ("subsystems".into(), rates.subsystems.iter().map(subsystem_row).collect()),
            Self::Reactors => ("reactors".into(), rates.reactors.iter().map(reactor_row).collect()),
            Self::Controllers(nqn) => {
                let rows = rates.subsystem(nqn)?.controllers.iter();
                (format!("controllers of {nqn}"), rows.map(|row| controller_row(nqn, row)).collect())
            }
            Self::Namespaces(nqn) => {
                let rows = rates.subsystem(nqn)?.namespaces.iter();
                (format!("namespaces of {nqn}"), rows.map(|row| namespace_row(nqn, row)).collect())
            }
            Self::Queues(nqn, cntlid) => {
                let mut controllers = rates.subsystem(nqn)?.controllers.iter();
                let controller = controllers.find(|controller| controller.cntlid == *cntlid)?;
                let title = format!("queues of controller {cntlid}, host {}", controller.host_nqn);
                (title, controller.queues.iter().map(queue_row).collect())
            }
            Self::Operations(nqn, nsid) => {
                let mut namespaces = rates.subsystem(nqn)?.namespaces.iter();
                let namespace = namespaces.find(|namespace| namespace.nsid == *nsid)?;
                let rows = namespace.operations.iter().flat_map(|(name, flow)| {
                    std::iter::once(operation_row(name, flow)).chain(size_rows(name, flow))
                });
                (format!("commands on namespace {nsid} of {nqn}"), rows.collect())
            }
        };
        Some(Grid { title, columns, rows })
    }
}

type TargetRow = Row<TargetList>;

fn mean(latency: Option<&Latency>) -> Cell {
    shown(latency.map(|latency| latency.mean_ns), mean_text)
}

/// A mean as it is said: the target's clock does not see commands that it answers in the round in which they come.
pub(crate) fn mean_text(mean_ns: f64) -> String {
    if mean_ns == 0.0 { "at once".to_owned() } else { units::time_ns(mean_ns) }
}

/// The end of a percentile's bucket. Nothing is known of a latency there was none of, and of one beyond the last
/// bucket's end only that it is longer.
fn percentile(latency: Option<&Latency>, of: fn(&Latency) -> Option<u64>) -> Cell {
    let end = latency.map(|latency| of(latency).unwrap_or(UNBOUNDED));
    shown(end.map(|end| end as f64), bucket_end)
}

fn bucket_end(end_ns: f64) -> String {
    if end_ns >= UNBOUNDED as f64 { ">16.8 s".to_owned() } else { units::time_ns(end_ns) }
}

/// A percentile as the summary of a screen says it.
pub(crate) fn percentile_text(end_ns: Option<u64>) -> String {
    match end_ns {
        Some(end_ns) => format!("≤{}", units::time_ns(end_ns as f64)),
        None => bucket_end(UNBOUNDED as f64),
    }
}

fn subsystem_row(of: &SubsystemRates) -> TargetRow {
    let load = &of.load;
    let latency = load.total.latency.as_ref();
    let queues: usize = of.controllers.iter().map(|controller| controller.queues.len()).sum();
    let cells = vec![
        words(&of.nqn),
        number(of.namespaces.iter().filter(|namespace| namespace.size_bytes.is_some()).count() as u64),
        number(of.controllers.len() as u64),
        number(queues as u64),
        number(of.depth),
        rate(load.read.iops),
        bandwidth(load.read.bytes_per_s),
        rate(load.write.iops),
        bandwidth(load.write.bytes_per_s),
        mean(latency),
        percentile(latency, |latency| latency.p50_ns_max),
        percentile(latency, |latency| latency.p99_ns_max),
        percentile(latency, |latency| latency.p999_ns_max),
        rate(load.errors_per_s),
    ];
    Row { key: of.nqn.clone(), cells, opens: Some(TargetList::Controllers(of.nqn.clone())) }
}

fn namespace_row(nqn: &str, of: &NamespaceRates) -> TargetRow {
    let Flow { iops, latency, .. } = &of.load.total;
    let (read, write) = (&of.load.read, &of.load.write);
    let name = match (of.nsid, of.size_bytes) {
        (0, _) => "none".to_owned(),
        (nsid, None) => format!("{nsid} gone"),
        (nsid, Some(_)) => nsid.to_string(),
    };
    let cells = vec![
        named(name, f64::from(of.nsid)),
        bytes(of.size_bytes),
        rate(read.iops),
        bandwidth(read.bytes_per_s),
        percentile(read.latency.as_ref(), |latency| latency.p99_ns_max),
        rate(write.iops),
        bandwidth(write.bytes_per_s),
        percentile(write.latency.as_ref(), |latency| latency.p99_ns_max),
        rate(*iops),
        mean(latency.as_ref()),
        percentile(latency.as_ref(), |latency| latency.p50_ns_max),
        percentile(latency.as_ref(), |latency| latency.p999_ns_max),
        rate(of.load.errors_per_s),
        number(of.media_errors),
    ];
    Row { key: of.nsid.to_string(), cells, opens: Some(TargetList::Operations(nqn.to_owned(), of.nsid)) }
}

/// The stages of a namespace's commands, in the order of their columns.
const STAGES: [&str; 5] = ["storage", "limits", "receive", "buffer", "others"];

/// The part of the time that was spent on each stage.
fn shares(stages_percent: &Stages) -> [Cell; STAGES.len()] {
    let share = |stage| stages_percent.get(stage).copied().unwrap_or(0.0);
    let is_known = !stages_percent.is_empty();
    STAGES.map(|stage| shown(is_known.then(|| share(stage)), |share| format!("{share:.0} %")))
}

/// The stage that took most of the time.
fn longest_stage(stages_percent: &Stages) -> Cell {
    let longest = stages_percent.iter().max_by(|one, other| one.1.total_cmp(other.1));
    match longest {
        Some((stage, percent)) => named(format!("{stage} {percent:.0} %"), *percent),
        None => shown(None, |_| String::new()),
    }
}

/// The stages of commands of each size, where an operation has several. Counters have no rates by size.
fn size_rows(name: &str, flow: &Flow) -> Vec<TargetRow> {
    let row = |(size, stages): (&String, &Stages)| {
        let unknown = (1..OPERATIONS.len() - STAGES.len()).map(|_| shown(None, |_| String::new()));
        let title = words(&format!("{} {size}", name.replace('_', " ")));
        let cells = std::iter::once(title).chain(unknown).chain(shares(stages)).collect();
        Row { key: format!("{name} {size}"), cells, opens: None }
    };
    let sizes = flow.sizes_percent.iter().filter(|_| flow.sizes_percent.len() > 1);
    sizes.map(row).collect()
}

fn operation_row(name: &str, flow: &Flow) -> TargetRow {
    let latency = flow.latency.as_ref();
    let mut cells = vec![
        words(&name.replace('_', " ")),
        rate(flow.iops),
        bandwidth(flow.bytes_per_s),
        mean(latency),
        percentile(latency, |latency| latency.p50_ns_max),
        percentile(latency, |latency| latency.p90_ns_max),
        percentile(latency, |latency| latency.p99_ns_max),
        percentile(latency, |latency| latency.p999_ns_max),
    ];
    cells.extend(shares(&flow.stages_percent));
    Row { key: name.to_owned(), cells, opens: None }
}

fn controller_row(nqn: &str, of: &ControllerRates) -> TargetRow {
    let rtt_us = of.queues.iter().filter_map(|queue| queue.rtt_us).max();
    let retransmits = of.queues.iter().filter_map(|queue| queue.retransmits_per_s).reduce(|a, b| a + b);
    let cells = vec![
        words(&of.host_nqn),
        number(of.cntlid.into()),
        number(of.port.into()),
        words(if of.ready { "yes" } else { "no" }),
        number(of.queues.len() as u64),
        number(of.depth),
        rate(of.commands_per_s),
        bandwidth(of.received_bytes_per_s),
        bandwidth(of.sent_bytes_per_s),
        time_us(rtt_us),
        rate(retransmits),
        words(of.queues.first().and_then(|queue| queue.peer.as_deref()).unwrap_or("-")),
    ];
    Row { key: of.cntlid.to_string(), cells, opens: Some(TargetList::Queues(nqn.to_owned(), of.cntlid)) }
}

fn queue_row(of: &QueueRates) -> TargetRow {
    let name = if of.queue_id == 0 { "admin".to_owned() } else { of.queue_id.to_string() };
    let carrier = match (of.transport.as_deref(), of.subflows) {
        (None, _) => "-".to_owned(),
        (Some(transport), 0 | 1) => transport.to_owned(),
        (Some(transport), subflows) => format!("{transport}, {subflows}"),
    };
    let cells = vec![
        named(name, f64::from(of.queue_id)),
        number(of.reactor as u64),
        number(of.entries.into()),
        shown(of.depth.map(|depth| depth as f64), |depth| format!("{depth:.0}")),
        rate(of.commands_per_s),
        bandwidth(of.received_bytes_per_s),
        bandwidth(of.sent_bytes_per_s),
        longest_stage(&of.stages_percent),
        time_us(of.rtt_us),
        rate(of.retransmits_per_s),
        bytes(of.unread_bytes),
        bytes(of.unsent_bytes),
        words(&carrier),
        words(of.peer.as_deref().unwrap_or("-")),
    ];
    Row { key: of.queue_id.to_string(), cells, opens: None }
}

fn reactor_row(of: &ReactorRates) -> TargetRow {
    let per_round = match (of.events_per_s, of.rounds_per_s) {
        (Some(events), Some(rounds)) if rounds > 0.0 => Some(events / rounds),
        _ => None,
    };
    let cells = vec![
        named(of.number.to_string(), of.number as f64),
        shown(of.cpu.map(|cpu| cpu as f64), |cpu| format!("{cpu:.0}")),
        shown(of.busy_percent, |busy| format!("{busy:.1} %")),
        number(of.connections),
        rate(of.commands_per_s),
        rate(of.events_per_s),
        rate(of.rounds_per_s),
        shown(per_round, |events| format!("{events:.2}")),
        bytes(Some(of.buffer_bytes)),
    ];
    Row { key: of.number.to_string(), cells, opens: None }
}
