//! A client's requests as commands: how they are made, and what their ends come to. No more of them are made than it may have
//! under way.

use engine::initiator::{Data, Ended};
use engine::ring::Buffer;
use nbd::{Command, Errno, Replies};
use nvme::io::DatasetRange;
use zerocopy::IntoBytes as _;
use zerocopy::little_endian::{U32, U64};

use crate::client::{Client, Incoming};
use crate::limits::{CLIENT_COMMANDS_MAX, REQUEST_COMMANDS_MAX};
use crate::requests::{Request, Work};
use crate::status;
use crate::storage::Storage;

/// Result of making commands of a request.
enum Issued {
    /// There are no more to make.
    All,
    /// The request has as many as one may have.
    Enough,
    /// The client has no buffers for it.
    NoBuffers,
    /// The client or the disk has as many as it may have.
    Full,
}

impl Client {
    /// Begins a request that can be done.
    pub(crate) fn begin(
        &mut self,
        command: Command,
        request: &nbd::Request,
        replies: Replies,
        disk: usize,
        storage: &mut Storage,
    ) {
        let Some(work) = Work::of(command) else { return };
        let length = if work == Work::Flush { 1 } else { request.length };
        let whole = match work {
            Work::Read { is_whole: true } => storage.requests.room(),
            _ => Vec::new(),
        };
        let slot = storage.requests.add(Request {
            client: self.slot,
            disk,
            work,
            replies,
            length,
            piece_bytes: storage.piece_bytes(disk, work),
            issued: 0,
            commands: 0,
            error: None,
            is_listed: true,
            whole,
            reserved_bytes: 0,
        });
        self.requests += 1;
        if request.payload_bytes > 0 {
            self.incoming = Incoming::Data { slot, left: request.payload_bytes, buffer: None, filled: 0 };
        } else {
            self.listed.push_back(slot);
        }
    }

    /// Makes commands of requests, as long as there is room for them.
    pub(crate) fn issue(&mut self, storage: &mut Storage) {
        let mut may_begin = true;
        for _ in 0..self.listed.len() {
            let Some(slot) = self.listed.pop_front() else { return };
            // Behind one that waits for buffers none begins that would take them first. Those that have begun go on: they have
            // the buffers that it waits for.
            let has_begun = storage.requests.get(slot).is_some_and(|request| request.issued > 0);
            if !may_begin && !has_begun {
                self.listed.push_back(slot);
                continue;
            }
            match self.issue_of(slot, storage) {
                Issued::All => self.delist(slot, storage),
                Issued::Enough => self.listed.push_back(slot),
                Issued::NoBuffers => {
                    may_begin = false;
                    self.listed.push_back(slot);
                }
                Issued::Full => {
                    self.listed.push_front(slot);
                    return;
                }
            }
        }
    }

    fn issue_of(&mut self, slot: usize, storage: &mut Storage) -> Issued {
        loop {
            let Some(request) = storage.requests.get(slot) else { return Issued::All };
            let Some((at, length)) = request.next_piece() else { return Issued::All };
            if request.commands >= REQUEST_COMMANDS_MAX {
                return Issued::Enough;
            }
            let (disk, work, offset) = (request.disk, request.work, request.replies.offset + at);
            if self.commands >= CLIENT_COMMANDS_MAX || !storage.has_room(disk) {
                return Issued::Full;
            }
            let Some(data) = self.data(slot, length, storage) else { return Issued::NoBuffers };
            let Some(request) = storage.requests.get(slot) else { return Issued::All };
            request.issued += length;
            request.commands += 1;
            self.commands += 1;
            self.has_uncancelled = true;
            let piece = at / request.piece_bytes;
            storage.submit((disk, slot, piece), work, (offset, length), data);
        }
    }

