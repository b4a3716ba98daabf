//! What a reactor knows of the rest that its queues come to for another process.

use crate::target::messaging::Freeze;

/// The rest that a reactor's queues come to.
#[derive(Debug)]
pub(super) struct Freezing {
    pub(super) order: Freeze,
    /// Whether it has been said how they are.
    pub(super) is_told: bool,
}
