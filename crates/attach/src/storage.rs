//! What one thread has to serve clients with: queues on the paths of all disks, buffers, and the requests that are under way.

use std::sync::Arc;

use engine::initiator::{CommandQueues, Data, Ended, PathQueues, Paths, Request as QueueRequest};
use engine::ring::{BufferPool, Event, Moment, Ring};
use nbd::Export;

use crate::disk::Disk;
use crate::limits::{PIECE_BYTES, THREAD_COMMANDS_MAX};
use crate::requests::{Requests, Work};
use crate::server::Tally;

/// Blocks of one command (NLB is 0's based and 16 bits wide).
const BLOCKS_MAX: u64 = 1 << 16;

/// A disk as one thread has it.
pub(crate) struct DiskQueues {
    disk: Disk,
    paths: Arc<Paths>,
    nsid: u32,
    block_bytes: u64,
    queues: PathQueues,
}

impl DiskQueues {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.paths.size_bytes()
    }

    /// Bytes of one command that does this, in whole blocks.
    pub(crate) fn piece_bytes(&self, work: Work) -> u64 {
        let most = match work {
            Work::Read { .. } | Work::Write { .. } => {
                PIECE_BYTES.min(self.paths.transfer_length_max() as u64).min(BLOCKS_MAX * self.block_bytes)
            }
            Work::Zeroes { .. } => self.paths.write_zeroes_length_max().min(BLOCKS_MAX * self.block_bytes),
            // Blocks of one range (LLB has 32 bits).
            Work::Trim { .. } => u64::from(u32::MAX) * self.block_bytes,
            Work::Flush => return 1,
        };
        (most - most % self.block_bytes).max(self.block_bytes)
    }
}

/// Everything but the clients.
pub(crate) struct Storage {
    pub(crate) disks: Vec<DiskQueues>,
    /// The disks as clients see them that come now.
    pub(crate) exports: Vec<Export>,
    pub(crate) requests: Requests,
    pub(crate) pool: BufferPool,
    /// A client has found no room for a command.
    pub(crate) is_short_of_room: bool,
    pub(crate) tally: Tally,
}

impl Storage {
    /// Thread `number` of `count`: its share of all queues, with tokens from `token` on.
    pub(crate) fn open(
        ring: &mut Ring,
        disks: &[(Disk, Export)],
        mut token: u32,
        number: u16,
        count: u16,
    ) -> Self {
        let mut opened = Vec::with_capacity(disks.len());
        for (disk, export) in disks {
            let paths = disk.paths.clone();
            let queues = PathQueues::open(&paths, ring, token, number, count, THREAD_COMMANDS_MAX);
            token += (engine::limits::PATHS_MAX * usize::from(engine::limits::IO_QUEUES_MAX)) as u32;
            let (nsid, block_bytes) = (paths.namespace().nsid, export.block_bytes.into());
            opened.push(DiskQueues { disk: disk.clone(), paths, nsid, block_bytes, queues });
        }
        Self {
            disks: opened,
            exports: disks.iter().map(|(_, export)| export.clone()).collect(),
            requests: Requests::default(),
            pool: BufferPool::new(),
            is_short_of_room: false,
            tally: Tally::default(),
        }
    }

    /// Looks at the disks again, for a client that has come.
    pub(crate) fn renew_exports(&mut self) {
        for (export, opened) in self.exports.iter_mut().zip(&self.disks) {
            // One that has become unusable is refused by its target.
            if let Ok(now) = opened.disk.export() {
                *export = Export { block_bytes: export.block_bytes, ..now };
            }
        }
    }

    /// Whether a disk takes a command. Where none does, it is remembered that somebody waits.
    pub(crate) fn has_room(&mut self, disk: usize) -> bool {
        let has_room = self.disks[disk].queues.free_slots() > 0;
        self.is_short_of_room |= !has_room;
        has_room
    }

    /// The same of the disk that the request at `place` is about.
    pub(crate) fn has_room_for(&mut self, place: usize) -> bool {
        let disk = self.requests.get(place).map(|request| request.disk);
        disk.is_none_or(|disk| self.has_room(disk))
    }

    /// Whether clients that found no room may find some.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let has_room = self.is_short_of_room && self.disks.iter().any(|disk| disk.queues.free_slots() > 0);
        if has_room {
            self.is_short_of_room = false;
        }
        has_room
    }

    /// Sends the command for `length` bytes at `offset`, of the request at `place`, to a disk that takes one.
    pub(crate) fn submit(
        &mut self,
        (disk, place, piece): (usize, usize, u64),
        work: Work,
        (offset, length): (u64, u64),
        data: Data,
    ) {
        let disk = &mut self.disks[disk];
        let (start, blocks) = (offset / disk.block_bytes, (length / disk.block_bytes) as u32);
        let entry = work.command(start, blocks).encode(disk.nsid);
        let user = (place as u64) << 32 | piece;
        let submitted = disk.queues.submit(QueueRequest { entry, data, user });
        // Its slots are this thread's alone, and one was free.
        debug_assert!(submitted.is_ok(), "a disk that has room takes a command");
        if submitted.is_err() {
            tracing::error!(user, "a command found no slot, and is not sent");
        }
    }

    /// The next command that has ended: its request's place, its piece, and how.
    pub(crate) fn pop(&mut self) -> Option<(usize, u64, Ended)> {
        let ended = self.disks.iter_mut().find_map(|disk| disk.queues.pop())?;
        let user = ended.user();
        Some(((user >> 32) as usize, user & u64::from(u32::MAX), ended))
    }

    pub(crate) fn take_in(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        for disk in &mut self.disks {
            disk.queues.on_events(ring, scratch, events, now);
            disk.queues.turn(ring, now);
        }
    }

    pub(crate) fn flush(&mut self, ring: &mut Ring) {
        self.disks.iter_mut().for_each(|disk| disk.queues.flush(ring));
    }

    pub(crate) fn has_more(&self) -> bool {
        self.disks.iter().any(|disk| disk.queues.has_more())
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.disks.iter().filter_map(|disk| disk.queues.next_deadline()).min()
    }

    pub(crate) fn close(&mut self, ring: &mut Ring) {
        self.disks.iter_mut().for_each(|disk| disk.queues.close(ring));
    }
}
