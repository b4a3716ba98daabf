//! Lists of the view of an initiator: columns, rows, and the list that a row opens. The view owns
//! the selection, and the layout the widths.

use chart::units;

use super::super::grid::{
    Cell, Column, Grid, List, Row, bandwidth, busiest_first, bytes, column, named, number, rate, shown,
    time_us, words,
};
use super::rates::{ConnectionRates, PathRates, Rates, ShareRates, WorkerRates};
use crate::bench::histogram::LatencyNs;
use crate::report::table::Side;

/// List of the view. Paths and workers are identified by their number, which stays for the whole
/// run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitiatorList {
    Paths,
    Workers,
    /// The connections of a path.
    PathConnections(usize),
    /// Shares of the workers on a path.
    Shares(usize),
    /// The connections of a worker.
    WorkerConnections(usize),
}

use Side::{Left, Right};

const PATHS: &[Column] = &[
    column("PATH", Left, 18, 0),
    column("STATE", Left, 12, 1),
    column("ANA", Left, 15, 6),
    column("IOPS", Right, 6, 0),
    column("BANDWIDTH", Right, 9, 0),
    column("SHARE", Right, 7, 2),
    column("MEAN", Right, 7, 4),
    column("WAIT", Right, 7, 8),
    column("SEND", Right, 7, 8),
    column("TARGET", Right, 7, 7),
    column("RECV", Right, 7, 8),
    column("DEPTH", Right, 5, 3),
    column("RTT", Right, 7, 3),
    column("RETR/S", Right, 6, 5),
    column("AGAIN", Right, 5, 7),
    column("RECV-Q", Right, 6, 9),
    column("SEND-Q", Right, 6, 8),
    column("QUEUES", Right, 6, 10),
    column("RECONNECTS", Right, 10, 11),
];
const WORKERS: &[Column] = &[
    column("WORKER", Right, 6, 0),
    column("QUEUES", Right, 6, 3),
    column("DEPTH", Right, 5, 1),
    column("IOPS", Right, 6, 0),
    column("BANDWIDTH", Right, 9, 0),
    column("SHARE", Right, 7, 2),
    column("MEAN", Right, 7, 2),
    column("P50", Right, 7, 1),
    column("P99", Right, 7, 0),
    column("P99.9", Right, 7, 1),
];
const SHARES: &[Column] = &[
    column("WORKER", Right, 6, 0),
    column("QUEUES", Right, 6, 2),
    column("DEPTH", Right, 5, 0),
    column("IOPS", Right, 6, 0),
    column("BANDWIDTH", Right, 9, 0),
    column("SHARE", Right, 7, 1),
    column("MEAN", Right, 7, 0),
    column("AGAIN", Right, 5, 3),
];
const CONNECTIONS: &[Column] = &[
    column("QUEUE", Right, 5, 0),
    column("WORKER", Right, 6, 3),
    column("DEPTH", Right, 5, 0),
    column("IN", Right, 9, 1),
    column("OUT", Right, 9, 1),
    column("RTT", Right, 7, 0),
    column("RETR/S", Right, 6, 2),
    column("RECV-Q", Right, 6, 4),
    column("SEND-Q", Right, 6, 4),
    column("CWND", Right, 5, 7),
    column("CARRIED BY", Left, 10, 8),
    column("CONTROL", Left, 8, 9),
    column("LOCAL", Left, 21, 6),
    column("PATH", Left, 21, 5),
];

