//! The I/O commands of one queue: how a command begins and is answered, those under way, and which of them goes on next. A
//! command is done where it was decoded if that is possible, and has a slot else. What becomes of it there is in the files beside
//! this one; none of them knows a socket. Commands and data come in as values, and so goes out what is to happen next.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nvme::command::admin_opcode;
use nvme::io::{Fused, asks_for_protection};
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};

use super::context::{Capsule, Context};
use super::execute::{Data, Step};
use super::host_buffers::HostBuffers;
use super::request::{Next, Pair, Reply, Request, State};
use super::slots::{Arriving, Slots};
use super::throttle::Throttle;
use super::work::{Checked, Work, check};
use crate::backend::{Backend, Patience, is_within_page};
use crate::limits::{WORK_BYTES_PER_TURN, WORK_PIECE};
use crate::ring::{self, Buffer, BufferPool, Moment};
use crate::target::controller::Controller;
use crate::target::messaging::{Address, Asker, Owner};
use crate::target::queue::{Disconnect, Payload};
use crate::target::served::{ByteRange, HeldNamespace, NamespaceTable, NamespaceView, flags};
use crate::target::telemetry::{Peculiarity, QueueMeter, ReactorCounters, SlowCommand, SlowCommands, Stage};

/// Identity of a queue: its controller and peer, its counters, and the parameters it was connected
/// with.
pub(crate) struct QueueIdentity {
    pub(crate) controller: Arc<Controller>,
    pub(crate) counters: Arc<ReactorCounters>,
    pub(crate) meter: Arc<QueueMeter>,
    pub(crate) slow_commands: Arc<SlowCommands>,
    pub(crate) queue_id: u16,
    pub(crate) entries: u16,
    /// True if data has a digest, for which it must not change while it is sent.
    pub(crate) has_data_digest: bool,
    pub(crate) address: Address,
    pub(crate) peer: SocketAddr,
}

/// The I/O commands of one queue.
pub(crate) struct Commands {
    pub(crate) of: QueueIdentity,
    /// The namespaces that new commands find.
    pub(super) view: Rc<NamespaceView>,
    pub(crate) slots: Slots,
    /// Commands that wait for a buffer, in turn.
    pub(super) waiting: VecDeque<u16>,
    /// Commands held back by a fused pair, or by other users of the same page of a memory namespace.
    pub(super) held_back: VecDeque<u16>,
    /// Commands from `held_back` that are being retried now.
    pub(super) retried: VecDeque<u16>,
    /// Commands that wait until the storage may have another buffer beside commands' data, in turn.
    pub(super) starved: VecDeque<u16>,
    /// Commands that go on in the next turn.
    pub(super) deferred: VecDeque<u16>,
    /// Commands that the limits have let through just now.
    pub(super) admitted: VecDeque<u16>,
    /// Bytes that may still be worked on in this turn.
    pub(super) work_left: u64,
    /// Set once a command was held back because a page of memory is in use. The next turn clears it
    /// before it retries, so it is set at the end of a turn only if a command was held back during
    /// that turn.
    pub(super) is_contended: bool,
    pub(super) patience: Patience,
    /// State of the fused pair that is being received.
    pub(super) pair: Pair,
    /// Commands that wait for the limits of their namespaces, and when to look again.
    pub(super) throttles: Vec<Throttle>,
    pub(super) alarm: Option<Moment>,
    pub(super) new_alarm: Option<Moment>,
    /// Set once commands are no longer answered.
    pub(super) is_stopped: bool,
    /// I/O commands that were taken in all.
    pub(super) taken: u64,
    /// Storage operations that take no longer are neither late nor the longest.
    pub(super) usual: Duration,
}

