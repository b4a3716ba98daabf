//! What a command has come to: its answer, or what its queue has to do for it first. Commands give it back as a value, and a
//! queue takes it: that is the only way in which a command is answered.

use nvme::{CompletionEntry, Status};

use crate::backend::Memory;
use crate::ring::Buffer;

/// What keeps memory in its place that is sent from there.
pub(crate) trait MemoryHolder {
    /// The memory.
    fn memory(&self) -> &Memory;
}

/// Bytes for the host.
#[derive(Debug)]
pub(crate) enum Payload<H> {
    /// In a buffer, from its beginning.
    Buffer(Buffer),
    /// In memory that others use too, from this byte on.
    Memory { holder: H, offset: u64 },
    /// Nowhere: they are zeroes.
    Zeroes,
}

/// The answer to one command. Whoever has it has to hand it on until a queue has taken it.
#[derive(Debug)]
#[must_use = "a command is answered by handing its reply to the queue"]
pub(crate) struct Reply<H> {
    pub(super) command_id: u16,
    pub(super) status: Status,
    pub(super) result: u64,
    pub(super) data: Option<(Payload<H>, u32)>,
}

impl<H> Reply<H> {
    /// An answer without data.
    pub(crate) const fn new(command_id: u16, status: Status, result: u64) -> Self {
        Self { command_id, status, result, data: None }
    }

    /// Success, with `length` bytes for the host.
    pub(crate) const fn with_data(command_id: u16, payload: Payload<H>, length: u32) -> Self {
        Self { command_id, status: Status::SUCCESS, result: 0, data: Some((payload, length)) }
    }

    /// The status.
    #[cfg(test)]
    pub(crate) const fn status(&self) -> Status {
        self.status
    }

    /// The command's identifier.
    #[cfg(test)]
    pub(crate) const fn command_id(&self) -> u16 {
        self.command_id
    }

    /// The data, if there is some.
    #[cfg(test)]
    pub(crate) fn data(&self) -> Option<(&Payload<H>, u32)> {
        self.data.as_ref().map(|(payload, length)| (payload, *length))
    }

    /// The completion, at this head of the submission queue.
    pub(super) fn completion(&self, head: u16) -> CompletionEntry {
        CompletionEntry::new(self.command_id, self.status, self.result, head)
    }
}

/// What a command wants next of its queue.
#[derive(Debug)]
#[must_use = "the queue has to do it"]
pub(crate) enum Next<H> {
    /// It is answered.
    Reply(Reply<H>),
    /// Its data is to be asked for (R2T) and comes into this buffer, under the number of its slot.
    Request { slot: u16, command_id: u16, buffer: Buffer },
    /// Its data is in its capsule, behind `skip` bytes that are not for it, and comes into this buffer.
    Capsule { slot: u16, skip: usize, buffer: Buffer },
    /// Another command is answered first, which is one of a fused pair with this one, or was before this one came.
    After(Reply<H>, Box<Next<H>>),
    /// Nothing: it waits, or has been answered already.
    Nothing,
}