impl List for InitiatorList {
    type Known = Rates;
    const OPENS: &'static str = "open it: a path's connections, or a worker's";
    const OTHER: &'static str = "the other list: workers instead of paths, of a path its workers";
    const ENDS: &'static str = "end the run, like Ctrl-C: what was measured is reported";
    const NOTES: &'static [&'static str] = &[
        "Rates are over the last second; a path's commands are counted during the ramp",
        "too. Of their time, WAIT is for a queue, SEND until they are in the socket,",
        "TARGET at the target and in the network, RECV until they are received. DEPTH:",
        "commands in flight. AGAIN: commands that were resent since the beginning. IN and",
        "OUT, RTT, RETR/S, RECV-Q, SEND-Q, CWND (segments): the kernel's values.",
    ];

    fn first() -> Self {
        Self::Paths
    }

    fn columns(&self) -> &'static [Column] {
        match self {
            Self::Paths => PATHS,
            Self::Workers => WORKERS,
            Self::PathConnections(_) | Self::WorkerConnections(_) => CONNECTIONS,
            Self::Shares(_) => SHARES,
        }
    }

    fn first_order(&self) -> (usize, bool) {
        match self {
            Self::Paths | Self::Shares(_) => busiest_first(self.columns()),
            Self::Workers | Self::PathConnections(_) | Self::WorkerConnections(_) => (0, false),
        }
    }

    fn sibling(&self) -> Option<Self> {
        match *self {
            Self::Paths => Some(Self::Workers),
            Self::Workers => Some(Self::Paths),
            Self::PathConnections(path) => Some(Self::Shares(path)),
            Self::Shares(path) => Some(Self::PathConnections(path)),
            Self::WorkerConnections(_) => None,
        }
    }

    fn grid(&self, rates: &Rates) -> Option<Grid<Self>> {
        let (title, rows): (String, Vec<Row<Self>>) = match *self {
            Self::Paths => ("paths".into(), rates.paths.iter().enumerate().map(path_row).collect()),
            Self::Workers => ("workers".into(), rates.workers.iter().map(worker_row).collect()),
            Self::PathConnections(at) => {
                let path = rates.paths.get(at)?;
                let rows = path.connections.iter().map(|connection| connection_row(at, path, connection));
                (format!("connections of path {}", path.status.address), rows.collect())
            }
            Self::Shares(at) => {
                let path = rates.paths.get(at)?;
                (
                    format!("workers on path {}", path.status.address),
                    path.shares.iter().map(share_row).collect(),
                )
            }
            Self::WorkerConnections(worker) => {
                rates.workers.get(worker)?;
                let of_path = |(at, path): (usize, &PathRates)| {
                    let of_worker = path.connections.iter().filter(|connection| connection.worker == worker);
                    of_worker.map(|connection| connection_row(at, path, connection)).collect::<Vec<_>>()
                };
                let rows = rates.paths.iter().enumerate().flat_map(of_path);
                (format!("connections of worker {worker}"), rows.collect())
            }
        };
        Some(Grid { title, columns: self.columns(), rows })
    }
}

type InitiatorRow = Row<InitiatorList>;

fn percent(value: Option<f64>) -> Cell {
    shown(value, |percent| format!("{percent:.1} %"))
}

fn time_ns(value: Option<f64>) -> Cell {
    shown(value, units::time_ns)
}

fn quantile(latency: Option<&LatencyNs>, of: fn(&LatencyNs) -> u64) -> Cell {
    time_ns(latency.map(|latency| of(latency) as f64))
}

fn path_row((at, of): (usize, &PathRates)) -> InitiatorRow {
    let [waiting, sending, target, receiving] = match of.flow.stages_percent {
        Some(shares) => shares.map(Some),
        None => [None; 4],
    };
    let cells = vec![
        words(&of.status.address.to_string()),
        words(&format!("{:?}", of.status.state).to_lowercase()),
        words(of.status.ana),
        rate(of.flow.iops),
        bandwidth(of.flow.bytes_per_s),
        percent(of.flow.share_percent),
        time_ns(of.flow.mean_ns),
        percent(waiting),
        percent(sending),
        percent(target),
        percent(receiving),
        number(of.in_flight),
        time_us(of.rtt_us()),
        rate(of.retransmits_per_s()),
        number(of.requeued),
        bytes(of.unread_bytes()),
        bytes(of.unsent_bytes()),
        number(of.connections.len() as u64),
        number(of.status.reconnects),
    ];
    Row { key: at.to_string(), cells, opens: Some(InitiatorList::PathConnections(at)) }
}

