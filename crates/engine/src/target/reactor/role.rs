//! What the queue of a connection is for.

use crate::target::admin::{AdminCommands, Intake};
use crate::target::io::Commands;

/// What the queue is for, once Connect has said so.
pub(super) enum Role {
    /// Not connected yet: the Connect whose data is on its way.
    New(Intake),
    Admin(Box<AdminCommands>),
    Io(Box<Commands>),
    /// Nothing any longer: it has been left, and waits for the host to close it.
    Left,
}
