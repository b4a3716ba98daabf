//! Fused Compare and Write: finding the two that belong together among other commands, and doing them as one step that
//! no other write on any reactor comes between.

use nvme::io::Fused;
use nvme::{Status, SubmissionEntry};

use super::connection::{Connection, Environment};
use super::fence::{Claim, Fence, Fenced, Then};
use super::slot::{Stage, Work};
use crate::backend::Backend;
use crate::ring::StorageOp;

/// What is known of a pair whose second command has not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pair {
    /// There is none.
    #[default]
    None,
    /// Its first command is in this slot.
    First(u16),
    /// Its first command has failed.
    Failed,
}

impl Connection {
    /// A command of a pair was refused before it had a slot: its partner cannot go on either.
    pub(super) fn pair_refused(&mut self, entry: &SubmissionEntry, env: &mut Environment<'_>) {
        let former = std::mem::take(&mut self.pair);
        if let Pair::First(first) = former {
            let second = entry.fused() == Fused::Second as u8;
            self.end_partner(
                first,
                if second { Status::ABORTED_FAILED_FUSED } else { Status::ABORTED_MISSING_FUSED },
                env,
            );
        }
        if entry.fused() == Fused::First as u8 {
            self.pair = Pair::Failed;
        }
    }

    /// Whether the second command of a pair, which would work on `work`, finds its first; else what to answer.
    pub(super) fn find_first(&mut self, nsid: u32, work: &Work) -> Result<u16, Status> {
        match self.pair {
            Pair::None => Err(Status::ABORTED_MISSING_FUSED),
            Pair::Failed => Err(Status::ABORTED_FAILED_FUSED),
            Pair::First(first) => {
                let slot = self.slots.at(first);
                let same = match (&slot.work, work) {
                    (Work::Compare { range }, Work::Write { range: written, .. }) => range == written,
                    _ => false,
                };
                if same && slot.nsid == nsid { Ok(first) } else { Err(Status::INVALID_FIELD.do_not_retry()) }
            }
        }
    }

    /// Ends a command whose partner has failed or never came. One whose data is still on its way ends with it.
    pub(super) fn end_partner(&mut self, index: u16, status: Status, env: &mut Environment<'_>) {
        self.slots.at(index).partner = None;
        match self.slots.at(index).stage {
            Stage::Data => self.slots.at(index).failed = Some(status),
            Stage::Buffer | Stage::Limits | Stage::Partner | Stage::Exclusive | Stage::Turn => {
                self.leave_waiting(index);
                self.finish(index, status, env);
            }
            // It cannot have begun without its partner.
            Stage::Storage | Stage::Syncs | Stage::Sending | Stage::Clerk => {}
        }
    }

    /// A command of a pair has its data: when its partner has its own too, both begin.
    pub(super) fn pair_data_came(&mut self, index: u16, env: &mut Environment<'_>) {
        self.slots.at(index).stage = Stage::Partner;
        let Some(partner) = self.slots.at(index).partner else { return };
        if self.slots.at(partner).stage == Stage::Partner {
            let is_first = self.slots.at(index).fused == Fused::First;
            self.begin_pair(if is_first { index } else { partner }, env);
        }
    }

    /// Claims the range for the pair, and waits until everybody who writes in it has ended.
    pub(super) fn begin_pair(&mut self, first: u16, env: &mut Environment<'_>) {
        let slot = self.slots.at(first);
        let (Work::Compare { range }, Some(second)) = (slot.work, slot.partner) else { return };
        let attachment = slot.view.as_ref().and_then(|view| view.attachment(slot.nsid));
        let Some(namespace) = attachment.map(|attachment| attachment.namespace.clone()) else { return };
        slot.stage = Stage::Exclusive;
        match Claim::new(&namespace, range, env.fabric) {
            Some(claim) => {
                slot.claim = Some(Box::new(claim));
                // From here on neither can be taken back alone.
                slot.stage = Stage::Storage;
                self.slots.at(second).stage = Stage::Storage;
                self.slots.keep();
                let asker = self.asker(0, env);
                Fence::raise(env.fabric, Fenced::Writes(namespace, range), Then::GoOn(asker, first));
            }
            None => {
                self.slots.at(second).stage = Stage::Exclusive;
                self.held_back.push_back(first);
            }
        }
    }

    /// Nobody else writes in the pair's range any more.
    pub(super) fn pair_goes_on(&mut self, first: u16, env: &mut Environment<'_>) {
        self.slots.abandon();
        let slot = self.slots.at(first);
        let (Work::Compare { range }, Some(second)) = (slot.work, slot.partner) else { return };
        let (view, nsid) = (slot.view.clone(), slot.nsid);
        let Some(namespace) = view.as_ref().and_then(|view| view.get(nsid)) else { return };
        if self.terminated {
            // Nothing may follow a termination request.
            self.slots.give(first, env.pool);
            return self.slots.give(second, env.pool);
        }
        if namespace.has_failed() {
            return self.refuse_after_failure(first, env);
        }
        if let Err(status) = namespace.check_end(range) {
            return self.finish(first, status, env);
        }
        if namespace.is_spoiled(range) {
            return self.media_failure(first, Status::UNRECOVERED_READ_ERROR, env);
        }
        match &*namespace.backend {
            Backend::Memory(memory) => {
                let Some(writer) = memory.writer(range.offset, range.length as usize) else {
                    // It tries again, and keeps its slots until then.
                    self.slots.keep();
                    return self.hold_back(first);
                };
                let equal = writer.equals(self.slots.data(first));
                if equal {
                    writer.write(self.slots.data(second));
                }
                drop(writer);
                self.end_pair(first, second, equal, env);
            }
            Backend::Null(_) => {
                let equal = self.slots.data(first).iter().all(|byte| *byte == 0);
                self.end_pair(first, second, equal, env);
            }
            Backend::Device(device) => {
                let buffer = env.pool.take(range.length as usize);
                self.start_beside(first, device, StorageOp::Read { buffer, offset: range.offset }, env);
            }
        }
    }

    /// What is stored was compared with the first command's data.
    pub(super) fn pair_compared(&mut self, first: u16, equal: bool, env: &mut Environment<'_>) {
        let slot = self.slots.at(first);
        let (Some(second), view, nsid) = (slot.partner, slot.view.clone(), slot.nsid) else { return };
        let backend = view.as_ref().and_then(|view| view.get(nsid)).map(|namespace| &*namespace.backend);
        let (true, Some(Backend::Device(device))) = (equal, backend) else {
            return self.end_pair(first, second, equal, env);
        };
        let Work::Write { range, durable } = self.slots.at(second).work else { return };
        if let Some(buffer) = self.slots.lend(second) {
            let operation = StorageOp::Write { buffer, offset: range.offset, durable };
            self.start_operation(second, device, operation, env);
        }
    }

    /// Answers both commands; the first is the one whose end gives the range free.
    pub(super) fn end_pair(&mut self, first: u16, second: u16, equal: bool, env: &mut Environment<'_>) {
        if !equal {
            return self.finish(first, Status::COMPARE_FAILURE, env);
        }
        self.slots.at(first).partner = None;
        self.slots.at(second).partner = None;
        self.finish(first, Status::SUCCESS, env);
        self.finish(second, Status::SUCCESS, env);
    }
}
