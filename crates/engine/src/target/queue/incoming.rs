//! What comes in on a queue: the PDU whose data is under way, the data that was asked for, and what has come whole.

use nvme::SubmissionEntry;
use nvme::tcp::Transfer;

use crate::ring::Buffer;

/// Where the data of the PDU that is coming in goes.
#[derive(Debug)]
pub(super) enum Receiving {
    /// Nowhere.
    Discard,
    /// Into the buffer of the transfer with this number, from this byte on.
    Transfer { slot: u16, at: usize },
    /// Into a buffer as far as there is room, after `skip` bytes that go nowhere.
    Capsule { slot: u16, buffer: Buffer, skip: usize, at: usize },
}

/// Data that was asked for.
#[derive(Debug)]
pub(super) struct Requested {
    pub(super) command_id: u16,
    pub(super) buffer: Buffer,
    pub(super) transfer: Transfer,
    /// Whether all that has come was as it was sent.
    pub(super) is_intact: bool,
}

/// What has come.
pub(crate) enum Incoming {
    /// A command, with this number of bytes in its capsule.
    Command { entry: SubmissionEntry, data_length: usize },
    /// All the data of the command in a slot; whether it is as it was sent.
    Data { slot: u16, buffer: Buffer, is_intact: bool },
}

/// What one receive call has brought.
pub(crate) enum Received {
    /// So many bytes at the beginning of the space, and whether there may be more.
    Bytes { length: usize, may_be_more: bool },
    /// Nothing.
    Nothing,
}
