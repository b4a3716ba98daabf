//! One path's queues on one thread: opening them, giving them commands, and gathering what they bring. Which path a
//! command takes, and what becomes of one that is lost, is decided in `queues`.

use std::collections::VecDeque;

use super::candidate::{Access, Candidate};
use super::estimate::Estimate;
use super::state::Path;
use crate::initiator::{Completion, InitiatorError, Queue, QueueState, Request};
use crate::limits::IO_QUEUES_MAX;
use crate::ring::{Moment, Readiness, Ring};
use crate::transport::{StreamInfo, stream_info};

/// A thread's share of a path.
#[derive(Debug)]
pub(super) struct Lane {
    token_base: u32,
    /// The incarnation the queues belong to, 0 without any.
    incarnation: u64,
    queues: Vec<Queue>,
    /// Whether all queues have been live.
    ready: bool,
    /// Commands that chose this path while it had no room, by their place.
    pub(super) backlog: VecDeque<u32>,
    /// Commands given to it and not completed, the backlog included.
    pub(super) in_flight: u32,
    pub(super) estimate: Estimate,
    pub(super) tally: LaneTally,
    /// Whether it was said that another host has reserved the namespace there.
    pub(super) told_of_conflict: bool,
}

/// What a lane has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneTally {
    pub(super) commands: u64,
    pub(super) bytes: u64,
    /// Sum of all commands' times, in nanoseconds.
    pub(super) latency_ns: u64,
    /// Commands that were taken from it, to be sent again.
    pub(super) requeued: u64,
}

/// One connection of a path.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ConnectionReport {
    /// Its queue (QID).
    pub queue_id: u16,
    /// Commands outstanding on it.
    pub outstanding: usize,
    /// What the system says of it; `None` when it says nothing.
    pub stream: Option<StreamInfo>,
}

impl Lane {
    pub(super) fn new(index: usize, token_base: u32) -> Self {
        Self {
            token_base: token_base + index as u32 * u32::from(IO_QUEUES_MAX),
            incarnation: 0,
            queues: Vec::new(),
            ready: false,
            backlog: VecDeque::new(),
            in_flight: 0,
            estimate: Estimate::default(),
            tally: LaneTally::default(),
            told_of_conflict: false,
        }
    }

    pub(super) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether it takes commands.
    pub(super) const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Opens the queues of the path's live incarnation.
    ///
    /// # Errors
    /// When they cannot be opened; the incarnation is no good then.
    pub(super) fn open(
        &mut self,
        ring: &mut Ring,
        path: &Path,
        queue_ids: impl Iterator<Item = u16>,
    ) -> Result<(), (u64, InitiatorError)> {
        let Some((incarnation, options)) = path.enter(queue_ids) else { return Ok(()) };
        self.incarnation = incarnation;
        self.estimate = Estimate::default();
        if options.is_empty() {
            let address = path.options.address;
            let reason = "its controller grants fewer I/O queues than there are threads".to_owned();
            return Err((incarnation, InitiatorError::PathRefused { address, reason }));
        }
        for (at, options) in options.iter().enumerate() {
            match Queue::open(ring, self.token_base + at as u32, options) {
                Ok(queue) => self.queues.push(queue),
                Err(error) => return Err((incarnation, error)),
            }
        }
        Ok(())
    }

    /// Closes the queues. What was outstanding is to be taken with `pop` before `leave`.
    pub(super) fn close(&mut self, ring: &mut Ring, abandon: bool) {
        self.ready = false;
        for queue in &mut self.queues {
            if abandon {
                queue.abandon(ring);
            } else {
                queue.close(ring);
            }
        }
    }

    /// Lets go of the queues, which are closed and empty. Whether the thread was the last that had any.
    pub(super) fn leave(&mut self, path: &Path) -> bool {
        self.queues.clear();
        let incarnation = std::mem::take(&mut self.incarnation);
        path.leave(incarnation)
    }

    /// What a policy sees.
    pub(super) fn candidate(&self, path: &Path) -> Candidate {
        let access = if self.ready { path.access() } else { Access::None };
        let has_room = self.queues.iter().any(|queue| queue.free_slots() > 0);
        Candidate { access, in_flight: self.in_flight, has_room, ..Candidate::default() }
    }

    /// Gives the request to the queue that has the least to do.
    ///
    /// # Errors
    /// Gives it back when no queue has room.
    pub(super) fn submit(&mut self, request: Request) -> Result<(), Request> {
        let free = self.queues.iter_mut().filter(|queue| queue.free_slots() > 0);
        match free.min_by_key(|queue| queue.outstanding()) {
            Some(queue) => queue.submit(request),
            None => Err(request),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.queues.iter().any(|queue| queue.free_slots() > 0)
    }

    pub(super) fn owns(&self, token: u32) -> Option<usize> {
        let at = token.checked_sub(self.token_base)? as usize;
        (at < self.queues.len()).then_some(at)
    }

    pub(super) fn on_ready(&mut self, ring: &mut Ring, scratch: &mut [u8], at: usize, readiness: Readiness) {
        self.queues[at].on_ready(ring, scratch, readiness);
    }

    pub(super) fn has_more(&self) -> bool {
        self.queues.iter().any(Queue::has_more)
    }

    pub(super) fn on_more(&mut self, ring: &mut Ring, scratch: &mut [u8]) {
        for queue in self.queues.iter_mut().filter(|queue| queue.has_more()) {
            queue.on_ready(ring, scratch, Readiness::READABLE);
        }
    }

    pub(super) fn flush(&mut self, ring: &mut Ring) {
        for queue in &mut self.queues {
            queue.flush(ring);
        }
    }

    /// Minds the queues' time-outs and how far they are; why the path is lost, if it is.
    pub(super) fn mind(&mut self, ring: &mut Ring, now: Moment) -> Option<InitiatorError> {
        for queue in &mut self.queues {
            if queue.next_deadline().is_some_and(|deadline| now >= deadline) {
                queue.on_time(ring, now);
            }
        }
        if !self.ready {
            self.ready =
                !self.queues.is_empty() && self.queues.iter().all(|queue| queue.state() == QueueState::Live);
        }
        self.queues.iter().find_map(Queue::error).cloned()
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.queues.iter().filter_map(Queue::next_deadline).min()
    }

    /// The next completion, and whether its queue was closed before it came.
    pub(super) fn pop(&mut self) -> Option<(Completion, bool)> {
        self.queues.iter_mut().find_map(|queue| {
            let completion = queue.pop()?;
            Some((completion, queue.state() == QueueState::Closed))
        })
    }

    /// What is to be told of its connections.
    pub(super) fn connections(&self) -> Vec<ConnectionReport> {
        let report = |queue: &Queue| ConnectionReport {
            queue_id: queue.queue_id(),
            outstanding: queue.outstanding(),
            stream: queue.socket().and_then(|socket| stream_info(socket).ok()),
        };
        self.queues.iter().map(report).collect()
    }
}