impl Commands {
    /// Creates the state of a newly connected queue.
    pub(crate) fn new(of: QueueIdentity) -> Self {
        Self {
            view: Rc::new(NamespaceView::new(of.controller.table())),
            slots: Slots::new(of.entries),
            of,
            waiting: VecDeque::new(),
            held_back: VecDeque::new(),
            retried: VecDeque::new(),
            starved: VecDeque::new(),
            deferred: VecDeque::new(),
            admitted: VecDeque::new(),
            work_left: WORK_BYTES_PER_TURN,
            is_contended: false,
            patience: Patience::default(),
            pair: Pair::None,
            throttles: Vec::new(),
            alarm: None,
            new_alarm: None,
            is_stopped: false,
            taken: 0,
            usual: Duration::ZERO,
        }
    }

    /// Counts buffers together with those of other queues of the host on this reactor.
    pub(crate) fn share_buffers(&mut self, hosts: &mut HostBuffers) {
        self.slots.share(hosts.of(&self.of.controller.guest));
    }

    /// Host and controller that these commands belong to.
    pub(crate) fn owner(&self) -> Owner {
        let controller = &self.of.controller;
        Owner { host: controller.host.digest, controller: controller.instance }
    }

    /// Address for the reply to one of these commands, given to the worker that produces the reply.
    pub(super) fn asker(&self, command_id: u16, ctx: &Context<'_>) -> Asker {
        let (mailboxes, QueueIdentity { address, peer, .. }) = (ctx.fabric.mailboxes().clone(), &self.of);
        Asker { mailboxes, address: *address, command_id, peer: *peer }
    }

    /// New commands find these namespaces from now on. Those under way keep what they have found.
    pub(crate) fn refresh(&mut self, table: Arc<NamespaceTable>) {
        if !self.view.is_of(&table) {
            self.view = Rc::new(NamespaceView::new(table));
        }
    }

    /// Tells the queue's meter how far it is.
    pub(crate) fn tell_meter(&self) {
        self.of.meter.tell(self.taken, self.slots.busy());
    }

    /// A command, with what has come of its capsule's data.
    ///
    /// # Errors
    /// When no conforming host sends it, or the controller is gone.
    pub(crate) fn begin(
        &mut self,
        entry: &SubmissionEntry,
        capsule: Capsule<'_>,
        ctx: &mut Context<'_>,
    ) -> Result<Next, Disconnect> {
        self.taken += 1;
        let controller = &self.of.controller;
        if !controller.is_ready() {
            // The word to close this queue is on its way. An answer would tell the host that its command has failed, and
            // not that it has lost the controller and may send it elsewhere.
            if controller.has_ended() {
                return Err(Disconnect::Gone);
            }
            return Ok(Next::Reply(self.refuse(entry, Status::COMMAND_SEQUENCE_ERROR)));
        }
        let view = self.view.clone();
        let checked = match view.attachment(entry.nsid.get()) {
            Some(attachment) => check(entry, capsule.length, attachment, controller.host.digest)
                .map(|checked| (checked, attachment)),
            None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
        };
        let (mut checked, attachment) = match checked {
            Ok(checked) => checked,
            Err(status) => return Ok(self.refuse_one_of_a_pair(entry, status, ctx)),
        };
        if asks_for_protection(entry) {
            ctx.seen.note(Peculiarity::ProtectionInformation);
        }
        if checked.work.is_long_zeroing() {
            ctx.seen.note(Peculiarity::LongWriteZeroes);
        }
        let namespace = &*attachment.namespace;
        if let (Work::Read { range } | Work::Write { range, .. }, Backend::Memory(memory)) =
            (checked.work, &*namespace.backend)
        {
            memory.prefetch_lock(range.offset);
        }
        // Memory answers at once, and needs neither slot nor buffer unless a digest has to hold still. A page does so for as
        // long as it takes to send it.
        let is_immediate = (!self.of.has_data_digest || is_read_of_a_page(checked.work))
            && namespace.flags() & flags::SLOW == 0
            && checked.fused == Fused::No
            && !matches!(*namespace.backend, Backend::Device(_))
            // An identifier that a command in a slot has is refused where slots are taken. Without such a command, as on a
            // queue that uses memory alone, this is one comparison.
            && !self.slots.has_command(entry.command_id.get());
        let mut done = 0;
        if is_immediate && let Some(reply) = self.answer_now(&mut checked, &mut done, &view, capsule, ctx) {
            let (nsid, operation) = (entry.nsid.get(), checked.work.operation());
            self.of.counters.done_at_once(nsid, operation, checked.length);
            return Ok(Next::Reply(reply));
        }
        self.start(&checked, done, view, ctx)
    }

