//! Data of each path of a run, as text and as JSON. The workers measure it.

use chart::units;
use engine::initiator::{ConnectionReport, PathShare, PathStatus};
use serde::Serialize;

use super::stages::StagesReport;
use super::table::{Side, Table};

/// A path and all that was done on it.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct PathReport {
    #[serde(flatten)]
    pub status: PathStatus,
    /// Commands completed on it, their bytes, and which part of all commands they are.
    pub ios: u64,
    pub bytes: u64,
    pub share_percent: f64,
    /// Mean time of its commands.
    pub(crate) lat_mean_ns: f64,
    /// Time of the path's commands by stage during the measurement.
    pub stages: Option<StagesReport>,
    /// Commands that were sent again, on this path or another.
    pub(crate) requeued: u64,
    /// Commands given to it and not completed.
    pub(crate) in_flight: u64,
    pub connections: Vec<ConnectionReport>,
}

impl PathReport {
    /// All paths, each with what every worker did there.
    pub fn all(paths: &[(PathStatus, Vec<PathShare>)]) -> Vec<Self> {
        let total: u64 = paths.iter().flat_map(|(_, shares)| shares).map(|share| share.commands).sum();
        paths.iter().map(|(status, shares)| Self::new(status, shares, total)).collect()
    }

    fn new(status: &PathStatus, shares: &[PathShare], total: u64) -> Self {
        let sum = |of: fn(&PathShare) -> u64| shares.iter().map(of).sum::<u64>();
        let ios = sum(|share| share.commands);
        let over = |value: f64, by: u64| if by > 0 { value / by as f64 } else { 0.0 };
        Self {
            status: status.clone(),
            ios,
            bytes: sum(|share| share.bytes),
            share_percent: over(100.0 * ios as f64, total),
            lat_mean_ns: over(sum(|share| share.latency_ns) as f64, ios),
            stages: None,
            requeued: sum(|share| share.requeued),
            in_flight: sum(|share| u64::from(share.in_flight)),
            connections: shares.iter().flat_map(|share| share.connections.clone()).collect(),
        }
    }

    /// Segments that were sent again on its connections.
    fn retransmits(&self) -> u64 {
        self.connections
            .iter()
            .filter_map(|connection| connection.stream.as_ref())
            .map(|s| s.retransmits)
            .sum()
    }
}

/// The paths as a table.
pub fn table(paths: &[PathReport]) -> Table {
    let mut table = Table::new(&[
        ("path", Side::Left),
        ("state", Side::Left),
        ("ANA", Side::Left),
        ("share", Side::Right),
        ("mean", Side::Right),
        ("resent", Side::Right),
        ("reconnects", Side::Right),
        ("retrans", Side::Right),
    ]);
    for path in paths {
        table.row(vec![
            path.status.address.to_string(),
            format!("{:?}", path.status.state).to_lowercase(),
            path.status.ana.to_owned(),
            format!("{:.1} %", path.share_percent),
            units::time_ns(path.lat_mean_ns),
            units::grouped(path.requeued),
            units::grouped(path.status.reconnects),
            units::grouped(path.retransmits()),
        ]);
    }
    table
}
