//! What a command does next: it waits for its limits, a buffer, its data, others who use its blocks, and then takes one step after
//! the other until it is answered. Each of these gives back what the command wants of its queue.

use nvme::Status;
use nvme::io::IoCommand;

use super::commands::Commands;
use super::context::Context;
use super::execute::{Data, Step, StepContext};
use super::request::{Next, Pair, Request, State};
use super::work::{Work, written};
use crate::backend::Backend;
use crate::limits::LARGE_DATA_LENGTH_MIN;
use crate::ring::Buffer;
use crate::target::queue::Place;
use crate::target::served::{HeldNamespace, Namespace, flags};
use crate::target::telemetry::Stage;

impl Commands {
    /// Resources of the steps in this turn.
    pub(super) fn step_context<'a>(&'a mut self, ctx: &'a mut Context<'_>) -> StepContext<'a> {
        let insists = self.patience.is_over(ctx.now);
        StepContext { work_left: &mut self.work_left, insists, pool: ctx.pool }
    }

    /// Goes on with a command that has no data: the namespace's limits first, then a buffer.
    pub(super) fn go_on_without_data(&mut self, index: u16, ctx: &mut Context<'_>) -> Next {
        if !self.slots.at(index).is_admitted && self.is_throttled(index, None, ctx).is_ok() {
            return Next::Nothing;
        }
        let length = self.slots.at(index).length as usize;
        let has_time = self.work_left > 0;
        if length > 0 && (!self.waiting.is_empty() || !self.slots.may_hold(length) || !has_time) {
            // In turn: small commands would else overtake a large one without end.
            self.slots.set(index, State::AwaitsBuffer);
            self.waiting.push_back(index);
            return Next::Nothing;
        }
        self.take_buffer(index, ctx)
    }

    /// Goes on with a command that has everything but its buffer, which it may have now.
    pub(super) fn take_buffer(&mut self, index: u16, ctx: &mut Context<'_>) -> Next {
        let Request { work, length, command_id, .. } = *self.slots.at(index);
        match work {
            Work::Read { .. } => {
                let buffer = self.slots.hold(length as usize, ctx.pool);
                self.execute(index, Some(buffer), ctx)
            }
            Work::Reservation { command: IoCommand::ReservationReport { .. } } => {
                self.hand_to_worker(index, None, ctx)
            }
            Work::Write { .. }
            | Work::Compare { .. }
            | Work::Deallocate { .. }
            | Work::Copy { .. }
            | Work::Reservation { .. } => {
                self.slots.set(index, State::AwaitsData { refused: None });
                let buffer = self.slots.hold(length as usize, ctx.pool);
                Next::Request { slot: index, command_id, buffer, place: self.place_of(index) }
            }
            Work::Flush | Work::Zero { .. } | Work::Verify { .. } | Work::MarkUncorrectable { .. } => {
                self.go_on(index, None, ctx)
            }
        }
    }

    /// Memory that the data of a large write may go to when all of it has come, without another
    /// look at the command.
    fn place_of(&self, index: u16) -> Option<Place<HeldNamespace>> {
        // A digest is compared before the backend sees a byte.
        let has_data_digest = self.of.has_data_digest;
        let request = self.slots.get(index)?;
        let Work::Write { range, .. } = request.work else { return None };
        let is_plain = request.is_admitted && !request.is_paired() && !has_data_digest;
        if !is_plain || range.length < LARGE_DATA_LENGTH_MIN as u64 {
            return None;
        }
        let Backend::Memory(_) = *request.view.get(request.nsid)?.backend else { return None };
        let holder = HeldNamespace::new(request.view.clone(), request.nsid);
        Some(Place { holder, offset: range.offset })
    }

    /// The data of the command in a slot has come to its place: the write has taken effect.
    pub(crate) fn data_placed(&mut self, index: u16, buffer: Buffer, ctx: &mut Context<'_>) -> Next {
        if let Some(request) = self.slots.get_mut(index) {
            request.goes_on_after(Stage::Receive, ctx.now);
        }
        let before = self.slots.set(index, State::InHand);
        // A command that is refused while its data is on its way loses its place with that.
        debug_assert!(matches!(before, State::AwaitsData { refused: None }), "{before:?}");
        self.finish(index, Status::SUCCESS, Some(buffer), ctx)
    }

    /// The data of the command in a slot has come.
    pub(crate) fn data_came(
        &mut self,
        index: u16,
        buffer: Buffer,
        is_intact: bool,
        ctx: &mut Context<'_>,
    ) -> Next {
        if let Some(request) = self.slots.get_mut(index) {
            request.goes_on_after(Stage::Receive, ctx.now);
        }
        let refused = match self.slots.set(index, State::InHand) {
            State::AwaitsData { refused } => refused,
            // It cannot have ended: a command is not ended while its data is on its way.
            _ => None,
        };
        let refused = if is_intact { refused } else { Some(Status::TRANSIENT_TRANSPORT_ERROR) };
        match refused {
            Some(status) => self.finish(index, status, Some(buffer), ctx),
            None => self.go_on(index, Some(buffer), ctx),
        }
    }

    /// Goes on with a command that has all its data, or needs none.
    pub(super) fn go_on(&mut self, index: u16, data: Option<Buffer>, ctx: &mut Context<'_>) -> Next {
        let data = if self.slots.at(index).is_admitted {
            data
        } else {
            match self.is_throttled(index, data, ctx) {
                Ok(()) => return Next::Nothing,
                Err(data) => data,
            }
        };
        if self.slots.at(index).is_paired() {
            return self.pair_has_data(index, data, ctx);
        }
        let work = self.slots.at(index).work;
        if let Work::Reservation { .. } = work {
            return self.hand_to_worker(index, data, ctx);
        }
        let view = self.slots.at(index).view.clone();
        let Some(namespace) = view.get(self.slots.at(index).nsid) else {
            return self.finish(index, Status::INVALID_NAMESPACE.do_not_retry(), data, ctx);
        };
        // It was checked when it came. While it waited, for its data or a limit, another host may have reserved the namespace, also at
        // another gateway that had it meanwhile, and that cannot reach what waits here.
        if namespace.flags() & flags::RESERVED != 0 && self.is_reserved_from(work, namespace) {
            return self.finish(index, Status::RESERVATION_CONFLICT, data, ctx);
        }
        // After its data, which may say which blocks it writes; and again when it goes on in a later turn, since a claim may be
        // newer than the command.
        if namespace.flags() & flags::SLOW != 0 {
            match self.pass_gates(index, data.as_deref().unwrap_or_default(), namespace) {
                Ok(()) => {}
                // Without `is_contended`, which would have turns taken until the claim is gone: who gives it back wakes all that
                // are held back.
                Err(None) => {
                    self.slots.set(index, State::HeldBack { data });
                    self.held_back.push_back(index);
                    return Next::Nothing;
                }
                Err(Some(status)) => return self.finish(index, status, data, ctx),
            }
        }
        self.execute(index, data, ctx)
    }

    /// True if another host's reservation forbids this host such work now.
    #[cold]
    pub(super) fn is_reserved_from(&self, work: Work, namespace: &Namespace) -> bool {
        work.access().is_some_and(|access| namespace.reservation_forbids(self.owner().host, access))
    }

    /// Checks a command against the namespace's claims and unreadable blocks: an error is a status
    /// for the host, or `None` if the command is held back.
    #[cold]
    fn pass_gates(&mut self, index: u16, data: &[u8], namespace: &Namespace) -> Result<(), Option<Status>> {
        let work = self.slots.at(index).work;
        if namespace.has_failed() && work.is_refused_after_failure() {
            return Err(Some(Status::WRITE_FAULT.do_not_retry()));
        }
        let written = written(&work, data, namespace).map_err(Some)?;
        if let Work::Compare { range } | Work::Verify { range } = work
            && namespace.is_uncorrectable(range)
        {
            return Err(Some(Status::UNRECOVERED_READ_ERROR));
        }
        if written.iter().any(|range| namespace.is_claimed(range)) {
            return Err(None);
        }
        // Marks of what may fail yet are cleared when it has not; here it is only made sure that they can be.
        let may_fail =
            matches!(*namespace.backend, Backend::Device(_)) && !matches!(work, Work::Deallocate { .. });
        match work {
            Work::MarkUncorrectable { .. } => Ok(()),
            _ if may_fail => written.iter().try_for_each(|range| namespace.check_clear_uncorrectable(*range)),
            _ => written.iter().try_for_each(|range| namespace.clear_uncorrectable(*range)),
        }
        .map_err(Some)
    }

    /// Does the next step of a command on its namespace.
    pub(super) fn execute(&mut self, index: u16, data: Option<Buffer>, ctx: &mut Context<'_>) -> Next {
        let request = self.slots.at(index);
        let (view, nsid) = (request.view.clone(), request.nsid);
        let (mut work, mut done) = (request.work, request.done);
        let Some(namespace) = view.get(nsid) else {
            return self.finish(index, Status::INVALID_NAMESPACE.do_not_retry(), data, ctx);
        };
        if let Work::Read { range } = work
            && namespace.is_uncorrectable(range)
        {
            return self.media_failure(index, Status::UNRECOVERED_READ_ERROR, data, ctx);
        }
        if work.needs_buffer_beside()
            && matches!(*namespace.backend, Backend::Device(_))
            && !self.slots.may_hold_beside()
        {
            self.slots.set(index, State::HeldBack { data });
            self.starved.push_back(index);
            return Next::Nothing;
        }
        let mut data = data.map_or(Data::None, Data::Buffer);
        let step = self.step_context(ctx).execute(namespace, &mut work, &mut done, &mut data);
        let data = data.into_buffer();
        let request = self.slots.at(index);
        (request.work, request.done) = (work, done);
        match step {
            Step::Done(status) => self.finish(index, status, data, ctx),
            Step::AwaitsTurn => {
                self.slots.set(index, State::AwaitsTurn { data });
                self.deferred.push_back(index);
                Next::Nothing
            }
            Step::AwaitsPage => self.hold_back(index, State::HeldBack { data }),
            Step::Store { operation, reads } => self.store(index, namespace, operation, (data, reads), ctx),
        }
    }

    /// Has a command retried in the next turn, because a page that it needs is in use.
    pub(super) fn hold_back(&mut self, index: u16, state: State) -> Next {
        self.slots.set(index, state);
        // Only on the list, and tried again when the next turn begins: tried at once it would find
        // the page as it is, and the turn would not end. `is_contended` asks for that turn, since
        // no wake-up follows the release of a page.
        self.held_back.push_back(index);
        self.is_contended = true;
        Next::Nothing
    }

    /// Answers the command of a slot, which is free then, and its partner's if it takes that with it.
    pub(super) fn finish(
        &mut self,
        index: u16,
        status: Status,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        let Some(mut request) = self.slots.end(index) else { return Next::Nothing };
        if !status.is_success() && self.pair == Pair::First(index) {
            self.pair = Pair::Failed;
        }
        let partner = request.partner();
        request.forget_partner();
        let reply = self.answer(&request, status, data, ctx);
        // After `answer`, which counts it: with the request its claim is given back, and others go on.
        drop(request);
        match partner.and_then(|partner| self.end_partner(partner, Status::ABORTED_FAILED_FUSED, ctx)) {
            Some(other) => Next::After(reply, Box::new(Next::Reply(other))),
            None => Next::Reply(reply),
        }
    }

    pub(super) fn try_again(&mut self, index: u16, ctx: &mut Context<'_>) -> Next {
        let Some(request) = self.slots.get(index) else { return Next::Nothing };
        match &request.state {
            State::HeldBack { .. } if request.is_paired() => self.begin_pair(index, ctx),
            State::HeldBack { .. } => {
                let data = self.slots.take_data(index);
                match self.slots.at(index).work {
                    Work::Read { .. } => self.execute(index, data, ctx),
                    _ => self.go_on(index, data, ctx),
                }
            }
            State::Exclusive { .. } => self.pair_goes_on(index, ctx),
            State::AwaitsSyncs { .. } => self.syncs_ended(index, ctx),
            _ => Next::Nothing,
        }
    }

    /// Takes a command out of whatever list it waits in; it is in hand then, with its data.
    pub(super) fn leave_waiting(&mut self, index: u16) -> Option<Buffer> {
        match self.slots.set(index, State::InHand) {
            State::AwaitsBuffer => {
                self.waiting.retain(|waiting| *waiting != index);
                None
            }
            State::Throttled { data } => {
                self.leave_throttle(index);
                data
            }
            State::HeldBack { data } => {
                self.held_back.retain(|held| *held != index);
                self.retried.retain(|held| *held != index);
                self.starved.retain(|starved| *starved != index);
                data
            }
            State::AwaitsTurn { data } => {
                self.deferred.retain(|deferred| *deferred != index);
                data
            }
            other => other.into_data(),
        }
    }
}