    /// Does a command where it is decoded, without slot or buffer, if that is possible. `done` is what of it was done else.
    fn answer_now(
        &mut self,
        checked: &mut Checked<'_>,
        done: &mut u64,
        view: &Rc<NamespaceView>,
        capsule: Capsule<'_>,
        ctx: &mut Context<'_>,
    ) -> Option<Reply> {
        let (nsid, command_id) = (checked.entry.nsid.get(), checked.entry.command_id.get());
        let namespace = view.get(nsid)?;
        if let Work::Read { range } = checked.work {
            // Nothing is left to do: the reply says where the bytes are, and they leave from there.
            let payload = match *namespace.backend {
                Backend::Memory(_) => {
                    let holder = HeldNamespace::new(view.clone(), nsid);
                    Payload::Memory { holder, offset: range.offset }
                }
                Backend::Null(_) => Payload::Zeroes,
                Backend::Device(_) => return None,
            };
            return Some(Reply::with_data(command_id, payload, checked.length));
        }
        let mut data = match (checked.length, checked.in_capsule) {
            (0, _) => Data::None,
            (length, Some(at)) => Data::Capsule(capsule.whole?.get(at..at + length as usize)?),
            // Its data is still to be asked for.
            (_, None) => return None,
        };
        match self.step_context(ctx).execute(namespace, &mut checked.work, done, &mut data) {
            Step::Done(Status::SUCCESS) => Some(Reply::new(command_id, Status::SUCCESS, 0)),
            // What fails gets a slot like any other command, and is answered from there.
            _ => None,
        }
    }

    /// Starts a command in a slot.
    fn start(
        &mut self,
        checked: &Checked<'_>,
        done: u64,
        view: Rc<NamespaceView>,
        ctx: &mut Context<'_>,
    ) -> Result<Next, Disconnect> {
        let entry = checked.entry;
        let (nsid, command_id) = (entry.nsid.get(), entry.command_id.get());
        let refused = if self.slots.has_command(command_id) {
            Err(Status::COMMAND_ID_CONFLICT)
        } else if checked.fused == Fused::Second {
            self.find_first(nsid, &checked.work).map(Some)
        } else {
            Ok(None)
        };
        let partner = match refused {
            Ok(partner) => partner,
            Err(status) => return Ok(self.refuse_one_of_a_pair(entry, status, ctx)),
        };
        let former = self.replaced_first(checked.fused, ctx);
        let shaped = view.get(nsid).is_some_and(|namespace| namespace.flags() & flags::SHAPED != 0);
        let (opcode, work, length, now) = (entry.opcode, checked.work, checked.length, ctx.now);
        let taken = self.slots.take(Arriving { command_id, opcode, nsid, view, work, length, now });
        let Some(index) = taken else {
            tracing::info!(
                peer = %self.of.peer,
                entries = self.of.entries,
                "more than twice as many commands outstanding as the queue has entries; closing the connection"
            );
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        };
        if self.slots.are_overrun() {
            ctx.seen.note(Peculiarity::QueueOverrun);
        }
        self.join_pair(index, checked.fused, partner);
        let request = self.slots.at(index);
        request.is_admitted = !shaped;
        request.done = done;
        let next = if let Some(skip) = checked.in_capsule {
            // Its data is behind it in the stream; everything else comes when it is there.
            self.slots.set(index, State::AwaitsData { refused: None });
            let buffer = self.slots.hold(length as usize, ctx.pool);
            Next::Capsule { slot: index, skip, buffer }
        } else {
            self.go_on_without_data(index, ctx)
        };
        Ok(match (former, next) {
            (None, next) => next,
            // The first command of another pair waits for its second from here on, which cannot have answered it.
            (Some(former), Next::Nothing) => Next::Reply(former),
            (Some(former), next) => Next::After(former, Box::new(next)),
        })
    }

