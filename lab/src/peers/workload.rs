//! Workload that every target gets alike: reads or writes, block size, commands outstanding,
//! connections, digests. It keeps out the options of each host.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Direction of the data. All access is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rw {
    #[value(name = "randread")]
    RandRead,
    #[value(name = "randwrite")]
    RandWrite,
}

/// Workload of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) rw: Rw,
    pub(crate) block_bytes: u32,
    /// Commands outstanding, over all connections.
    pub(crate) depth: u32,
    pub(crate) connections: u32,
    /// Of headers and of data.
    pub(crate) digests: bool,
}

/// Workloads that are measured by default.
pub(crate) const USUAL: [Workload; 9] = [
    usual(Rw::RandRead, 4, 1),
    usual(Rw::RandRead, 4, 32),
    usual(Rw::RandRead, 4, 128),
    usual(Rw::RandWrite, 4, 1),
    usual(Rw::RandWrite, 4, 32),
    usual(Rw::RandWrite, 4, 128),
    usual(Rw::RandRead, 128, 32),
    usual(Rw::RandWrite, 128, 32),
    Workload { digests: true, ..usual(Rw::RandRead, 4, 32) },
];

const fn usual(rw: Rw, block_kib: u32, depth: u32) -> Workload {
    Workload { rw, block_bytes: block_kib << 10, depth, connections: 1, digests: false }
}

impl Workload {
    /// Commands outstanding on each connection.
    pub(crate) const fn depth_per_connection(&self) -> u32 {
        self.depth / self.connections
    }

    /// True if every connection has the same number of commands, and at least one.
    pub(crate) const fn is_even(&self) -> bool {
        self.depth.is_multiple_of(self.connections)
    }

    pub(crate) const fn is_write(&self) -> bool {
        matches!(self.rw, Rw::RandWrite)
    }

    /// fio's word for it, which is ours and SPDK's too.
    pub(crate) const fn word(&self) -> &'static str {
        match self.rw {
            Rw::RandRead => "randread",
            Rw::RandWrite => "randwrite",
        }
    }

    /// For people: `4 KiB random read, depth 32, 4 connections, digests`.
    pub(crate) fn name(&self) -> String {
        let size = chart::units::bytes(f64::from(self.block_bytes));
        let kind = if self.is_write() { "write" } else { "read" };
        let mut name = format!("{size} random {kind}, depth {}", self.depth);
        if self.connections > 1 {
            name += &format!(", {} connections", self.connections);
        }
        if self.digests {
            name += ", digests";
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_where_workloads_do() {
        let names: std::collections::BTreeSet<String> = USUAL.iter().map(Workload::name).collect();
        assert_eq!(names.len(), USUAL.len());
        let wide = Workload { connections: 16, digests: true, ..USUAL[2] };
        assert_eq!(wide.name(), "4 KiB random read, depth 128, 16 connections, digests");
        assert_eq!((wide.depth_per_connection(), wide.is_even()), (8, true));
        assert!(USUAL.iter().all(Workload::is_even));
        assert!(!Workload { connections: 4, ..USUAL[0] }.is_even());
    }
}
