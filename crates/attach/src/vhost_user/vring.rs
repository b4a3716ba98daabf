//! A virtqueue in the thread that serves it: its rings in the guest's memory, its requests under
//! way, and the notification of the guest.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use engine::ring::channel::Sender;
use virtio_queue::{Error, Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::chain::{BadChain, Chain};
use super::guest_memory::Memory;
use super::inflight::InflightQueue;
use super::machine::{Call, Connection, Event, close, may_be_interrupted};
use crate::buffer_budget::BufferBudget;
use crate::client_faults::{ClientFault, ClientFaults};
use crate::limits::VRING_BUFFER_BYTES_MAX;

/// Position of a ring when it was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stopped {
    pub(super) next_avail: u16,
}

/// Parts of a virtqueue.
pub(super) struct Plan {
    pub(super) queue: Queue,
    pub(super) memory: Arc<Memory>,
    /// Record of requests under way, for a process that serves it after this one's death.
    pub(super) inflight: Option<InflightQueue>,
    /// Requests that were under way at the death of the process that served it before, by the
    /// descriptors that they begin with.
    pub(super) again: VecDeque<u16>,
    pub(super) kick: Arc<Event>,
    pub(super) call: Option<Call>,
    pub(super) front_end: usize,
    /// Set if the driver takes writes that have ended for durable.
    pub(super) is_write_through: bool,
    /// The connection of the front end, which ends when it breaks its rings.
    pub(super) connection: Arc<Connection>,
    pub(super) faults: Arc<ClientFaults>,
}

pub(super) struct Vring {
    queue: Queue,
    pub(super) memory: Arc<Memory>,
    inflight: Option<InflightQueue>,
    again: VecDeque<u16>,
    pub(super) kick: Arc<Event>,
    pub(super) call: Option<Call>,
    pub(super) front_end: usize,
    pub(super) is_write_through: bool,
    connection: Arc<Connection>,
    faults: Arc<ClientFaults>,
    /// Requests that commands are still to be made of.
    pub(super) listed: VecDeque<usize>,
    pub(super) requests: usize,
    pub(super) commands: usize,
    pub(super) held_bytes: usize,
    /// Key of its front end in the budget of buffers.
    pub(super) party: Option<usize>,
    /// Something was put into the used ring that the guest has not been notified of.
    has_used: bool,
    /// Set while no more is taken; notified when nothing is under way.
    pub(super) stopping: Option<Sender<Stopped>>,
    is_closed: bool,
    /// The guest is gone: it is notified of nothing, and no more commands are made for it.
    pub(super) is_abandoned: bool,
}

/// Next entry of a ring.
pub(super) enum Next {
    /// A request, by the descriptor that it begins with, and whether its list can be used.
    Request(u16, Result<(), BadChain>),
    Nothing,
}

impl Vring {
    pub(super) fn new(plan: Plan) -> Self {
        let Plan { queue, memory, inflight, again, kick, call, front_end, .. } = plan;
        let Plan { is_write_through, connection, faults, .. } = plan;
        Self {
            queue,
            memory,
            inflight,
            again,
            kick,
            call,
            front_end,
            is_write_through,
            connection,
            faults,
            listed: VecDeque::new(),
            requests: 0,
            commands: 0,
            held_bytes: 0,
            party: None,
            has_used: false,
            stopping: None,
            is_closed: false,
            is_abandoned: false,
        }
    }

    /// True if more requests may be taken; a guest may have as many under way as its ring has
    /// entries.
    pub(super) fn may_take(&self) -> bool {
        !self.is_closed && self.requests < usize::from(self.queue.size())
    }

    /// True if it may hold these further bytes of buffers. Otherwise it is served once there is room.
    pub(super) fn may_hold(&self, bytes: usize, budget: &mut BufferBudget) -> bool {
        let is_enough = self.held_bytes > 0 && self.held_bytes + bytes > VRING_BUFFER_BYTES_MAX;
        let has_room = |party| budget.has_room(party, self.held_bytes, bytes);
        bytes == 0 || !is_enough && self.party.is_none_or(has_room)
    }

    /// Counts bytes of buffers that it holds.
    pub(super) fn hold(&mut self, bytes: usize, budget: &mut BufferBudget) {
        self.held_bytes += bytes;
        self.party.iter().for_each(|party| budget.take(*party, bytes));
    }

