//! Role of a connection: the kind of queue that it is, or the step that it has come to on its way.

use nvme::SubmissionEntry;

use super::securing::Securing;
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
    /// TLS has not been ruled out or established.
    Securing(Box<Securing>),
    /// Not connected yet: the Connect whose data is on its way.
    New(Intake),
    /// Connected, but the host has to authenticate first. Until then the queue has no controller
    /// and accepts no other commands.
    Unproved(Box<Unproved>),
    /// Admin queue of a host that has authenticated without TLS to generate a TLS key, and is
    /// expected to reconnect with it.
    Preparing(Box<AdminCommands>),
    Admin(Box<AdminCommands>),
    Io(Box<Commands>),
    /// No longer a queue, if it `was_queue`: waits for the host to close the connection.
    Left {
        was_queue: bool,
    },
}

impl Role {
    /// Commands of an admin queue.
    pub(super) fn admin(&self) -> Option<&AdminCommands> {
        match self {
            Self::Admin(commands) | Self::Preparing(commands) => Some(commands),
            _ => None,
        }
    }

    /// The same, to be worked on.
    pub(super) fn admin_mut(&mut self) -> Option<&mut AdminCommands> {
        match self {
            Self::Admin(commands) | Self::Preparing(commands) => Some(commands),
            _ => None,
        }
    }

    /// True once a Connect has succeeded.
    pub(super) const fn is_queue(&self) -> bool {
        match self {
            Self::Io(_) | Self::Admin(_) | Self::Preparing(_) => true,
            Self::Left { was_queue } => *was_queue,
            Self::Securing(_) | Self::New(_) | Self::Unproved(_) => false,
        }
    }
}
