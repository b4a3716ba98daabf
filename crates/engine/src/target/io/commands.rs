//! The I/O commands of one queue: those under way, what they wait for, and whose they are. What a command does is in the files
//! beside this one; none of them knows a socket. Commands and data come in as values, and so goes out what is to happen next.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nvme::command::admin_opcode;
use nvme::{Status, SubmissionEntry};

use super::context::Context;
use super::request::{Pair, Reply, Request, State};
use super::slots::Slots;
use super::throttle::Throttle;
use super::work::Work;
use crate::backend::Patience;
use crate::limits::{WORK_BYTES_PER_TURN, WORK_PIECE};
use crate::ring::{Buffer, BufferPool, Moment};
use crate::target::controller::Controller;
use crate::target::messaging::{Address, Asker, Owner};
use crate::target::queue::Payload;
use crate::target::served::{NamespaceTable, NamespaceView};
use crate::target::telemetry::{QueueMeter, ReactorCounters};

/// Whose commands they are, where they are counted, and how their queue is.
pub(crate) struct QueueIdentity {
    pub(crate) controller: Arc<Controller>,
    pub(crate) counters: Arc<ReactorCounters>,
    pub(crate) meter: Arc<QueueMeter>,
    pub(crate) queue_id: u16,
    pub(crate) entries: u16,
    /// Whether data has a digest, for which it has to hold still.
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
    /// Commands that a fused pair holds back, or somebody who uses the same page of a memory namespace.
    pub(super) held_back: VecDeque<u16>,
    /// Those of them that are tried again now.
    pub(super) retried: VecDeque<u16>,
    /// Commands that go on in the next turn.
    pub(super) deferred: VecDeque<u16>,
    /// Commands that the limits have let through just now.
    pub(super) admitted: VecDeque<u16>,
    /// Bytes that may still be worked on in this turn.
    pub(super) work_left: u64,
    /// Whether a command needs a page of memory that somebody else uses.
    pub(super) is_contended: bool,
    pub(super) patience: Patience,
    /// Where the second command of a fused pair finds its first.
    pub(super) pair: Pair,
    /// Commands that wait for the limits of their namespaces, and when to look again.
    pub(super) throttles: Vec<Throttle>,
    pub(super) alarm: Option<Moment>,
    pub(super) new_alarm: Option<Moment>,
    /// Nothing is answered any longer.
    pub(super) is_stopped: bool,
    /// I/O commands that were taken in all.
    pub(super) taken: u64,
    /// Storage operations that take no longer are neither late nor the longest.
    pub(super) usual: Duration,
}

impl Commands {
    /// Those of a queue that has just been connected.
    pub(crate) fn new(of: QueueIdentity) -> Self {
        Self {
            view: Rc::new(NamespaceView::new(of.controller.table())),
            slots: Slots::new(of.entries),
            of,
            waiting: VecDeque::new(),
            held_back: VecDeque::new(),
            retried: VecDeque::new(),
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

    /// Whose they are.
    pub(crate) fn owner(&self) -> Owner {
        let controller = &self.of.controller;
        Owner { host_id: controller.host.id, controller: controller.instance }
    }

    /// Where an answer for one of them goes that somebody else gives.
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

    /// The answer to a command that has left its slot; what it had as data goes to the host or back to the pool.
    pub(super) fn answer(
        &mut self,
        request: &Request,
        status: Status,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Reply {
        let Request { command_id, nsid, work, length, began, .. } = *request;
        if status.is_success() {
            self.count_done(nsid, &work, length, ctx.now.0.saturating_sub(began.0));
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

    /// Buffers with this number of bytes in all have left for the host.
    pub(crate) const fn buffers_left(&mut self, bytes: usize) {
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

    /// Counts a command that went well: with it `length` bytes travelled, and it took this number of nanoseconds.
    pub(super) fn count_done(&self, nsid: u32, work: &Work, length: u32, took_ns: u64) {
        self.of.counters.done(nsid, work.operation(), length, took_ns);
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

    /// Whether something waits for nothing but its next turn.
    pub(crate) fn wants_turn(&self) -> bool {
        self.is_contended || !self.deferred.is_empty() || self.work_left == 0 && !self.waiting.is_empty()
    }

    /// Whether commands are held back.
    pub(crate) fn has_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Tries again with the commands that are held back.
    pub(crate) fn retry(&mut self) {
        self.is_contended = false;
        self.retried.append(&mut self.held_back);
    }

    /// Nothing of it goes on any longer but what others still work for: the connection is closed, or has said its last words.
    pub(crate) fn stop(&mut self, pool: &mut BufferPool) {
        self.is_stopped = true;
        self.waiting.clear();
        self.deferred.clear();
        self.admitted.clear();
        self.throttles.clear();
        self.is_contended = false;
        for index in self.held_back.drain(..).chain(self.retried.drain(..)) {
            // What a fused pair keeps its slots for does not come any longer.
            if matches!(self.slots.get(index), Some(Request { state: State::Exclusive { .. }, .. })) {
                self.slots.end_for_nobody(index, pool);
            }
        }
    }
}
