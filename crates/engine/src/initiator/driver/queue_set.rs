//! Several queues of one controller on one thread, as one. What becomes of commands that are lost with a queue is its owner's
//! to decide.

use crate::initiator::queue::{Ended, Queue, QueueState, Request};
use crate::initiator::{InitiatorError, QueueOptions};
use crate::ring::{Event, Moment, Readiness, Ring};

use super::CommandQueues;

/// Queues of a controller, with tokens from `token_base` on.
#[derive(Debug)]
pub(in crate::initiator) struct QueueSet {
    token_base: u32,
    queues: Vec<Queue>,
}

impl QueueSet {
    /// No queues yet.
    pub(in crate::initiator) const fn new(token_base: u32) -> Self {
        Self { token_base, queues: Vec::new() }
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
            self.queues.push(Queue::open(ring, token, options)?);
        }
        Ok(())
    }

    /// The queues.
    pub(in crate::initiator) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Whether one of them is closed.
    pub(in crate::initiator) fn has_closed(&self) -> bool {
        self.queues.iter().any(|queue| queue.state() == QueueState::Closed)
    }

    /// Whether all of them take commands.
    pub(in crate::initiator) fn is_live(&self) -> bool {
        !self.queues.is_empty() && self.queues.iter().all(|queue| queue.state() == QueueState::Live)
    }

    /// Why one of them is closed, if one is.
    pub(in crate::initiator) fn first_error(&self) -> Option<&InitiatorError> {
        self.queues.iter().find_map(Queue::error)
    }

    /// Closes the connections as lost ones: nothing that is still on its way to the controller shall arrive.
    pub(in crate::initiator) fn abandon(&mut self, ring: &mut Ring) {
        self.queues.iter_mut().for_each(|queue| queue.abandon(ring));
    }

    /// Lets go of the queues, which are closed.
    pub(in crate::initiator) fn clear(&mut self) {
        self.queues.clear();
    }

    /// Gives the queue with this token what the ring has seen of its socket; whether there is such a queue.
    pub(in crate::initiator) fn on_ready(
        &mut self,
        ring: &mut Ring,
        scratch: &mut [u8],
        token: u32,
        readiness: Readiness,
    ) -> bool {
        let at = token.checked_sub(self.token_base).map(|at| at as usize);
        let Some(queue) = at.and_then(|at| self.queues.get_mut(at)) else { return false };
        queue.on_ready(ring, scratch, readiness);
        true
    }

    /// Receives what is left in sockets whose readiness is not told again.
    pub(in crate::initiator) fn on_more(&mut self, ring: &mut Ring, scratch: &mut [u8]) {
        for queue in self.queues.iter_mut().filter(|queue| queue.has_more()) {
            queue.on_ready(ring, scratch, Readiness::READABLE);
        }
    }

    /// Whether a queue takes a command now.
    pub(in crate::initiator) fn has_room(&self) -> bool {
        self.queues.iter().any(|queue| queue.free_slots() > 0)
    }
}

impl CommandQueues for QueueSet {
    fn free_slots(&self) -> usize {
        self.queues.iter().map(Queue::free_slots).sum()
    }

    /// Gives the request to the queue that has the least to do.
    fn submit(&mut self, request: Request) -> Result<(), Request> {
        let free = self.queues.iter_mut().filter(|queue| queue.free_slots() > 0);
        match free.min_by_key(|queue| queue.outstanding()) {
            Some(queue) => queue.submit(request),
            None => Err(request),
        }
    }

    fn pop(&mut self) -> Option<Ended> {
        self.queues.iter_mut().find_map(Queue::pop)
    }

    fn error(&self) -> Option<&InitiatorError> {
        let is_over = self.queues.iter().all(|queue| queue.state() == QueueState::Closed);
        if is_over { self.first_error() } else { None }
    }

    fn has_more(&self) -> bool {
        self.queues.iter().any(|queue| queue.has_more() || queue.has_ended())
    }

    fn on_events(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], _now: Moment) {
        self.on_more(ring, scratch);
        for event in events {
            if let Event::Ready { token, readiness } = event {
                self.on_ready(ring, scratch, *token, *readiness);
            }
        }
    }

    fn turn(&mut self, ring: &mut Ring, now: Moment) {
        for queue in &mut self.queues {
            if queue.next_deadline().is_some_and(|deadline| now >= deadline) {
                queue.on_time(ring, now);
            }
        }
    }

    fn flush(&mut self, ring: &mut Ring) {
        self.queues.iter_mut().for_each(|queue| queue.flush(ring));
    }

    fn next_deadline(&self) -> Option<Moment> {
        self.queues.iter().filter_map(Queue::next_deadline).min()
    }

    fn close(&mut self, ring: &mut Ring) {
        self.queues.iter_mut().for_each(|queue| queue.close(ring));
    }
}
