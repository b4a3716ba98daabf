//! A command of a thread's queues on all paths, and the event that it waits for while it is held.

use nvme::SubmissionEntry;

use crate::initiator::Data;
use crate::ring::{Buffer, Moment};

/// A command between `submit` and its completion.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) entry: SubmissionEntry,
    pub(super) user: u64,
    /// Data while no queue has it.
    pub(super) data: Data,
    /// Set if its data goes to the target.
    pub(super) sends: bool,
    pub(super) class: usize,
    pub(super) length: u32,
    /// Times it has met a passing error.
    pub(super) retries: u8,
    /// Time when it was taken, when it was last given to a path, and when to a queue of that.
    pub(super) taken: Moment,
    pub(super) sent: Moment,
    pub(super) queued: Moment,
    /// Number of commands that the path then had.
    pub(super) ahead: u32,
    /// Set once its user is gone: it is not sent again.
    pub(super) is_cancelled: bool,
}

/// Event that a held command waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// Command whose answer was lost with this association of a path, which has to quiesce.
    AtRest(usize, u64),
    /// The controllers of an earlier process have to quiesce, or lost ones where a write has failed without an answer.
    LeftControllersAtRest,
    /// This time.
    Moment(Moment),
}

impl Command {
    /// Takes its buffer back, to be sent with again.
    pub(super) fn take_back(&mut self, buffer: Option<Buffer>) {
        self.data = match buffer {
            None => Data::None,
            Some(buffer) if self.sends => Data::Send(buffer),
            Some(buffer) => Data::Receive(buffer),
        };
    }
}

impl Until {
    /// Association at which the command is without an answer.
    pub(super) const fn association(self) -> Option<(usize, u64)> {
        match self {
            Self::AtRest(path, association) => Some((path, association)),
            Self::LeftControllersAtRest | Self::Moment(_) => None,
        }
    }
}
