//! A namespace as one thread has it: queues on all its paths, and the commands that they take.

use std::sync::Arc;

use engine::initiator::{CommandQueues, Data, Ended, PathQueues, Paths, Request};
use engine::ring::{Event, Moment, Ring};
use nvme::io::DatasetRange;

use super::device::Device;
use super::work::{BLOCKS_MAX, Kind};
use crate::limits::{PIECE_BYTES, THREAD_COMMANDS_MAX};

/// Tokens of the queues of one namespace.
const TOKENS: u32 = (engine::limits::PATHS_MAX * engine::limits::IO_QUEUES_MAX as usize) as u32;

pub(super) struct Namespace {
    pub(super) device: Device,
    paths: Arc<Paths>,
    nsid: u32,
    block_bytes: u64,
    queues: PathQueues,
}

impl Namespace {
    /// The share of thread `number` of `count`; the namespace at `at` of all.
    pub(super) fn open(
        (paths, device): (&Arc<Paths>, &Device),
        ring: &mut Ring,
        (token, at): (u32, usize),
        (number, count): (u16, u16),
    ) -> Self {
        let token = token + at as u32 * TOKENS;
        let queues = PathQueues::open(paths, ring, token, number, count, THREAD_COMMANDS_MAX);
        let block_bytes = device.export.block_bytes.into();
        Self {
            device: device.clone(),
            paths: paths.clone(),
            nsid: paths.namespace().nsid,
            block_bytes,
            queues,
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.paths.size_bytes()
    }

    /// Bytes of one command that does this, in whole blocks.
    pub(super) fn piece_bytes(&self, kind: Kind) -> u64 {
        let most = match kind {
            Kind::Read | Kind::Write => PIECE_BYTES.min(self.paths.transfer_length_max() as u64),
            Kind::Zeroes { .. } => self.paths.write_zeroes_length_max(),
            Kind::Flush | Kind::Discard { .. } | Kind::Serial => return 1,
        };
        let most = most.min(BLOCKS_MAX * self.block_bytes);
        (most - most % self.block_bytes).max(self.block_bytes)
    }

    /// Bytes of the data of a command of `length` bytes of work.
    pub(super) const fn data_bytes(kind: Kind, length: u64) -> usize {
        match kind {
            Kind::Read | Kind::Write => length as usize,
            Kind::Discard { ranges } => ranges as usize * size_of::<DatasetRange>(),
            Kind::Flush | Kind::Zeroes { .. } | Kind::Serial => 0,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.queues.free_slots() > 0
    }

    /// Sends the command for `length` bytes at `offset`, for which there is room.
    pub(super) fn submit(&mut self, kind: Kind, (offset, length): (u64, u64), data: Data, user: u64) {
        let (start, blocks) = (offset / self.block_bytes, (length / self.block_bytes) as u32);
        let entry = kind.command(start, blocks).encode(self.nsid);
        let submitted = self.queues.submit(Request { entry, data, user });
        // Its slots are this thread's alone, and one was free.
        debug_assert!(submitted.is_ok(), "a namespace that has room takes a command");
        if submitted.is_err() {
            tracing::error!(user, "a command found no slot, and is not sent");
        }
    }

    pub(super) fn pop(&mut self) -> Option<Ended> {
        self.queues.pop()
    }

    pub(super) fn take_in(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        self.queues.on_events(ring, scratch, events, now);
        self.queues.turn(ring, now);
    }

    pub(super) fn flush(&mut self, ring: &mut Ring) {
        self.queues.flush(ring);
    }

    pub(super) fn has_more(&self) -> bool {
        self.queues.has_more()
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.queues.next_deadline()
    }

    pub(super) fn close(&mut self, ring: &mut Ring) {
        self.queues.close(ring);
    }
}
