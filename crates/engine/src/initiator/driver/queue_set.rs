//! Several queues of one controller on one thread, as one. Only those that have something are looked at: walking a
//! hundred queues for each command would cost more than the command does. What becomes of commands that are lost with a
//! queue is its owner's to decide.

use std::collections::VecDeque;

use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::queue::{Ended, Queue, QueueState, Request};
use crate::initiator::{InitiatorError, QueueOptions};
use crate::ring::{Event, Moment, Readiness, Ring};

use super::CommandQueues;

/// The load of a queue that takes no command now.
const FULL: u16 = u16::MAX;

/// Queues of a controller, with tokens from `token_base` on.
///
/// Sums over the queues that are needed for each command, or each time round, are kept up to date
/// by `review`, which follows every change of a queue.
#[derive(Debug)]
pub(in crate::initiator) struct QueueSet {
    token_base: u32,
    /// Worker that computes for the queues when they authenticate.
    worker: AuthenticationWorker,
    queues: Vec<Queue>,
    marks: Vec<Mark>,
    /// Commands outstanding on each queue, side by side for the search.
    loads: Vec<u16>,
    /// No queue that takes commands has fewer outstanding, and where the search for one that has as few begins.
    least: u16,
    cursor: usize,
    free_slots: usize,
    live: usize,
    closed: usize,
    /// Queues with commands that have ended, with more in their sockets, with something to send, and that wait for the worker.
    ended: VecDeque<usize>,
    more: Vec<usize>,
    unsent: Vec<usize>,
    computing: Vec<usize>,
    /// Changes places with one of these lists while that is worked off, so that nothing is allocated.
    spare: Vec<usize>,
    /// No queue has a deadline before.
    deadline: Option<Moment>,
}

/// State of a queue at its last review.
#[derive(Clone, Copy, Debug)]
struct Mark {
    state: QueueState,
    free_slots: usize,
    /// In which lists it is.
    has_ended: bool,
    has_more: bool,
    is_unsent: bool,
    is_computing: bool,
}

impl QueueSet {
    /// No queues yet; this will compute for them.
    pub(in crate::initiator) const fn new(token_base: u32, worker: AuthenticationWorker) -> Self {
        Self {
            token_base,
            worker,
            queues: Vec::new(),
            marks: Vec::new(),
            loads: Vec::new(),
            least: FULL,
            cursor: 0,
            free_slots: 0,
            live: 0,
            closed: 0,
            ended: VecDeque::new(),
            more: Vec::new(),
            unsent: Vec::new(),
            computing: Vec::new(),
            spare: Vec::new(),
            deadline: None,
        }
    }

    /// Begins to open one queue for each of these options.
    ///
    /// # Errors
    /// When one cannot be opened. The others stay, to be closed.
    pub(in crate::initiator) fn open(
        &mut self,
        ring: &mut Ring,
        options: &[QueueOptions],
    ) -> Result<(), InitiatorError> {
        for options in options {
            let token = self.token_base + self.queues.len() as u32;
            self.add(Queue::open_with(ring, token, options, &self.worker)?);
        }
        Ok(())
    }

    fn add(&mut self, queue: Queue) {
        self.queues.push(queue);
        let state = QueueState::Connecting;
        self.marks.push(Mark {
            state,
            free_slots: 0,
            has_ended: false,
            has_more: false,
            is_unsent: false,
            is_computing: false,
        });
        self.loads.push(FULL);
        let count = self.queues.len();
        self.ended.reserve(count);
        for list in [&mut self.more, &mut self.unsent, &mut self.computing, &mut self.spare] {
            list.reserve(count);
        }
        self.review(count - 1);
    }

    /// The target is known to take new TLS keys on a connection.
    pub(in crate::initiator) fn use_key_updates(&mut self) {
        self.each(Queue::use_key_updates);
    }

    /// The queues.
    pub(in crate::initiator) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// True if one of them is closed.
    pub(in crate::initiator) const fn has_closed(&self) -> bool {
        self.closed > 0
    }

    /// True if all of them take commands.
    pub(in crate::initiator) const fn is_live(&self) -> bool {
        !self.queues.is_empty() && self.live == self.queues.len()
    }

    /// Why one of them is closed, if one is.
    pub(in crate::initiator) fn first_error(&self) -> Option<&InitiatorError> {
        if self.has_closed() { self.queues.iter().find_map(Queue::error) } else { None }
    }

    /// Closes the connections as lost ones: nothing that is still on its way to the controller shall arrive.
    pub(in crate::initiator) fn abandon(&mut self, ring: &mut Ring) {
        self.each(|queue| queue.abandon(ring));
    }

    /// Lets go of the queues, which are closed.
    pub(in crate::initiator) fn clear(&mut self) {
        *self = Self::new(self.token_base, self.worker.clone());
    }

    /// Gives the queue with this token what the ring has seen of its socket; whether there is such a queue.
    pub(in crate::initiator) fn on_ready(
        &mut self,
        ring: &mut Ring,
        scratch: &mut [u8],
        token: u32,
        readiness: Readiness,
        now: Moment,
    ) -> bool {
        let at = token.checked_sub(self.token_base).map(|at| at as usize);
        let Some((at, queue)) = at.and_then(|at| Some((at, self.queues.get_mut(at)?))) else { return false };
        queue.on_ready_at(ring, scratch, readiness, now);
        self.review(at);
        true
    }

