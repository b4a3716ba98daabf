//! The tables of `top`: for each place one can be at its columns, its rows, what a row leads to, and the order of rows.
//! Which of them is chosen is the view's, and how wide a column becomes is the screen's.

use std::cmp::Ordering;

use super::rates::{
    ControllerRates, Flow, Latency, NamespaceRates, QueueRates, Rates, ReactorRates, SubsystemRates,
};
use super::sample::UNBOUNDED;
use crate::report::table::Side;
use crate::report::units;

/// Where one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Subsystems,
    Reactors,
    /// The controllers of a subsystem.
    Controllers(String),
    /// The namespaces of a subsystem.
    Namespaces(String),
    /// The queues of a subsystem's controller.
    Queues(String, u16),
    /// What is done on a subsystem's namespace.
    Operations(String, u32),
}

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) side: Side,
    /// Letters of its cells; the first column takes what is left.
    pub(crate) width: u16,
    /// Where there is no room for all, those with the highest rank go first.
    pub(crate) rank: u8,
}

const fn column(title: &'static str, side: Side, width: u16, rank: u8) -> Column {
    Column { title, side, width, rank }
}

/// What a cell says, and where it stands among others of its column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    order: Order,
}

#[derive(Clone, Debug, PartialEq)]
enum Order {
    Number(f64),
    Text(String),
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// What stays the same when the row moves.
    pub(crate) key: String,
    pub(crate) cells: Vec<Cell>,
    /// What Enter shows.
    pub(crate) opens: Option<Place>,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) title: String,
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row>,
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

impl Place {
    /// The other list of the same thing, which Tab shows.
    pub(crate) fn sibling(&self) -> Option<Self> {
        match self {
            Self::Subsystems => Some(Self::Reactors),
            Self::Reactors => Some(Self::Subsystems),
            Self::Controllers(nqn) => Some(Self::Namespaces(nqn.clone())),
            Self::Namespaces(nqn) => Some(Self::Controllers(nqn.clone())),
            Self::Queues(..) | Self::Operations(..) => None,
        }
    }

    pub(crate) fn columns(&self) -> &'static [Column] {
        match self {
            Self::Subsystems => SUBSYSTEMS,
            Self::Reactors => REACTORS,
            Self::Controllers(_) => CONTROLLERS,
            Self::Namespaces(_) => NAMESPACES,
            Self::Queues(..) => QUEUES,
            Self::Operations(..) => OPERATIONS,
        }
    }

    /// The column rows are sorted by at first, and whether the largest is first: the busiest, or else by number.
    pub(crate) fn first_order(&self) -> (usize, bool) {
        match self {
            Self::Namespaces(_) | Self::Queues(..) | Self::Reactors => (0, false),
            Self::Subsystems | Self::Operations(..) | Self::Controllers(_) => {
                let busiest = self.columns().iter().position(|column| column.title.ends_with("IOPS"));
                (busiest.unwrap_or(0), true)
            }
        }
    }
}

impl Grid {
    /// The table of a place, in the target's own order; nothing when what it is about has gone.
    pub(crate) fn of(place: &Place, rates: &Rates) -> Option<Self> {
        let columns = place.columns();
        let (title, rows): (String, Vec<Row>) = match place {
            Place::Subsystems => ("subsystems".into(), rates.subsystems.iter().map(subsystem_row).collect()),
            Place::Reactors => ("reactors".into(), rates.reactors.iter().map(reactor_row).collect()),
            Place::Controllers(nqn) => {
                let rows = rates.subsystem(nqn)?.controllers.iter();
                (format!("controllers of {nqn}"), rows.map(|row| controller_row(nqn, row)).collect())
            }
            Place::Namespaces(nqn) => {
                let rows = rates.subsystem(nqn)?.namespaces.iter();
                (format!("namespaces of {nqn}"), rows.map(|row| namespace_row(nqn, row)).collect())
            }
            Place::Queues(nqn, cntlid) => {
                let mut controllers = rates.subsystem(nqn)?.controllers.iter();
                let controller = controllers.find(|controller| controller.cntlid == *cntlid)?;
                let title = format!("queues of controller {cntlid}, host {}", controller.host_nqn);
                (title, controller.queues.iter().map(queue_row).collect())
            }
            Place::Operations(nqn, nsid) => {
                let mut namespaces = rates.subsystem(nqn)?.namespaces.iter();
                let namespace = namespaces.find(|namespace| namespace.nsid == *nsid)?;
                let rows = namespace.operations.iter().map(|(name, flow)| operation_row(name, flow));
                (format!("commands on namespace {nsid} of {nqn}"), rows.collect())
            }
        };
        Some(Self { title, columns, rows })
    }

    /// Puts the rows in the order of a column; what is equal there is in the order of the first.
    pub(crate) fn sort(&mut self, column: usize, descending: bool) {
        self.rows.sort_by(|a, b| {
            let by = |column: usize| match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.order.compare(&b.order),
                _ => Ordering::Equal,
            };
            let chosen = if descending { by(column).reverse() } else { by(column) };
            chosen.then_with(|| by(0))
        });
    }
}