    /// The same of those that it does not hold any longer.
    pub(super) fn let_go(&mut self, bytes: usize, budget: &mut BufferBudget) {
        self.held_bytes -= bytes;
        self.party.iter().for_each(|party| budget.free(*party, bytes));
    }

    /// Leaves its front end's share of the budget, as nothing of it is under way.
    pub(super) fn part(&mut self, budget: &mut BufferBudget) {
        self.party.take().into_iter().for_each(|party| budget.part(party, self.held_bytes));
    }

    /// Takes no more; where it is abandoned, the guest is not notified of what still ends.
    pub(super) const fn close(&mut self, is_abandoned: bool) {
        self.is_closed = true;
        self.is_abandoned |= is_abandoned;
    }

    pub(super) fn stopped(&self) -> Stopped {
        Stopped { next_avail: self.queue.next_avail() }
    }

    /// The next request, whose buffers go to `chain`. Where there is none, the guest is asked to announce the next one.
    pub(super) fn next(&mut self, chain: &mut Chain) -> Next {
        match self.try_next(chain) {
            Ok(next) => next,
            Err(error) => {
                self.fail(&error);
                Next::Nothing
            }
        }
    }

    fn try_next(&mut self, chain: &mut Chain) -> Result<Next, Error> {
        let table = (GuestAddress(self.queue.desc_table()), self.queue.size());
        if let Some(head) = self.again.pop_front() {
            return Ok(Next::Request(head, chain.take(&self.memory, table, head)));
        }
        let memory: &GuestMemoryMmap = &self.memory;
        // Once more for a request that came before announcements were asked for.
        for _ in 0..2 {
            let descriptors = self.queue.iter(memory)?.next();
            if let Some(head) = descriptors.map(|descriptors| descriptors.head_index()) {
                if let Some(inflight) = &mut self.inflight {
                    inflight.begin(head);
                }
                return Ok(Next::Request(head, chain.take(&self.memory, table, head)));
            }
            may_be_interrupted();
            if !self.queue.enable_notification(memory)? {
                return Ok(Next::Nothing);
            }
        }
        // There is one, and its entry cannot be read: the front end has taken the memory of that part of the ring away. Looking
        // for it again would never end, for all guests of this thread.
        Err(Error::InvalidAvailRingIndex)
    }

    /// The guest need not announce requests: they are looked for.
    pub(super) fn begin_taking(&mut self) {
        let memory: &GuestMemoryMmap = &self.memory;
        if let Err(error) = self.queue.disable_notification(memory) {
            self.fail(&error);
        }
    }

    /// Gives a request back to the guest, of which `length` bytes were filled.
    pub(super) fn used(&mut self, head: u16, length: u32) {
        if self.is_abandoned {
            return;
        }
        let memory: &GuestMemoryMmap = &self.memory;
        if let Some(inflight) = &mut self.inflight {
            inflight.before_used(head);
        }
        may_be_interrupted();
        let added = self.queue.add_used(memory, head, length);
        may_be_interrupted();
        if let Some(inflight) = &mut self.inflight {
            inflight.after_used(head, self.queue.next_used());
        }
        match added {
            Ok(()) => self.has_used = true,
            Err(error) => self.fail(&error),
        }
    }

    /// Tells the guest what is done, if it wants to know.
    pub(super) fn signal(&mut self) {
        if !std::mem::take(&mut self.has_used) {
            return;
        }
        may_be_interrupted();
        let memory: &GuestMemoryMmap = &self.memory;
        match (self.queue.needs_notification(memory), &mut self.call) {
            (Ok(true), Some(call)) => call.signal(),
            (Ok(_), _) => {}
            (Err(error), _) => self.fail(&error),
        }
    }

    /// Notifies the guest, whatever it wants to know.
    pub(super) fn notify(&mut self) {
        if let Some(call) = &mut self.call {
            call.signal();
        }
    }

    /// The rings cannot be used: the connection of the front end ends, and with it its virtqueues.
    pub(super) fn fail(&mut self, error: &dyn Display) {
        if !self.is_abandoned
            && let Some(times) = self.faults.count(ClientFault::Rings)
        {
            tracing::warn!(%error, times, "a vhost-user front end's virtqueue is broken; closing the connection");
        }
        self.close(true);
        close(&self.connection);
    }
}
