//! What one thread has to serve clients with: queues on the paths of all disks, buffers, and the requests that are under way.

use std::sync::Arc;

use engine::initiator::{Data, Ended};
use engine::ring::{BufferPool, Event, Moment, Ring};
use nbd::{Export, Replies};

use crate::buffer_budget::BufferBudget;
use crate::client_faults::ClientFaults;
use crate::disk::Disk;
use crate::disk_queues::DiskQueues;
use crate::extents::{ClientId, ExtentAnswer, Extents};
use crate::requests::{Requests, Work};
use crate::server::Tally;

/// Everything but the clients.
pub(crate) struct Storage {
    disks: Vec<(Disk, DiskQueues)>,
    /// The disks as clients see them that come now.
    pub(crate) exports: Vec<Export>,
    /// The same as requests are checked against, with all commands, and written to unless this process is not to: a client may
    /// send what it was offered when there were other paths, or no protection, and a target refuses what it does not permit.
    pub(crate) judged: Vec<Export>,
    pub(crate) requests: Requests,
    pub(crate) pool: BufferPool,
    /// Buffers that clients hold.
    pub(crate) budget: BufferBudget,
    /// A client has found no room for a command.
    pub(crate) is_short_of_room: bool,
    pub(crate) tally: Tally,
    /// Faults of the clients of all threads.
    pub(crate) faults: Arc<ClientFaults>,
    /// Questions which parts of disks are holes.
    extents: Option<Extents>,
}

impl Storage {
    /// Thread `number` of `count`: its share of all queues, with tokens from `token` on.
    pub(crate) fn open(
        ring: &mut Ring,
        disks: &[(Disk, Export)],
        token: u32,
        number: u16,
        count: u16,
    ) -> Self {
        let tokens = (token..).step_by(DiskQueues::TOKENS as usize);
        let open = |((disk, export), token): (&(Disk, Export), u32)| {
            let known = (&disk.paths, export.block_bytes);
            (disk.clone(), DiskQueues::open(known, ring, token, (number, count)))
        };
        Self {
            disks: disks.iter().zip(tokens).map(open).collect(),
            exports: disks.iter().map(|(_, export)| export.clone()).collect(),
            judged: disks.iter().map(|(disk, export)| judged(disk, export)).collect(),
            requests: Requests::default(),
            pool: BufferPool::new(),
            budget: BufferBudget::of_thread(count),
            is_short_of_room: false,
            tally: Tally::default(),
            faults: Arc::default(),
            extents: None,
        }
    }

    /// Clients learn from now on which parts of disks are holes.
    pub(crate) fn tells_extents(&mut self, extents: Extents) {
        self.extents = Some(extents);
    }

    /// Asks which part of a range is a hole. Returns false if there is no thread for it.
    pub(crate) fn ask_extent(
        &mut self,
        client: ClientId,
        disk: usize,
        replies: Replies,
        range: (u64, u64),
    ) -> bool {
        let paths = &self.disks[disk].0.paths;
        self.extents.as_mut().is_some_and(|extents| extents.ask(client, paths, replies, range))
    }

    /// The next answer to such a question.
    pub(crate) fn extent(&mut self) -> Option<ExtentAnswer> {
        self.extents.as_mut()?.answer()
    }

    /// Answers to all such questions without the controllers.
    pub(crate) fn give_up_extents(&mut self) -> Vec<ExtentAnswer> {
        self.extents.as_mut().map(Extents::give_up).unwrap_or_default()
    }

    /// Forgets such questions of a client that is gone.
    pub(crate) fn forget_extents(&mut self, client: ClientId) {
        self.extents.iter_mut().for_each(|extents| extents.forget(client));
    }

    pub(crate) fn size_bytes(&self, disk: usize) -> u64 {
        self.disks[disk].1.size_bytes()
    }

    /// Bytes of one command that does this, in whole blocks.
    pub(crate) fn piece_bytes(&self, disk: usize, work: Work) -> u64 {
        let queues = &self.disks[disk].1;
        match work {
            Work::Read { .. } | Work::Write { .. } => queues.data_bytes_max(),
            Work::Zeroes { .. } => queues.zeroes_bytes_max(),
            Work::Trim { .. } => queues.range_bytes_max(),
            Work::Flush => 1,
        }
    }

    /// Looks at the disks again, for a client that has come.
    pub(crate) fn renew_exports(&mut self) {
        for ((export, of_requests), (disk, _)) in
            self.exports.iter_mut().zip(&mut self.judged).zip(&self.disks)
        {
            // One that has become unusable is refused by its target.
            if let Ok(now) = disk.export() {
                *export = Export { block_bytes: export.block_bytes, ..now };
                *of_requests = judged(disk, export);
            }
        }
    }

    /// True if a disk takes a command. Otherwise records that a client waits.
    pub(crate) fn has_room(&mut self, disk: usize) -> bool {
        let has_room = self.disks[disk].1.has_room();
        self.is_short_of_room |= !has_room;
        has_room
    }

    /// The same of the disk of request `key`.
    pub(crate) fn has_room_for(&mut self, key: usize) -> bool {
        let disk = self.requests.get(key).map(|request| request.disk);
        disk.is_none_or(|disk| self.has_room(disk))
    }

    /// True if clients that found no room may find some.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let has_room = self.is_short_of_room && self.disks.iter().any(|(_, queues)| queues.has_room());
        if has_room {
            self.is_short_of_room = false;
        }
        self.budget.take_news() || has_room
    }

    /// Sends the command for `length` bytes at `offset`, of request `key`, to a disk that takes one.
    pub(crate) fn submit(
        &mut self,
        (disk, key, piece): (usize, usize, u64),
        work: Work,
        (offset, length): (u64, u64),
        data: Data,
    ) {
        let user = ((key as u64) << 32) | piece;
        let command = |start, blocks| work.command(start, blocks);
        self.disks[disk].1.submit(command, (offset, length), data, user);
    }

    /// Cancels the commands of a client that is gone. It may ask for the same over another connection, and then for something else,
    /// which they would undo.
    pub(crate) fn cancel(&mut self, client: usize) {
        let Self { disks, requests, .. } = self;
        for (_, queues) in disks {
            queues.cancel(|user| requests.client_of((user >> 32) as usize) == Some(client));
        }
    }

    /// The next command that has ended: its request's key, its piece, and how.
    pub(crate) fn pop(&mut self) -> Option<(usize, u64, Ended)> {
        let ended = self.disks.iter_mut().find_map(|(_, queues)| queues.pop())?;
        let user = ended.user();
        Some(((user >> 32) as usize, user & u64::from(u32::MAX), ended))
    }

    pub(crate) fn take_in(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        self.disks.iter_mut().for_each(|(_, queues)| queues.take_in(ring, scratch, events, now));
    }

    pub(crate) fn flush(&mut self, ring: &mut Ring) {
        self.disks.iter_mut().for_each(|(_, queues)| queues.flush(ring));
    }

    pub(crate) fn has_more(&self) -> bool {
        self.disks.iter().any(|(_, queues)| queues.has_more())
    }

    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.disks.iter().filter_map(|(_, queues)| queues.next_deadline()).min()
    }

    pub(crate) fn close(&mut self, ring: &mut Ring) {
        self.disks.iter_mut().for_each(|(_, queues)| queues.close(ring));
    }
}

/// A disk as requests are checked against it.
fn judged(disk: &Disk, export: &Export) -> Export {
    Export { can_trim: true, can_write_zeroes: true, is_read_only: disk.is_read_only, ..export.clone() }
}