fn worker_row(of: &WorkerRates) -> InitiatorRow {
    let latency = of.latency.as_ref();
    let cells = vec![
        number(of.number as u64),
        number(of.connections),
        number(of.in_flight),
        rate(of.flow.iops),
        bandwidth(of.flow.bytes_per_s),
        percent(of.flow.share_percent),
        time_ns(of.flow.mean_ns),
        quantile(latency, |latency| latency.p50),
        quantile(latency, |latency| latency.p99),
        quantile(latency, |latency| latency.p99_9),
    ];
    let opens = Some(InitiatorList::WorkerConnections(of.number));
    Row { key: of.number.to_string(), cells, opens }
}

fn share_row(of: &ShareRates) -> InitiatorRow {
    let cells = vec![
        number(of.worker as u64),
        number(of.connections),
        number(of.in_flight),
        rate(of.flow.iops),
        bandwidth(of.flow.bytes_per_s),
        percent(of.flow.share_percent),
        time_ns(of.flow.mean_ns),
        number(of.requeued),
    ];
    Row { key: of.worker.to_string(), cells, opens: None }
}

fn connection_row(at: usize, path: &PathRates, of: &ConnectionRates) -> InitiatorRow {
    let stream = of.stream.as_ref();
    let carrier = stream.map_or("-".to_owned(), |stream| match stream.subflows.len() {
        0 | 1 => stream.transport.to_string(),
        subflows => format!("{}, {subflows}", stream.transport),
    });
    let local = stream.and_then(|stream| stream.subflows.first()).map(|subflow| subflow.local.to_string());
    let cells = vec![
        named(of.queue_id.to_string(), f64::from(of.queue_id)),
        number(of.worker as u64),
        number(of.outstanding),
        bandwidth(of.received_bytes_per_s),
        bandwidth(of.acknowledged_bytes_per_s),
        time_us(stream.map(|stream| stream.rtt_us.into())),
        rate(of.retransmits_per_s),
        bytes(stream.map(|stream| stream.unread_bytes)),
        bytes(stream.map(|stream| stream.unsent_bytes)),
        shown(stream.map(|stream| stream.congestion_window as f64), |segments| format!("{segments:.0}")),
        words(&carrier),
        words(stream.map_or("-", |stream| stream.congestion.as_str())),
        words(local.as_deref().unwrap_or("-")),
        words(&path.status.address.to_string()),
    ];
    Row { key: format!("{at} {}", of.queue_id), cells, opens: None }
}

#[cfg(test)]
mod tests {
    use super::super::super::view::View;
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_place_has_rows_of_its_columns_and_a_way_there() {
        let rates = fixture::rates(4);
        for (list, rows) in [
            (InitiatorList::Paths, 4),
            (InitiatorList::Workers, 2),
            (InitiatorList::PathConnections(3), 2),
            (InitiatorList::Shares(3), 2),
            (InitiatorList::WorkerConnections(1), 4),
        ] {
            let grid = list.grid(&rates).unwrap();
            assert_eq!(grid.rows.len(), rows, "{list:?}");
            assert!(grid.rows.iter().all(|row| row.cells.len() == grid.columns.len()), "{list:?}");
            let mut keys: Vec<_> = grid.rows.iter().map(|row| &row.key).collect();
            keys.dedup();
            assert_eq!(keys.len(), rows, "{list:?}: keys of rows are unique");
            assert!(list.first_order().0 < grid.columns.len());
        }
        for gone in
            [InitiatorList::PathConnections(4), InitiatorList::Shares(4), InitiatorList::WorkerConnections(2)]
        {
            assert!(gone.grid(&rates).is_none());
        }
        let mut view = View::<InitiatorList>::new();
        view.go(1, Some(&rates));
        view.open(Some(&rates));
        view.turn();
        assert!(matches!(view.level().list, InitiatorList::Shares(1..4)), "{:?}", view.level().list);
        view.back();
        view.turn();
        view.open(Some(&rates));
        assert_eq!(view.level().list, InitiatorList::WorkerConnections(0));
        view.turn();
        view.open(Some(&rates));
        assert_eq!(view.level().list, InitiatorList::WorkerConnections(0), "it leads nowhere else");
    }
}
