//! Fused Compare and Write: finding the two that belong together among other commands, and doing them as one step that
//! no other write on any reactor comes between.

use nvme::io::Fused;
use nvme::{Status, SubmissionEntry};

use super::commands::Commands;
use super::context::Context;
use super::execute::{Data, Step};
use super::request::{Next, Pair, Pairing, Reply, Request, State};
use super::work::Work;
use crate::ring::{Buffer, StorageOp};
use crate::target::messaging::{Claim, Fenced, Then};
use crate::target::served::flags;

impl Commands {
    /// Answers a command that was refused before it had a slot. If it is one of a pair, its partner cannot go on either.
    pub(super) fn refuse_one_of_a_pair(
        &mut self,
        entry: &SubmissionEntry,
        status: Status,
        ctx: &mut Context<'_>,
    ) -> Next {
        let reply = self.refuse(entry, status);
        if entry.fused() == 0 {
            return Next::Reply(reply);
        }
        let former = std::mem::take(&mut self.pair);
        let mut other = None;
        if let Pair::First(first) = former {
            let is_second = entry.fused() == Fused::Second as u8;
            let status = if is_second { Status::ABORTED_FAILED_FUSED } else { Status::ABORTED_MISSING_FUSED };
            other = self.end_partner(first, status, ctx);
        }
        if entry.fused() == Fused::First as u8 {
            self.pair = Pair::Failed;
        }
        match other {
            Some(other) => Next::After(reply, Box::new(Next::Reply(other))),
            None => Next::Reply(reply),
        }
    }

    /// Slot of the first command of the pair whose second command would execute `work`.
    pub(super) fn find_first(&mut self, nsid: u32, work: &Work) -> Result<u16, Status> {
        match self.pair {
            Pair::None => Err(Status::ABORTED_MISSING_FUSED),
            Pair::Failed => Err(Status::ABORTED_FAILED_FUSED),
            Pair::First(first) => {
                let request = self.slots.at(first);
                let same = match (&request.work, work) {
                    (Work::Compare { range }, Work::Write { range: written, .. }) => range == written,
                    _ => false,
                };
                let same = same && request.nsid == nsid;
                if same { Ok(first) } else { Err(Status::INVALID_FIELD.do_not_retry()) }
            }
        }
    }

    /// A new first command has come: the former one, whose second never came, is answered.
    pub(super) fn replaced_first(&mut self, fused: Fused, ctx: &mut Context<'_>) -> Option<Reply> {
        let (Fused::First, Pair::First(former)) = (fused, self.pair) else { return None };
        self.end_partner(former, Status::ABORTED_MISSING_FUSED, ctx)
    }

    /// Notes that a command is one of a pair; the second with the slot of its first.
    pub(super) fn join_pair(&mut self, index: u16, fused: Fused, partner: Option<u16>) {
        match (fused, partner) {
            (Fused::First, _) => {
                self.slots.at(index).pairing = Pairing::First { second: None, claim: None };
                self.pair = Pair::First(index);
            }
            (Fused::Second, Some(first)) => {
                self.slots.at(index).pairing = Pairing::Second { first: Some(first) };
                self.slots.at(first).pairing = Pairing::First { second: Some(index), claim: None };
                self.pair = Pair::None;
            }
            _ => {}
        }
    }

    /// Ends a command whose partner has failed or never came. One whose data is still on its way ends with it.
    pub(super) fn end_partner(&mut self, index: u16, status: Status, ctx: &mut Context<'_>) -> Option<Reply> {
        let request = self.slots.get_mut(index)?;
        request.forget_partner();
        match &mut request.state {
            State::AwaitsData { refused } => {
                *refused = Some(status);
                None
            }
            // It cannot have begun without its partner.
            State::InHand | State::AtStorage(_) | State::AwaitsSyncs { .. } | State::AtWorker => None,
            _ => {
                let data = self.leave_waiting(index);
                let request = self.slots.end(index)?;
                if self.pair == Pair::First(index) {
                    self.pair = Pair::Failed;
                }
                Some(self.answer(&request, status, data, ctx))
            }
        }
    }

    /// A command of a pair has its data: when its partner has its own too, both begin.
    pub(super) fn pair_has_data(&mut self, index: u16, data: Option<Buffer>, ctx: &mut Context<'_>) -> Next {
        self.slots.set(index, State::AwaitsPartner { data });
        let is_first = matches!(self.slots.at(index).pairing, Pairing::First { .. });
        let Some(partner) = self.slots.at(index).partner() else { return Next::Nothing };
        if matches!(self.slots.get(partner), Some(Request { state: State::AwaitsPartner { .. }, .. })) {
            return self.begin_pair(if is_first { index } else { partner }, ctx);
        }
        Next::Nothing
    }

