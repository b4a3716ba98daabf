//! State of a connection while TLS has not been ruled out or established.

use std::sync::Arc;

use crate::target::messaging::PendingHandshake;

/// State of a connection that may turn out to use TLS, or whose TLS handshake is under way.
#[derive(Default)]
pub(super) struct Securing {
    /// Received bytes that were not processed.
    pub(super) bytes: Vec<u8>,
    pub(super) stage: Stage,
    /// Shared with the worker's jobs, which are skipped once it has been dropped.
    pub(super) waits: Arc<()>,
    /// True if the connection wants a turn: bytes received while the worker was busy are not
    /// reported again.
    pub(super) is_due: bool,
}

#[derive(Default)]
pub(super) enum Stage {
    /// The first bytes are awaited.
    #[default]
    First,
    /// The worker has it.
    Working,
    /// The host's next flight is awaited.
    Flight(Box<PendingHandshake>),
    /// The handshake is complete: bytes received after it are processed next.
    Complete,
}

impl Securing {
    /// True if nothing has been received.
    pub(super) const fn is_untouched(&self) -> bool {
        matches!(self.stage, Stage::First) && self.bytes.is_empty()
    }

    /// True if the connection wants a turn.
    pub(super) const fn wants_turn(&self) -> bool {
        self.is_due
    }
}
