//! Request and completion of a queue: a command with its buffer, and its completion with the same
//! buffer. The meaning of the command is the caller's.

use std::sync::Arc;

use nvme::{Status, SubmissionEntry};

use crate::initiator::InitiatorError;
use crate::ring::{Buffer, Moment};

/// The data of a command, its length being the buffer's.
#[derive(Debug, Default)]
pub enum Data {
    /// None.
    #[default]
    None,
    /// Bytes for the controller: the whole buffer.
    Send(Buffer),
    /// Room for bytes from the controller: the whole buffer is filled.
    Receive(Buffer),
}

impl Data {
    /// The buffer, if there is one.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::None => None,
            Self::Send(buffer) | Self::Receive(buffer) => Some(buffer),
        }
    }
}

/// A command for a queue.
#[derive(Debug)]
pub struct Request {
    /// The command. Its identifier, its flags for SGLs and its data descriptor are filled in by the queue.
    pub entry: SubmissionEntry,
    /// Data of the command. The buffer comes back with the completion.
    pub data: Data,
    /// Whatever the caller wants to find in the completion.
    pub user: u64,
}

/// Result of a command.
#[derive(Debug)]
#[must_use]
pub enum Ended {
    /// The controller has answered: the command is over, well or not.
    Answered(Completion),
    /// No answer will come.
    Lost(Lost),
}

impl Ended {
    /// Value that the request carried.
    pub const fn user(&self) -> u64 {
        match self {
            Self::Answered(completion) => completion.user,
            Self::Lost(lost) => lost.user,
        }
    }

    /// The same end of the caller's own command.
    pub fn with_user(self, user: u64) -> Self {
        match self {
            Self::Answered(completion) => Self::Answered(Completion { user, ..completion }),
            Self::Lost(lost) => Self::Lost(Lost { user, ..lost }),
        }
    }

    /// The controller's answer.
    ///
    /// # Errors
    /// When none will come.
    pub fn answer(self) -> Result<Completion, Lost> {
        match self {
            Self::Answered(completion) => Ok(completion),
            Self::Lost(lost) => Err(lost),
        }
    }
}

/// A command whose answer will not come, since its connection ended before. It may have taken
/// effect, and it may do so later: the controller may still have it.
#[derive(Debug)]
pub struct Lost {
    /// Value that the request carried.
    pub user: u64,
    /// The buffer the request carried.
    pub data: Option<Buffer>,
    /// Why the connection ended.
    pub error: Arc<InitiatorError>,
}

/// A controller's answer to a command.
#[derive(Debug)]
pub struct Completion {
    /// Value that the request carried.
    pub user: u64,
    /// The controller's status; `Status::TRANSIENT_TRANSPORT_ERROR` when data came damaged.
    pub status: Status,
    /// Completion dwords 0 and 1.
    pub result: u64,
    /// The buffer the request carried.
    pub data: Option<Buffer>,
    /// Times of the command.
    pub timing: Timing,
}

/// Times of an answered command, as its queue has seen them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The time at the target and on the way, in nanoseconds: from when its last byte, or the last of the data that was asked
    /// for, was handed to the socket, until something of the answer was seen.
    pub target_ns: u64,
    /// Time when the first of its data, or else its response, was seen.
    pub answered: Moment,
}

/// State of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// The TCP connection is being made.
    Connecting,
    /// The TLS handshake is under way.
    Securing,
    /// ICReq is sent, ICResp is waited for.
    Initializing,
    /// Fabrics Connect is sent, its completion is waited for.
    Joining,
    /// The target has asked for authentication, which is under way.
    Authenticating,
    /// Commands are taken.
    Live,
    /// TLS keys are used up, and the target does not replace them: the connection ends, and another
    /// one follows.
    Ending,
    /// The queue is over; [`Queue::error`](super::Queue::error) has the reason.
    Closed,
}
