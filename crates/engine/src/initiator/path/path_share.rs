//! Work of one thread on one path, as it is reported.

use super::path_connections::ConnectionReport;
use super::stage::StageLatencies;

/// Work of one thread on one path.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PathShare {
    /// Commands completed, and their bytes.
    pub commands: u64,
    /// Bytes of data of these commands.
    pub bytes: u64,
    /// Sum of the commands' times, in nanoseconds.
    pub latency_ns: u64,
    /// Stages on which the commands' time was spent, from when they were taken.
    pub stages: StageLatencies,
    /// Commands that were sent again elsewhere.
    pub requeued: u64,
    /// Commands given to it and not completed.
    pub in_flight: u32,
    /// Connections of the path.
    pub connections: Vec<ConnectionReport>,
}