    /// Buffer for the next command of a request; `None` when there is no room for it.
    fn data(&mut self, slot: usize, length: u64, storage: &mut Storage) -> Option<Data> {
        let request = storage.requests.get(slot)?;
        match request.work {
            Work::Read { is_whole } => {
                // All of it or nothing: requests that wait for each other's buffers would wait forever.
                let wanted = if !is_whole {
                    Buffer::capacity_for(length as usize)
                } else if request.issued == 0 {
                    request.buffer_bytes()
                } else {
                    0
                };
                if wanted > 0 && !self.may_hold(wanted, &mut storage.budget) {
                    return None;
                }
                self.hold(wanted, &mut storage.budget);
                let buffer = storage.pool.take(length as usize);
                if is_whole {
                    request.reserved_bytes = request.reserved_bytes + wanted - buffer.capacity();
                }
                Some(Data::Receive(buffer))
            }
            Work::Trim { .. } => {
                let (block, first) = (storage.exports[request.disk].block_bytes, request.replies.offset);
                let start = (first + request.issued) / u64::from(block);
                let blocks = (length / u64::from(block)) as u32;
                let range =
                    DatasetRange { start: U64::new(start), blocks: U32::new(blocks), ..Default::default() };
                let mut buffer = storage.pool.take(size_of::<DatasetRange>());
                buffer.copy_from_slice(range.as_bytes());
                self.hold(buffer.capacity(), &mut storage.budget);
                Some(Data::Send(buffer))
            }
            Work::Write { .. } | Work::Flush | Work::Zeroes { .. } => Some(Data::None),
        }
    }

    /// Gives the write that is being received a buffer for its next command; where it has failed, its data is thrown away.
    /// False when there is no room.
    pub(crate) fn data_buffer(&mut self, slot: usize, storage: &mut Storage) -> bool {
        let Incoming::Data { left, .. } = self.incoming else { return true };
        let Some(request) = storage.requests.get(slot) else { return true };
        if request.error.is_some() {
            self.incoming = Incoming::Refused { left };
            self.delist(slot, storage);
            return true;
        }
        let (disk, length) = (request.disk, request.piece_bytes.min(left.into()) as usize);
        let capacity = Buffer::capacity_for(length);
        let is_full = self.commands >= CLIENT_COMMANDS_MAX || !self.may_hold(capacity, &mut storage.budget);
        if is_full || !storage.has_room(disk) {
            return false;
        }
        self.hold(capacity, &mut storage.budget);
        let (left, buffer) = (left - length as u32, Some(storage.pool.take(length)));
        self.incoming = Incoming::Data { slot, left, buffer, filled: 0 };
        true
    }

    /// Writes a full buffer, the last one of its request or not; there is room for the command.
    pub(crate) fn write(&mut self, slot: usize, buffer: Buffer, is_last: bool, storage: &mut Storage) {
        let Some(request) = storage.requests.get(slot) else { return };
        let (disk, at, length) = (request.disk, request.issued, buffer.len() as u64);
        request.issued += length;
        if request.error.is_some() {
            self.release(buffer, storage);
        } else {
            request.commands += 1;
            self.commands += 1;
            self.has_uncancelled = true;
            let (work, offset) = (request.work, request.replies.offset + at);
            let piece = at / request.piece_bytes;
            storage.submit((disk, slot, piece), work, (offset, length), Data::Send(buffer));
        }
        if is_last {
            self.delist(slot, storage);
        }
    }