    /// Claims the range for the pair, and waits until everybody who writes in it has ended.
    pub(super) fn begin_pair(&mut self, first: u16, ctx: &mut Context<'_>) -> Next {
        let request = self.slots.at(first);
        let (Work::Compare { range }, Some(second)) = (request.work, request.partner()) else {
            return Next::Nothing;
        };
        let Some(namespace) = request.attachment().map(|attachment| attachment.namespace.clone()) else {
            return Next::Nothing;
        };
        let [compared, written] = [first, second].map(|slot| self.slots.take_data(slot));
        let Some(claim) = Claim::new(&namespace, range, ctx.fabric.mailboxes()) else {
            self.slots.set(first, State::HeldBack { data: compared });
            self.slots.set(second, State::HeldBack { data: written });
            self.held_back.push_back(first);
            return Next::Nothing;
        };
        self.slots.at(first).pairing = Pairing::First { second: Some(second), claim: Some(Box::new(claim)) };
        // From here on neither can be taken back alone.
        self.slots.set(first, State::Exclusive { data: compared });
        self.slots.set(second, State::Joined { data: written });
        let then = Then::GoOn(self.of.address, first);
        ctx.fabric.mailboxes().raise(Fenced::Writes(namespace, range), then);
        Next::Nothing
    }

    /// Continues the pair whose first command is in this slot, after its range has been cleared of
    /// other writes.
    pub(crate) fn pair_goes_on(&mut self, first: u16, ctx: &mut Context<'_>) -> Next {
        let Some(request) = self.slots.get(first) else { return Next::Nothing };
        let (mut work, view, nsid) = (request.work, request.view.clone(), request.nsid);
        let (Work::Compare { range }, Some(second)) = (work, request.partner()) else { return Next::Nothing };
        let Some(namespace) = view.get(nsid) else { return Next::Nothing };
        if self.is_stopped {
            [first, second].into_iter().for_each(|slot| self.slots.discard(slot, ctx.pool));
            return Next::Nothing;
        }
        let data = self.slots.take_data(first);
        if namespace.has_failed() {
            return self.refuse_after_failure(first, data, ctx);
        }
        let written = Work::Write { range, durable: false };
        if namespace.flags() & flags::RESERVED != 0 && self.is_reserved_from(written, namespace) {
            return self.finish(first, Status::RESERVATION_CONFLICT, data, ctx);
        }
        if let Err(status) = namespace.check_end(range) {
            return self.finish(first, status, data, ctx);
        }
        if namespace.is_uncorrectable(range) {
            return self.media_failure(first, Status::UNRECOVERED_READ_ERROR, data, ctx);
        }
        let Some(compared) = data else {
            return self.finish(first, Status::INTERNAL_ERROR, None, ctx);
        };
        let written = self.slots.take_data(second);
        let mut data = Data::Pair { compared, written: written.as_deref().unwrap_or_default() };
        let step = self.step_context(ctx).execute(namespace, &mut work, &mut 0, &mut data);
        let compared = data.into_buffer();
        self.slots.set(second, State::Joined { data: written });
        match step {
            Step::Done(Status::SUCCESS) => self.end_pair(first, second, (compared, None), ctx),
            Step::Done(status) => self.finish(first, status, compared, ctx),
            // It tries again, and keeps its slots until then.
            Step::AwaitsTurn | Step::AwaitsPage => self.hold_back(first, State::Exclusive { data: compared }),
            Step::Store { operation, reads } => {
                self.store(first, namespace, operation, (compared, reads), ctx)
            }
        }
    }

    /// Continues a pair after its Compare.
    pub(super) fn pair_compared(
        &mut self,
        first: u16,
        are_equal: bool,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        if !are_equal {
            return self.finish(first, Status::COMPARE_FAILURE, data, ctx);
        }
        let request = self.slots.at(first);
        let (view, nsid) = (request.view.clone(), request.nsid);
        let (Some(second), Some(namespace)) = (request.partner(), view.get(nsid)) else {
            return self.finish(first, Status::INTERNAL_ERROR, data, ctx);
        };
        // Its claim stays until the second has been written.
        self.slots.set(first, State::Joined { data });
        let (work, buffer) = (self.slots.at(second).work, self.slots.take_data(second));
        let (Work::Write { range, durable }, Some(buffer)) = (work, buffer) else {
            return self.finish(second, Status::INTERNAL_ERROR, None, ctx);
        };
        let operation = StorageOp::Write { buffer, offset: range.offset, durable };
        self.store(second, namespace, operation, (None, false), ctx)
    }

    /// Answers both commands, which have gone well, with what of their data is in hand; the first is the one whose end gives
    /// the range free.
    pub(super) fn end_pair(
        &mut self,
        first: u16,
        second: u16,
        (compared, written): (Option<Buffer>, Option<Buffer>),
        ctx: &mut Context<'_>,
    ) -> Next {
        let compared = compared.or_else(|| self.slots.take_data(first));
        let written = written.or_else(|| self.slots.take_data(second));
        let (Some(first), Some(second)) = (self.slots.end(first), self.slots.end(second)) else {
            return Next::Nothing;
        };
        let compared = self.answer(&first, Status::SUCCESS, compared, ctx);
        let written = self.answer(&second, Status::SUCCESS, written, ctx);
        Next::After(compared, Box::new(Next::Reply(written)))
    }
}