impl Order {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

fn words(text: &str) -> Cell {
    Cell { text: text.to_owned(), order: Order::Text(text.to_owned()) }
}

/// A number as `show` writes it; what is not known comes before all numbers.
fn shown(value: Option<f64>, show: impl Fn(f64) -> String) -> Cell {
    match value {
        Some(value) => Cell { text: show(value), order: Order::Number(value) },
        None => Cell { text: "-".to_owned(), order: Order::Number(f64::NEG_INFINITY) },
    }
}

fn number(value: u64) -> Cell {
    shown(Some(value as f64), |_| value.to_string())
}

/// A rate; one that is small is not rounded to nothing.
fn rate(value: Option<f64>) -> Cell {
    shown(
        value,
        |value| if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { units::count(value) },
    )
}

fn bandwidth(value: Option<f64>) -> Cell {
    shown(value, units::bandwidth)
}

fn bytes(value: Option<u64>) -> Cell {
    shown(value.map(|bytes| bytes as f64), binary)
}

/// Bytes in the units that sizes have: `64.0 MiB`.
fn binary(bytes: f64) -> String {
    let (scale, unit) = match bytes {
        bytes if bytes < 1024.0 => return format!("{bytes:.0}"),
        bytes if bytes < 1_048_576.0 => (10, "K"),
        bytes if bytes < 1_073_741_824.0 => (20, "M"),
        bytes if bytes < 1_099_511_627_776.0 => (30, "G"),
        _ => (40, "T"),
    };
    let value = bytes / (1_u64 << scale) as f64;
    if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

fn mean(latency: Option<&Latency>) -> Cell {
    shown(latency.map(|latency| latency.mean_ns), units::time_ns)
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

fn subsystem_row(of: &SubsystemRates) -> Row {
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
    Row { key: of.nqn.clone(), cells, opens: Some(Place::Controllers(of.nqn.clone())) }
}

fn namespace_row(nqn: &str, of: &NamespaceRates) -> Row {
    let Flow { iops, latency, .. } = &of.load.total;
    let (read, write) = (&of.load.read, &of.load.write);
    let name = match (of.nsid, of.size_bytes) {
        (0, _) => "none".to_owned(),
        (nsid, None) => format!("{nsid} gone"),
        (nsid, Some(_)) => nsid.to_string(),
    };
    let cells = vec![
        Cell { text: name, order: Order::Number(f64::from(of.nsid)) },
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
    Row { key: of.nsid.to_string(), cells, opens: Some(Place::Operations(nqn.to_owned(), of.nsid)) }
}

fn operation_row(name: &str, flow: &Flow) -> Row {
    let latency = flow.latency.as_ref();
    let cells = vec![
        words(&name.replace('_', " ")),
        rate(flow.iops),
        bandwidth(flow.bytes_per_s),
        mean(latency),
        percentile(latency, |latency| latency.p50_ns_max),
        percentile(latency, |latency| latency.p90_ns_max),
        percentile(latency, |latency| latency.p99_ns_max),
        percentile(latency, |latency| latency.p999_ns_max),
    ];
    Row { key: name.to_owned(), cells, opens: None }
}

fn controller_row(nqn: &str, of: &ControllerRates) -> Row {
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
    Row { key: of.cntlid.to_string(), cells, opens: Some(Place::Queues(nqn.to_owned(), of.cntlid)) }
}

fn time_us(value: Option<u64>) -> Cell {
    shown(value.map(|us| us as f64 * 1e3), units::time_ns)
}

fn queue_row(of: &QueueRates) -> Row {
    let name = if of.queue_id == 0 { "admin".to_owned() } else { of.queue_id.to_string() };
    let carrier = match (of.transport.as_deref(), of.subflows) {
        (None, _) => "-".to_owned(),
        (Some(transport), 0 | 1) => transport.to_owned(),
        (Some(transport), subflows) => format!("{transport}, {subflows}"),
    };
    let cells = vec![
        Cell { text: name, order: Order::Number(f64::from(of.queue_id)) },
        number(of.reactor as u64),
        number(of.entries.into()),
        shown(of.depth.map(|depth| depth as f64), |depth| format!("{depth:.0}")),
        rate(of.commands_per_s),
        bandwidth(of.received_bytes_per_s),
        bandwidth(of.sent_bytes_per_s),
        time_us(of.rtt_us),
        rate(of.retransmits_per_s),
        bytes(of.unread_bytes),
        bytes(of.unsent_bytes),
        words(&carrier),
        words(of.peer.as_deref().unwrap_or("-")),
    ];
    Row { key: of.queue_id.to_string(), cells, opens: None }
}

fn reactor_row(of: &ReactorRates) -> Row {
    let per_round = match (of.events_per_s, of.rounds_per_s) {
        (Some(events), Some(rounds)) if rounds > 0.0 => Some(events / rounds),
        _ => None,
    };
    let cells = vec![
        Cell { text: of.number.to_string(), order: Order::Number(of.number as f64) },
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
