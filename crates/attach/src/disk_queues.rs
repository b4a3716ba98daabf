//! A namespace as one thread has it: queues on all its paths, and the commands that they take.

use std::sync::Arc;

use engine::initiator::{CommandQueues, Data, Ended, PathQueues, Paths, Request};
use engine::ring::{Event, Moment, Ring};
use nvme::io::IoCommand;

use crate::limits::{PIECE_BYTES, THREAD_COMMANDS_MAX};

/// Blocks of one command (NLB is 0's based and 16 bits wide).
pub(crate) const BLOCKS_MAX: u64 = 1 << 16;

pub(crate) struct DiskQueues {
    paths: Arc<Paths>,
    nsid: u32,
    block_bytes: u64,
    queues: PathQueues,
}

impl DiskQueues {
    /// Tokens of the queues of one namespace.
    pub(crate) const TOKENS: u32 =
        (engine::limits::PATHS_MAX * engine::limits::IO_QUEUES_MAX as usize) as u32;

    /// The share of thread `number` of `count`, with tokens from `token` on.
    pub(crate) fn open(
        (paths, block_bytes): (&Arc<Paths>, u32),
        ring: &mut Ring,
        token: u32,
        (number, count): (u16, u16),
    ) -> Self {
        let queues = PathQueues::open(paths, ring, token, number, count, THREAD_COMMANDS_MAX);
        Self { paths: paths.clone(), nsid: paths.namespace().nsid, block_bytes: block_bytes.into(), queues }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.paths.size_bytes()
    }

    /// Bytes of one command with data, in whole blocks.
    pub(crate) fn data_bytes_max(&self) -> u64 {
        let most = PIECE_BYTES.min(self.paths.transfer_length_max() as u64);
        self.whole_blocks(most.min(BLOCKS_MAX * self.block_bytes))
    }

    /// Bytes of one Write Zeroes.
    pub(crate) fn zeroes_bytes_max(&self) -> u64 {
        self.whole_blocks(self.paths.write_zeroes_length_max().min(BLOCKS_MAX * self.block_bytes))
    }

    /// Bytes of one range.
    pub(crate) fn range_bytes_max(&self) -> u64 {
        u64::from(self.paths.deallocate_limits().range_blocks) * self.block_bytes
    }

    fn whole_blocks(&self, bytes: u64) -> u64 {
        (bytes - bytes % self.block_bytes).max(self.block_bytes)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.queues.free_slots() > 0
    }

    /// Sends the command that `command` makes of the first block and the number of blocks of `length` bytes at `offset`. There
    /// is room for it.
    pub(crate) fn submit(
        &mut self,
        command: impl FnOnce(u64, u32) -> IoCommand,
        (offset, length): (u64, u64),
        data: Data,
        user: u64,
    ) {
        let (start, blocks) = (offset / self.block_bytes, (length / self.block_bytes) as u32);
        let entry = command(start, blocks).encode(self.nsid);
        let submitted = self.queues.submit(Request { entry, data, user });
        // Its slots are this thread's alone, and one was free.
        debug_assert!(submitted.is_ok(), "a disk that has room takes a command");
        if submitted.is_err() {
            tracing::error!(user, "a command found no slot, and is not sent");
        }
    }

    /// Cancels the commands of a client that is gone: they are not sent again.
    pub(crate) fn cancel(&mut self, is_gone: impl Fn(u64) -> bool) {
        if self.queues.outstanding() > 0 {
            self.queues.cancel(is_gone);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Ended> {
        self.queues.pop()
    }

    pub(crate) fn take_in(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        self.queues.on_events(ring, scratch, events, now);
        self.queues.turn(ring, now);
    }

    pub(crate) fn flush(&mut self, ring: &mut Ring) {
        self.queues.flush(ring);
    }

    pub(crate) fn has_more(&self) -> bool {
        self.queues.has_more()
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.queues.next_deadline()
    }

    pub(crate) fn close(&mut self, ring: &mut Ring) {
        self.queues.close(ring);
    }
}