    /// Receives what is left in sockets whose readiness is not reported again, and takes the
    /// results of the worker.
    pub(in crate::initiator) fn on_more(&mut self, ring: &mut Ring, scratch: &mut [u8], now: Moment) {
        std::mem::swap(&mut self.computing, &mut self.spare);
        for place in 0..self.spare.len() {
            let at = self.spare[place];
            self.marks[at].is_computing = false;
            self.queues[at].on_woken(ring);
            self.review(at);
        }
        self.spare.clear();
        std::mem::swap(&mut self.more, &mut self.spare);
        for place in 0..self.spare.len() {
            let at = self.spare[place];
            self.marks[at].has_more = false;
            if self.queues[at].has_more() {
                self.queues[at].on_ready_at(ring, scratch, Readiness::READABLE, now);
                self.review(at);
            }
        }
        self.spare.clear();
    }

    /// True if commands have ended and were not taken yet.
    pub(in crate::initiator) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// True if a queue takes a command now.
    pub(in crate::initiator) const fn has_room(&self) -> bool {
        self.free_slots > 0
    }

    /// Does this to each queue.
    fn each(&mut self, mut what: impl FnMut(&mut Queue)) {
        for at in 0..self.queues.len() {
            what(&mut self.queues[at]);
            self.review(at);
        }
    }

    /// Takes in how a queue is after something was done to it.
    fn review(&mut self, at: usize) {
        let (queue, mark) = (&self.queues[at], &mut self.marks[at]);
        let (state, free_slots) = (queue.state(), queue.free_slots());
        if state != mark.state {
            self.live -= usize::from(mark.state == QueueState::Live);
            self.live += usize::from(state == QueueState::Live);
            self.closed += usize::from(state == QueueState::Closed);
            mark.state = state;
        }
        self.free_slots = self.free_slots - mark.free_slots + free_slots;
        mark.free_slots = free_slots;
        let load = if free_slots == 0 { FULL } else { queue.outstanding() as u16 };
        self.loads[at] = load;
        self.least = self.least.min(load);
        if queue.has_ended() && !std::mem::replace(&mut mark.has_ended, true) {
            self.ended.push_back(at);
        }
        if queue.has_more() && !std::mem::replace(&mut mark.has_more, true) {
            self.more.push(at);
        }
        if queue.has_unsent() && !std::mem::replace(&mut mark.is_unsent, true) {
            self.unsent.push(at);
        }
        if queue.is_computing() && !std::mem::replace(&mut mark.is_computing, true) {
            self.computing.push(at);
        }
        if let Some(deadline) = queue.next_deadline() {
            self.deadline = Some(self.deadline.map_or(deadline, |earliest| earliest.min(deadline)));
        }
    }

    /// The queue that has the least to do of those that take a command.
    fn least_loaded(&mut self) -> Option<usize> {
        if self.free_slots == 0 {
            return None;
        }
        loop {
            // From the one that was chosen last: of several that have as little to do, it is the one in the cache.
            let (before, from) = self.loads.split_at(self.cursor.min(self.loads.len()));
            let is_least = |load: &u16| *load == self.least;
            let found = from.iter().position(is_least).map(|at| before.len() + at);
            if let Some(at) = found.or_else(|| before.iter().position(is_least)) {
                self.cursor = at;
                return Some(at);
            }
            self.least = self.loads.iter().copied().fold(FULL, u16::min);
        }
    }
}

impl CommandQueues for QueueSet {
    fn free_slots(&self) -> usize {
        self.free_slots
    }

    /// Gives the request to the queue that has the least to do.
    fn submit(&mut self, request: Request) -> Result<(), Request> {
        let Some(at) = self.least_loaded() else { return Err(request) };
        let submitted = self.queues[at].submit(request);
        self.review(at);
        submitted
    }

    fn pop(&mut self) -> Option<Ended> {
        let at = *self.ended.front()?;
        let ended = self.queues[at].pop();
        if !self.queues[at].has_ended() {
            self.marks[at].has_ended = false;
            self.ended.pop_front();
        }
        ended
    }

    fn error(&self) -> Option<&InitiatorError> {
        if self.closed == self.queues.len() { self.first_error() } else { None }
    }

    fn has_more(&self) -> bool {
        !self.more.is_empty() || !self.ended.is_empty()
    }

    fn on_events(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        self.on_more(ring, scratch, now);
        for event in events {
            if let Event::Ready { token, readiness } = event {
                self.on_ready(ring, scratch, *token, *readiness, now);
            }
        }
    }

    fn turn(&mut self, ring: &mut Ring, now: Moment) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.deadline = None;
        self.each(|queue| {
            if queue.next_deadline().is_some_and(|deadline| now >= deadline) {
                queue.on_time(ring, now);
            }
        });
    }

    fn flush(&mut self, ring: &mut Ring) {
        std::mem::swap(&mut self.unsent, &mut self.spare);
        for place in 0..self.spare.len() {
            let at = self.spare[place];
            self.marks[at].is_unsent = false;
            self.queues[at].flush(ring);
            self.review(at);
        }
        self.spare.clear();
    }

    fn next_deadline(&self) -> Option<Moment> {
        self.deadline
    }

    fn close(&mut self, ring: &mut Ring) {
        self.each(|queue| queue.close(ring));
    }
}

#[cfg(all(test, not(feature = "simulation")))]
#[path = "queue_set_tests.rs"]
mod tests;