    /// Continues the next command that can proceed, and returns its next step; `None` when no
    /// command can. Candidates are commands that were held back, those that limits have admitted,
    /// those deferred from the last turn, and those that wait for a buffer. The caller repeats the
    /// call until it returns `None`. Commands that have buffers come before those that wait for
    /// one: their completion frees buffers.
    pub(crate) fn advance(&mut self, ctx: &mut Context<'_>) -> Option<Next> {
        if let Some(index) = self.retried.pop_front() {
            return Some(self.try_again(index, ctx));
        }
        if let Some(index) = self.admitted.pop_front() {
            return Some(self.go_on_admitted(index, ctx));
        }
        if self.work_left > 0
            && let Some(index) = self.deferred.pop_front()
        {
            let data = self.slots.take_data(index);
            return Some(self.go_on(index, data, ctx));
        }
        if let Some(index) = self.starved.front().copied()
            && self.slots.may_hold_beside()
        {
            self.starved.pop_front();
            self.slots.at(index).goes_on_after(Stage::Buffer, ctx.now);
            return Some(self.try_again(index, ctx));
        }
        let length = self.slots.get(*self.waiting.front()?).map_or(0, |request| request.length as usize);
        if !self.slots.may_hold(length) || self.work_left == 0 {
            return None;
        }
        let index = self.waiting.pop_front()?;
        self.slots.at(index).goes_on_after(Stage::Buffer, ctx.now);
        Some(self.take_buffer(index, ctx))
    }

