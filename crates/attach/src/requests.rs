//! Requests that are not answered yet: what of each has been made into commands, and what those came to.

use engine::ring::Buffer;
use nbd::{Command, Errno, Replies};
use nvme::io::IoCommand;
use slab::Slab;

use crate::limits::SPARE_LISTS_MAX;

/// Operation of a request's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read; the data is sent as one where `is_whole`.
    Read { is_whole: bool },
    /// Write of the received data.
    Write { is_durable: bool },
    /// Flush, as one command.
    Flush,
    /// Write of zeroes.
    Zeroes { is_durable: bool, may_deallocate: bool },
    /// Deallocation; where it is to be durable, a Flush follows.
    Trim { is_durable: bool },
}

impl Work {
    /// The work of a command; `None` for one that needs no command of the namespace.
    pub(crate) fn of(command: Command) -> Option<Self> {
        Some(match command {
            Command::Read { is_whole } => Self::Read { is_whole },
            Command::Write { is_durable } => Self::Write { is_durable },
            Command::Flush => Self::Flush,
            Command::Trim { is_durable } => Self::Trim { is_durable },
            Command::WriteZeroes { is_durable, may_deallocate } => {
                Self::Zeroes { is_durable, may_deallocate }
            }
            Command::Disconnect | Command::Cache | Command::BlockStatus => return None,
        })
    }

    /// The command for some blocks.
    pub(crate) fn command(self, start: u64, blocks: u32) -> IoCommand {
        match self {
            Self::Read { .. } => IoCommand::Read { start, blocks, force_unit_access: false },
            Self::Write { is_durable } => IoCommand::Write { start, blocks, force_unit_access: is_durable },
            Self::Flush => IoCommand::Flush,
            Self::Zeroes { is_durable, may_deallocate: deallocate } => {
                IoCommand::WriteZeroes { start, blocks, force_unit_access: is_durable, deallocate }
            }
            Self::Trim { .. } => IoCommand::DatasetManagement { ranges: 1, deallocate: true },
        }
    }
}

/// A request.
pub(crate) struct Request {
    /// Slot of the client.
    pub(crate) client: usize,
    /// Index of the disk.
    pub(crate) disk: usize,
    pub(crate) work: Work,
    pub(crate) replies: Replies,
    pub(crate) length: u64,
    /// Bytes of one command; the last may have fewer.
    pub(crate) piece_bytes: u64,
    /// Bytes that have been made into commands.
    pub(crate) issued: u64,
    /// Commands that are under way.
    pub(crate) commands: usize,
    /// Why it fails; no more commands are made then.
    pub(crate) error: Option<Errno>,
    /// Set while its client has it on the list of those to make commands of, or is receiving its
    /// data.
    pub(crate) is_listed: bool,
    /// Data that waits until all is there, by the number of its piece.
    pub(crate) whole: Vec<Option<Buffer>>,
    /// Bytes of buffers that were set aside for it and have not been taken.
    pub(crate) reserved_bytes: usize,
}

impl Request {
    /// Offset of the next command within the request, and its length; `None` when there are no
    /// more.
    pub(crate) fn next_piece(&self) -> Option<(u64, u64)> {
        let left = self.length - self.issued;
        (left > 0 && self.error.is_none()).then(|| (self.issued, left.min(self.piece_bytes)))
    }

    /// True if all its work is done, or given up.
    pub(crate) fn is_over(&self) -> bool {
        self.commands == 0 && !self.is_listed && self.next_piece().is_none()
    }

    /// Bytes of the buffers of all its data.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let last = (self.length % self.piece_bytes) as usize;
        let count = (self.length / self.piece_bytes) as usize;
        let last = if last == 0 { 0 } else { Buffer::capacity_for(last) };
        count * Buffer::capacity_for(self.piece_bytes.min(self.length) as usize) + last
    }
}

/// Requests of a thread, by key.
#[derive(Default)]
pub(crate) struct Requests {
    entries: Slab<Request>,
    /// Room for data that waits, of requests that are over.
    spare: Vec<Vec<Option<Buffer>>>,
}

impl Requests {
    /// Room for data that waits until all is there.
    pub(crate) fn room(&mut self) -> Vec<Option<Buffer>> {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, request: Request) -> usize {
        self.entries.insert(request)
    }

    pub(crate) fn get(&mut self, key: usize) -> Option<&mut Request> {
        self.entries.get_mut(key)
    }

    /// Slot of the client of a request.
    pub(crate) fn client_of(&self, key: usize) -> Option<usize> {
        self.entries.get(key).map(|request| request.client)
    }

    /// Takes one out that is over. Its room is used again, once its buffers have been taken.
    pub(crate) fn take(&mut self, key: usize) -> Option<Request> {
        self.entries.try_remove(key)
    }

    /// Takes room back that a request had.
    pub(crate) fn give_room(&mut self, mut room: Vec<Option<Buffer>>) {
        if room.capacity() > 0 && self.spare.len() < SPARE_LISTS_MAX {
            room.clear();
            self.spare.push(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_more_requests_than_have_commands_are_freed() {
        let mut requests = Requests::default();
        (0..2 * SPARE_LISTS_MAX).for_each(|_| requests.give_room(Vec::with_capacity(1)));
        assert_eq!(requests.spare.len(), SPARE_LISTS_MAX);
    }
}
