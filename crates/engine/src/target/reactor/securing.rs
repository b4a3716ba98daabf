//! What a connection has as long as it is not known whether it is TLS, or while its handshake is under way.

use std::sync::Arc;

use crate::target::messaging::PendingHandshake;

/// A connection of which it is not known yet whether it is TLS, or whose handshake is under way.
#[derive(Default)]
pub(super) struct Securing {
    /// What has come and was not taken.
    pub(super) bytes: Vec<u8>,
    pub(super) stage: Stage,
    /// What the worker's jobs look at to know whether somebody waits for them.
    pub(super) waits: Arc<()>,
    /// Whether it wants a turn: what came while the worker was busy was reported then.
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
    /// It is complete: what has come behind it is taken next.
    Complete,
}

impl Securing {
    /// Whether nothing has come.
    pub(super) const fn is_untouched(&self) -> bool {
        matches!(self.stage, Stage::First) && self.bytes.is_empty()
    }

    /// Whether it wants a turn.
    pub(super) const fn wants_turn(&self) -> bool {
        self.is_due
    }
}
