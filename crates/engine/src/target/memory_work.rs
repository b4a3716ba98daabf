//! Commands on memory, which are done where they are started. A command of a few bytes can ask for megabytes to be copied or
//! zeroed, so that a connection has a budget for each of its turns: what is left then waits for its next one.

use nvme::Status;

use super::connection::{Connection, Environment, Session};
use super::namespace::Namespace;
use super::slot::{Stage, Work};
use super::storage::dataset_range;
use crate::backend::{Backend, Memory};
use crate::limits::{WORK_BYTES_PER_TURN, WORK_PIECE, ZEROED_BYTES_PER_WORK_BYTE};
use crate::ring::{BufferPool, Span};

impl Session {
    /// Bytes of a memory namespace that a queued payload names.
    pub(super) fn memory_span(
        &self,
        (nsid, view): (u32, u32),
        offset: u64,
        start: usize,
        end: usize,
    ) -> Span<'_> {
        if let Self::Io { views, .. } = self
            && let Some(namespace) = views.numbered(view).and_then(|view| view.get(nsid))
            && let Backend::Memory(memory) = &*namespace.backend
        {
            return memory.span(offset + start as u64, end - start);
        }
        unreachable!("a payload in memory is queued only for a memory namespace of this session");
    }
}

impl Connection {
    /// Does a command on memory, or as much of it as this turn has time for: its status when it is done.
    pub(super) fn do_in_memory(
        &mut self,
        index: u16,
        memory: &Memory,
        namespace: &Namespace,
        pool: &mut BufferPool,
    ) -> Option<Status> {
        let work = self.slots.at(index).work;
        let data = self.slots.data(index);
        Some(match work {
            Work::Write { range, .. } => {
                memory.write(range.offset, data);
                Status::SUCCESS
            }
            Work::Compare { range } if !memory.equals(range.offset, data) => Status::COMPARE_FAILURE,
            Work::Spoil { range } => namespace.spoil(range).err().unwrap_or(Status::SUCCESS),
            Work::Zero { .. } => return self.zero_in_memory(index, memory),
            Work::Copy { .. } => match self.check_copy(index, namespace) {
                Ok(_) => return self.copy_in_memory(index, memory, namespace, pool),
                Err(status) => status,
            },
            Work::Deallocate { .. } => return self.deallocate_in_memory(index, memory, namespace),
            _ => Status::SUCCESS,
        })
    }

    fn zero_in_memory(&mut self, index: u16, memory: &Memory) -> Option<Status> {
        let Work::Zero { mut range, method, deallocate, durable } = self.slots.at(index).work else {
            return Some(Status::INTERNAL_ERROR);
        };
        while range.length > 0 {
            let piece = self.zeroes_now(range.length)?;
            memory.zero(range.offset, piece);
            range.offset += piece;
            range.length -= piece;
            self.slots.at(index).work = Work::Zero { range, method, deallocate, durable };
        }
        Some(Status::SUCCESS)
    }

    fn deallocate_in_memory(&mut self, index: u16, memory: &Memory, namespace: &Namespace) -> Option<Status> {
        while let Work::Deallocate { next, ranges, done } = self.slots.at(index).work
            && next < ranges
        {
            let range = match dataset_range(self.slots.data(index), next, namespace) {
                Ok(range) => range,
                Err(status) => return Some(status),
            };
            let left = range.length.saturating_sub(done);
            let piece = if left > 0 { self.zeroes_now(left)? } else { 0 };
            if piece > 0 {
                memory.zero(range.offset + done, piece);
            }
            let (next, done) = if piece == left { (next + 1, 0) } else { (next, done + piece) };
            self.slots.at(index).work = Work::Deallocate { next, ranges, done };
        }
        Some(Status::SUCCESS)
    }

    /// How many of `wanted` bytes may be zeroed now; `None` when this turn has no time left.
    fn zeroes_now(&mut self, wanted: u64) -> Option<u64> {
        self.work_now(wanted.div_ceil(ZEROED_BYTES_PER_WORK_BYTE))
            .map(|work| wanted.min(work * ZEROED_BYTES_PER_WORK_BYTE))
    }

    /// How many of `wanted` bytes may be worked on now; `None` when this turn has no time left.
    pub(super) fn work_now(&mut self, wanted: u64) -> Option<u64> {
        if self.work_left == 0 {
            return None;
        }
        let now = wanted.min(self.work_left.next_multiple_of(WORK_PIECE));
        self.spend(now);
        Some(now)
    }

    /// Takes so much work off what this turn has left.
    pub(super) const fn spend(&mut self, bytes: u64) {
        self.work_left = self.work_left.saturating_sub(bytes);
    }

    /// Whether zeroing so many bytes is nothing that a turn has to be careful with; then it counts as done.
    pub(super) fn zeroes_at_once(&mut self, length: u64) -> bool {
        let fits = length <= self.work_left * ZEROED_BYTES_PER_WORK_BYTE;
        if fits {
            self.spend(length.div_ceil(ZEROED_BYTES_PER_WORK_BYTE));
        }
        fits
    }

    /// Leaves the rest of a command to the next turn.
    pub(super) fn defer(&mut self, index: u16) {
        self.slots.at(index).stage = Stage::Turn;
        self.deferred.push_back(index);
    }

    /// A turn begins: what the last one has left is gone on with.
    pub(super) fn begin_turn(&mut self, env: &mut Environment<'_>) {
        self.work_left = WORK_BYTES_PER_TURN;
        if self.terminated {
            return;
        }
        while self.work_left > 0
            && let Some(index) = self.deferred.pop_front()
        {
            self.data_came(index, env);
        }
        if !self.waiting.is_empty() {
            self.wake_waiting(env);
        }
    }

    /// Whether something waits for nothing but its next turn.
    pub(super) fn wants_turn(&self) -> bool {
        !self.deferred.is_empty() || self.work_left == 0 && !self.waiting.is_empty()
    }
}