    /// A command of this client's has ended.
    pub(crate) fn ended(&mut self, slot: usize, piece: u64, ended: Ended, storage: &mut Storage) {
        let is_gone = self.is_gone();
        let Some(request) = storage.requests.get(slot) else { return };
        request.commands -= 1;
        self.commands -= 1;
        let (buffer, error) = match ended.answer() {
            Ok(completion) if completion.status.is_success() => (completion.data, None),
            Ok(completion) => (completion.data, Some(status::errno(completion.status))),
            Err(lost) => (lost.data, Some(Errno::InputOutput)),
        };
        if let Some(error) = error {
            request.error.get_or_insert(error);
        }
        if matches!(request.work, Work::Read { .. }) && buffer.is_none() {
            // Each end brings back the buffer of its command.
            request.error.get_or_insert(Errno::InputOutput);
        }
        let mut is_answered = false;
        let is_over = request.is_over();
        match (request.work, buffer) {
            (Work::Read { is_whole: true }, Some(buffer)) if error.is_none() => {
                let at = piece as usize;
                if request.whole.len() <= at {
                    request.whole.resize_with(at + 1, || None);
                }
                request.whole[at] = Some(buffer);
            }
            (Work::Read { is_whole: false }, Some(buffer)) if error.is_none() && !is_gone => {
                is_answered = is_over && request.error.is_none();
                let offset = request.replies.offset + piece * request.piece_bytes;
                let head = request.replies.data(offset, buffer.len() as u32, is_answered);
                self.output.put(Some(head), Some(buffer));
            }
            (_, Some(buffer)) => self.release(buffer, storage),
            (_, None) => {}
        }
        if is_answered {
            storage.requests.take(slot);
            self.requests -= 1;
        } else if is_over {
            self.finish(slot, storage);
        }
    }

    /// No more commands will be made of a request by what has listed it.
    fn delist(&mut self, slot: usize, storage: &mut Storage) {
        let Some(request) = storage.requests.get(slot) else { return };
        request.is_listed = false;
        if request.is_over() {
            self.finish(slot, storage);
        }
    }

    /// Answers a request that is over, and forgets it.
    fn finish(&mut self, slot: usize, storage: &mut Storage) {
        let Some(request) = storage.requests.get(slot) else { return };
        if let (Work::Trim { is_durable: true }, None) = (request.work, request.error) {
            (request.work, request.length, request.piece_bytes) = (Work::Flush, 1, 1);
            (request.issued, request.is_listed) = (0, true);
            self.listed.push_back(slot);
            return;
        }
        let Some(mut request) = storage.requests.take(slot) else { return };
        self.requests -= 1;
        self.let_go(request.reserved_bytes, &mut storage.budget);
        storage.tally.errors += u64::from(request.error.is_some());
        let mut whole = std::mem::take(&mut request.whole);
        match request.error {
            _ if self.is_gone() => {}
            Some(error) => self.output.put(Some(request.replies.failed(error)), None),
            None if whole.is_empty() => self.output.put(Some(request.replies.done()), None),
            None => {
                let length = request.length as u32;
                let mut head = Some(request.replies.data(request.replies.offset, length, true));
                whole.drain(..).for_each(|data| self.output.put(head.take(), data));
            }
        }
        whole.drain(..).flatten().for_each(|buffer| self.release(buffer, storage));
        storage.requests.give_room(whole);
    }

    /// Gives a buffer back that is not sent.
    fn release(&mut self, buffer: Buffer, storage: &mut Storage) {
        self.let_go(buffer.capacity(), &mut storage.budget);
        storage.pool.give(buffer);
    }

    /// Forgets the rest of a request that will not come.
    pub(crate) fn drop_incoming(&mut self, storage: &mut Storage) {
        let incoming = std::mem::replace(&mut self.incoming, Incoming::Nothing);
        if let Incoming::Data { slot, buffer, .. } = incoming {
            buffer.into_iter().for_each(|buffer| self.release(buffer, storage));
            if let Some(request) = storage.requests.get(slot) {
                request.error.get_or_insert(Errno::InputOutput);
            }
            self.delist(slot, storage);
        }
    }

    /// Makes no more commands of any request.
    pub(crate) fn give_up(&mut self, storage: &mut Storage) {
        while let Some(slot) = self.listed.pop_front() {
            if let Some(request) = storage.requests.get(slot) {
                request.error.get_or_insert(Errno::InputOutput);
            }
            self.delist(slot, storage);
        }
    }
}
