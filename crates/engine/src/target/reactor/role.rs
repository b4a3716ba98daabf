//! What the queue of a connection is for.

use nvme::SubmissionEntry;

use crate::target::admin::{AdminCommands, Intake};
use crate::target::fabric::PromisedId;
use crate::target::io::Commands;

/// What a queue becomes once its host has authenticated.
pub(super) struct Unproved {
    /// Its Connect, and the data of it.
    pub(super) connect: SubmissionEntry,
    pub(super) data: Vec<u8>,
    /// The identifier of the controller to come, of an admin queue.
    pub(super) promised: Option<PromisedId>,
}

/// What the queue is for, once Connect has said so.
pub(super) enum Role {
    /// Not connected yet: the Connect whose data is on its way.
    New(Intake),
    /// Connected, but its host has to authenticate first; until then it is nobody's and takes nothing.
    Unproved(Box<Unproved>),
    Admin(Box<AdminCommands>),
    Io(Box<Commands>),
    /// Nothing any longer: it has been left, and waits for the host to close it.
    Left,
}
