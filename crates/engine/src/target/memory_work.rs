//! Commands on memory namespaces: done where they are started, with two exceptions. A command of a few bytes can ask for
//! megabytes to be copied or zeroed, so that a connection has a budget for each of its turns: what is left then waits for its next
//! one. And where somebody else uses a page in this very moment, the command is held back, and goes on from where it was.

use nvme::Status;
use nvme::io::Fused;

use super::connection::{Connection, Environment};
use super::namespace::{ByteRange, Namespace};
use super::slot::{Stage, Work};
use super::storage::dataset_range;
use crate::backend::Memory;
use crate::limits::{WORK_BYTES_PER_TURN, WORK_PIECE, ZEROED_BYTES_PER_WORK_BYTE};

/// Why a command goes on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// This turn has no time left.
    Turn,
    /// Somebody else uses a page that it needs.
    Page,
}

impl Connection {
    /// Reads into a slot's buffer, and sends it.
    pub(super) fn read_memory(
        &mut self,
        index: u16,
        memory: &Memory,
        range: ByteRange,
        env: &mut Environment<'_>,
    ) {
        self.spend(range.length);
        let insists = self.contention.insists(env.now);
        let (length, data) = (self.slots.at(index).length, self.slots.at(index).data.as_mut());
        let is_whole = data.is_some_and(|buffer| memory.read(range.offset, buffer, insists) == buffer.len());
        if is_whole { self.send_slot(index, length, env.now) } else { self.hold_back(index) }
    }

    /// Does a command that has its data, or what is left of it, as far as it can now.
    ///
    /// # Errors
    /// What it has to wait for.
    pub(super) fn do_in_memory(
        &mut self,
        index: u16,
        memory: &Memory,
        namespace: &Namespace,
        env: &mut Environment<'_>,
    ) -> Result<Status, Pause> {
        let (work, done) = (self.slots.at(index).work, self.slots.at(index).done);
        let data = self.slots.data(index);
        match work {
            Work::Write { range, .. } => {
                let left = &data[done as usize..];
                let written = memory.write(range.offset + done, left);
                let is_whole = written == left.len();
                self.slots.at(index).done = done + written as u64;
                if is_whole { Ok(Status::SUCCESS) } else { Err(Pause::Page) }
            }
            Work::Compare { range } => {
                let insists = self.contention.insists(env.now);
                let are_equal = memory.equals(range.offset, data, insists).ok_or(Pause::Page)?;
                Ok(if are_equal { Status::SUCCESS } else { Status::COMPARE_FAILURE })
            }
            Work::Zero { range, .. } => self.zero_in_memory(index, memory, range),
            Work::Spoil { range } => Ok(namespace.spoil(range).err().unwrap_or(Status::SUCCESS)),
            Work::Copy { .. } => match self.check_copy(index, namespace) {
                Ok(_) => self.copy_in_memory(index, memory, namespace, env),
                Err(status) => Ok(status),
            },
            Work::Deallocate { .. } => self.deallocate_in_memory(index, memory, namespace),
            _ => Ok(Status::SUCCESS),
        }
    }

    /// Makes what is left of a command's range zeroes.
    fn zero_in_memory(&mut self, index: u16, memory: &Memory, range: ByteRange) -> Result<Status, Pause> {
        loop {
            let done = self.slots.at(index).done;
            let left = range.length.saturating_sub(done);
            if left == 0 {
                return Ok(Status::SUCCESS);
            }
            let piece = self.zeroes_now(left).ok_or(Pause::Turn)?;
            let zeroed = memory.zero(range.offset + done, piece);
            self.slots.at(index).done = done + zeroed;
            if zeroed < piece {
                return Err(Pause::Page);
            }
        }
    }

    fn deallocate_in_memory(
        &mut self,
        index: u16,
        memory: &Memory,
        namespace: &Namespace,
    ) -> Result<Status, Pause> {
        while let Work::Deallocate { next, ranges } = self.slots.at(index).work
            && next < ranges
        {
            match dataset_range(self.slots.data(index), next, namespace) {
                Ok(range) => self.zero_in_memory(index, memory, range)?,
                Err(status) => return Ok(status),
            };
            self.slots.at(index).done = 0;
            self.slots.at(index).work = Work::Deallocate { next: next + 1, ranges };
        }
        Ok(Status::SUCCESS)
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
        // With many such connections a round would else be long, however short their turns are.
        let has_work = !self.deferred.is_empty();
        self.work_left = if has_work { self.work_share.max(WORK_PIECE) } else { WORK_BYTES_PER_TURN };
        if self.terminated {
            return;
        }
        if self.contention.retries {
            self.try_held_back(env);
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

    /// Has a command tried again with the next turn, since somebody else uses what it needs.
    pub(super) fn hold_back(&mut self, index: u16) {
        let slot = self.slots.at(index);
        // A fused pair that nobody else writes beside any more is not taken back.
        if slot.stage != Stage::Storage {
            slot.stage = Stage::Exclusive;
        }
        self.held_back.push_back(index);
        self.contention.retries = true;
    }

    /// Tries again with the commands that are held back.
    pub(super) fn try_held_back(&mut self, env: &mut Environment<'_>) {
        self.contention.retries = false;
        for index in std::mem::take(&mut self.held_back) {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            match (slot.stage, slot.fused, slot.work) {
                (Stage::Exclusive, Fused::No, Work::Read { range }) => self.begin_read(index, range, env),
                (Stage::Exclusive, Fused::No, _) => self.data_came(index, env),
                (Stage::Exclusive, ..) => self.begin_pair(index, env),
                (Stage::Storage, Fused::First, _) => self.pair_goes_on(index, env),
                (Stage::Syncs, ..) => self.syncs_ended(index, env),
                _ => {}
            }
        }
    }

    /// Tries none of them again.
    pub(super) fn forget_held_back(&mut self) {
        for index in std::mem::take(&mut self.held_back) {
            // What a fused pair keeps its slots for does not come any more.
            if self.slots.get_mut(index).is_some_and(|slot| slot.stage == Stage::Storage) {
                self.slots.abandon();
            }
        }
        self.contention.retries = false;
    }
}
