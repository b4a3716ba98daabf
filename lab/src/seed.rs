//! The figures of the experiment that started this: NVMe over TCP and over MPTCP on four links of 1 Gbit/s, by Geliang
//! Tang, linux-nvme, May 2026. It keeps out how they compare with ours.

use crate::cell::{Policy, Transport};
use crate::scenario::Scenario;

/// Cell of the seed's table. All have four paths.
pub(crate) struct Row {
    pub(crate) transport: Transport,
    pub(crate) policy: Policy,
    pub(crate) scenario: Scenario,
    /// Megabytes (10^6 bytes) per second.
    pub(crate) read_mb_s: f64,
    pub(crate) write_mb_s: f64,
}

/// The seed's table, in its order.
pub(crate) const TABLE: [Row; 10] = [
    row(Transport::Tcp, Policy::Numa, Scenario::Lossless, 119.0, 119.0),
    row(Transport::Mptcp, Policy::Numa, Scenario::Lossless, 467.0, 465.0),
    row(Transport::Tcp, Policy::RoundRobin, Scenario::Lossless, 478.0, 477.0),
    row(Transport::Mptcp, Policy::RoundRobin, Scenario::Lossless, 467.0, 467.0),
    row(Transport::Tcp, Policy::QueueDepth, Scenario::Lossless, 478.0, 477.0),
    row(Transport::Mptcp, Policy::QueueDepth, Scenario::Lossless, 467.0, 467.0),
    row(Transport::Tcp, Policy::RoundRobin, Scenario::Lossy, 111.0, 103.0),
    row(Transport::Mptcp, Policy::RoundRobin, Scenario::Lossy, 447.0, 449.0),
    row(Transport::Tcp, Policy::QueueDepth, Scenario::Lossy, 176.0, 134.0),
    row(Transport::Mptcp, Policy::QueueDepth, Scenario::Lossy, 445.0, 434.0),
];

const fn row(
    transport: Transport,
    policy: Policy,
    scenario: Scenario,
    read_mb_s: f64,
    write_mb_s: f64,
) -> Row {
    Row { transport, policy, scenario, read_mb_s, write_mb_s }
}

/// The seed's cell with these properties, if it has it.
pub(crate) fn find(transport: Transport, policy: Policy, scenario: Scenario) -> Option<&'static Row> {
    TABLE.iter().find(|row| (row.transport, row.policy, row.scenario) == (transport, policy, scenario))
}