    /// The answer to a command that has left its slot; what it had as data goes to the host or back to the pool.
    pub(super) fn answer(
        &mut self,
        request: &Request,
        status: Status,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Reply {
        let Request { command_id, nsid, work, length, .. } = *request;
        if status.is_success() {
            self.count_done(request, ctx.now);
            return match (work, data) {
                (Work::Read { .. }, Some(buffer)) => {
                    Reply::with_data(command_id, Payload::Buffer(buffer), length)
                }
                (_, data) => {
                    self.give_back(data, ctx.pool);
                    Reply::new(command_id, status, 0)
                }
            };
        }
        let mut entry = SubmissionEntry::new(request.opcode, nsid);
        entry.command_id = command_id.into();
        if status == Status::COMPARE_FAILURE {
            self.of.counters.differed(nsid, length);
        }
        self.give_back(data, ctx.pool);
        self.refuse(&entry, status)
    }

    pub(super) fn give_back(&mut self, data: Option<Buffer>, pool: &mut BufferPool) {
        if let Some(buffer) = data {
            self.slots.release(buffer, pool);
        }
    }

    /// A buffer with this number of bytes, which belongs to none of these commands, leaves for the host with their answers.
    pub(crate) fn buffer_leaves(&mut self, bytes: usize) {
        self.slots.count(bytes);
    }

    /// Buffers with this number of bytes in all have left for the host.
    pub(crate) fn buffers_left(&mut self, bytes: usize) {
        self.slots.uncount(bytes);
    }

    /// Answers a command that failed, and writes it into the error log.
    pub(crate) fn refuse(&self, entry: &SubmissionEntry, status: Status) -> Reply {
        let QueueIdentity { controller, counters, queue_id, .. } = &self.of;
        let nsid = entry.nsid.get();
        // A Fabrics command has something else there, and a host may name whatever it likes.
        let is_named = entry.opcode != admin_opcode::FABRICS
            && (counters.knows(nsid) || self.view.attachment(nsid).is_some());
        counters.failed(if is_named { nsid } else { 0 }, status);
        controller.log_error(*queue_id, entry, status);
        Reply::new(entry.command_id.get(), status, 0)
    }

    /// Counts a command that went well and is answered now.
    pub(super) fn count_done(&self, request: &Request, now: Moment) {
        let Request { nsid, work, length, began, times, .. } = request;
        let took_ns = now.0.saturating_sub(began.0);
        let times_ns = times.of(took_ns);
        self.of.counters.done(*nsid, work.operation(), *length, (took_ns, times_ns));
        self.of.meter.spent(&times_ns);
        if self.of.slow_commands.are_reported_from(took_ns) {
            self.note_slow(request, took_ns, now);
        }
    }

    #[cold]
    fn note_slow(&self, request: &Request, took_ns: u64, now: Moment) {
        let QueueIdentity { controller, slow_commands, queue_id, peer, .. } = &self.of;
        let namespace = request.attachment().map(|attachment| &attachment.namespace);
        let in_blocks = |range: ByteRange| {
            let shift = namespace?.block_shift();
            Some((range.offset >> shift, range.length >> shift))
        };
        slow_commands.note(now, || SlowCommand {
            number: 0,
            at: ring::wall_time(),
            host_nqn: controller.host.nqn.clone(),
            peer: *peer,
            subsystem: controller.subsystem.nqn.clone(),
            controller: controller.id,
            queue: *queue_id,
            nsid: request.nsid,
            operation: request.work.operation(),
            blocks: request.work.whole_range().and_then(in_blocks),
            bytes: request.length,
            took_ns,
            stages_ns: request.times.of(took_ns),
        });
    }

    /// A turn begins, in which at most so much may be done of what the last one has left: others of the reactor have such work
    /// too.
    pub(crate) fn begin_turn(&mut self, work_share: u64) {
        // With many such queues a round would else be long, however short their turns are.
        let has_work = !self.deferred.is_empty();
        self.work_left = if has_work { work_share.max(WORK_PIECE) } else { WORK_BYTES_PER_TURN };
        if self.is_contended {
            self.retry();
        }
    }

    /// A turn has ended.
    pub(crate) fn settle(&mut self, now: Moment) {
        self.patience.settle(self.is_contended, now);
    }

    /// True while sweeps have to look at the queue: operations are at the storage, or commands wait
    /// for limits.
    pub(crate) const fn needs_sweep(&self) -> bool {
        self.slots.kept() > 0 || !self.throttles.is_empty()
    }

    /// True if the first command of a fused pair waits for its second.
    pub(crate) const fn awaits_second(&self) -> bool {
        matches!(self.pair, Pair::First(_))
    }

    /// True if a command waits only for the queue's next turn.
    pub(crate) fn wants_turn(&self) -> bool {
        self.is_contended || !self.deferred.is_empty() || self.work_left == 0 && !self.waiting.is_empty()
    }

    /// Time of the turn that limits require, if it has changed since the previous call.
    pub(crate) const fn take_alarm(&mut self) -> Option<Moment> {
        self.new_alarm.take()
    }

    /// True if commands are held back.
    pub(crate) fn has_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Tries again with the commands that are held back.
    pub(crate) fn retry(&mut self) {
        // First: a command that is retried now and held back again sets it once more.
        self.is_contended = false;
        self.retried.append(&mut self.held_back);
    }

    /// Stops all commands except those at the storage or a worker: the connection is closed, or
    /// about to be.
    pub(crate) fn stop(&mut self, pool: &mut BufferPool) {
        self.is_stopped = true;
        self.waiting.clear();
        self.starved.clear();
        self.deferred.clear();
        self.admitted.clear();
        self.throttles.clear();
        self.is_contended = false;
        for index in self.held_back.drain(..).chain(self.retried.drain(..)) {
            // A fused pair keeps its slots for its claim, which is no longer needed.
            if matches!(self.slots.get(index), Some(Request { state: State::Exclusive { .. }, .. })) {
                self.slots.discard(index, pool);
            }
        }
    }
}

/// True for a read within one page.
const fn is_read_of_a_page(work: Work) -> bool {
    matches!(work, Work::Read { range } if is_within_page(range.offset, range.length))
}
