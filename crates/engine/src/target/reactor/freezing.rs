//! Progress of quiescing a reactor's queues for another process.

use std::collections::BTreeSet;

use crate::target::messaging::Freeze;

/// Progress of quiescing a reactor's queues.
#[derive(Debug)]
pub(super) struct Freezing {
    pub(super) order: Freeze,
    /// Hosts of which a connection was closed, with their addresses.
    pub(super) disconnected: BTreeSet<String>,
    /// True once the state of the queues has been reported.
    pub(super) is_reported: bool,
}
