//! Role of a connection: the kind of queue that it is.

use nvme::SubmissionEntry;

use crate::target::admin::{AdminCommands, Intake};
use crate::target::fabric::PromisedId;
use crate::target::io::Commands;

/// Connect of a queue whose host still has to authenticate.
pub(super) struct Unproved {
    /// The Connect command and its data.
    pub(super) connect: SubmissionEntry,
    pub(super) data: Vec<u8>,
    /// The identifier of the controller to come, of an admin queue.
    pub(super) promised: Option<PromisedId>,
}

/// Role of a connection, which its Connect decides.
pub(super) enum Role {
    /// Not connected yet: the Connect whose data is on its way.
    New(Intake),
    /// Connected, but the host has to authenticate first. Until then the queue has no controller
    /// and accepts no other commands.
    Unproved(Box<Unproved>),
    Admin(Box<AdminCommands>),
    Io(Box<Commands>),
    /// No longer a queue: waits for the host to close the connection.
    Left,
}
