//! Queues of a path on one thread: opening them, giving them commands, and gathering their
//! completions. `queues` decides which path a command takes, and what becomes of one that is lost.

use std::collections::VecDeque;
use std::sync::Arc;

use super::distance::Distances;
use super::path::Path;
use super::policy::{Access, Candidate, Estimate};
use super::stage::StageLatencies;
use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::driver::{CommandQueues, QueueSet};
use crate::initiator::{Ended, InitiatorError, Queue, Request};
use crate::limits::IO_QUEUES_MAX;
use crate::ring::tcp::stream_info;
use crate::ring::{Moment, Readiness, Ring};
use crate::transport::StreamInfo;

/// A thread's share of a path.
#[derive(Debug)]
pub(super) struct PathConnections {
    /// The association the queues belong to, 0 without any.
    association: u64,
    queues: QueueSet,
    /// Set once all queues have been live.
    ready: bool,
    /// Commands that chose this path while it had no room, by their place.
    pub(super) backlog: VecDeque<u32>,
    /// Commands given to it and not completed, the backlog included.
    pub(super) in_flight: u32,
    /// Distances of the path's network interface from the processors, and from the one that the
    /// thread is on.
    distances: Arc<Distances>,
    distance: u32,
    /// The most bytes of one command.
    transfer_length_max: usize,
    pub(super) estimate: Estimate,
    pub(super) tally: Tally,
    /// Set once the log says that another host has reserved the namespace there.
    pub(super) has_logged_conflict: bool,
}

/// Work done on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) commands: u64,
    pub(super) bytes: u64,
    /// Sum of all commands' times, in nanoseconds.
    pub(super) latency_ns: u64,
    /// Stages on which these times were spent, and the wait before.
    pub(super) stages: StageLatencies,
    /// Commands that were taken from it, to be sent again.
    pub(super) requeued: u64,
}

/// Report of a connection of a path.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct ConnectionReport {
    /// Queue identifier (QID).
    pub queue_id: u16,
    /// Commands outstanding on it.
    pub outstanding: usize,
    /// Statistics of the system about it; `None` if there are none.
    pub stream: Option<StreamInfo>,
}

impl PathConnections {
    pub(super) fn new(index: usize, token_base: u32, worker: AuthenticationWorker) -> Self {
        let token_base = token_base + index as u32 * u32::from(IO_QUEUES_MAX);
        Self {
            association: 0,
            queues: QueueSet::new(token_base, worker),
            ready: false,
            backlog: VecDeque::new(),
            in_flight: 0,
            distances: Arc::default(),
            distance: 0,
            transfer_length_max: usize::MAX,
            estimate: Estimate::default(),
            tally: Tally::default(),
            has_logged_conflict: false,
        }
    }

    pub(super) const fn association(&self) -> u64 {
        self.association
    }

    /// True if it takes commands.
    pub(super) const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Opens the queues of the path's live association.
    ///
    /// # Errors
    /// When they cannot be opened; the association cannot be used then.
    pub(super) fn open(
        &mut self,
        ring: &mut Ring,
        path: &Path,
        queue_ids: impl Iterator<Item = u16>,
    ) -> Result<(), (u64, InitiatorError)> {
        let Some((association, options)) = path.enter(queue_ids) else { return Ok(()) };
        self.association = association;
        self.distances = path.distances();
        self.transfer_length_max = path.transfer_length_max();
        self.estimate = Estimate::default();
        if options.is_empty() {
            let address = path.options.address;
            let reason = "its controller grants fewer I/O queues than there are threads".to_owned();
            return Err((association, InitiatorError::PathRefused { address, reason }));
        }
        self.queues.open(ring, &options).map_err(|error| (association, error))
    }

    /// Closes the queues. What was outstanding is to be taken with `pop` before `leave`.
    pub(super) fn close(&mut self, ring: &mut Ring, abandon: bool) {
        self.ready = false;
        if abandon {
            self.queues.abandon(ring);
        } else {
            self.queues.close(ring);
        }
    }

    /// Lets go of the queues, which are closed and empty. Whether the thread was the last that had any.
    pub(super) fn leave(&mut self, path: &Path) -> bool {
        self.queues.clear();
        let association = std::mem::take(&mut self.association);
        path.leave(association)
    }

    /// The thread is on this processor now.
    pub(super) fn see_from(&mut self, cpu: usize) {
        self.distance = self.distances.from_cpu(cpu);
    }

    /// Properties that a policy judges.
    pub(super) fn candidate(&self, path: &Path) -> Candidate {
        let access = if self.ready { path.access() } else { Access::None };
        let has_room = self.queues.has_room();
        let (in_flight, distance) = (self.in_flight, self.distance);
        Candidate { access, distance, in_flight, has_room, ..Candidate::default() }
    }

    /// The most bytes of one command that it takes.
    pub(super) const fn transfer_length_max(&self) -> usize {
        self.transfer_length_max
    }

    /// True if a queue takes a command now.
    pub(super) fn has_room(&self) -> bool {
        self.queues.has_room()
    }

    /// Gives the request to a queue.
    ///
    /// # Errors
    /// Gives it back when no queue has room.
    pub(super) fn submit(&mut self, request: Request) -> Result<(), Request> {
        self.queues.submit(request)
    }

    /// True if commands have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.queues.has_ended()
    }

    /// The next command that has ended.
    pub(super) fn pop(&mut self) -> Option<Ended> {
        self.queues.pop()
    }

    /// Gives a queue what the ring has seen, if the token is one of them.
    pub(super) fn on_ready(
        &mut self,
        ring: &mut Ring,
        scratch: &mut [u8],
        token: u32,
        readiness: Readiness,
        now: Moment,
    ) -> bool {
        self.queues.on_ready(ring, scratch, token, readiness, now)
    }

    /// True if there is more to take in, or the loss of a queue to be handled.
    pub(super) fn has_more(&self) -> bool {
        self.queues.has_more() || self.queues.has_closed()
    }

    pub(super) fn on_more(&mut self, ring: &mut Ring, scratch: &mut [u8], now: Moment) {
        self.queues.on_more(ring, scratch, now);
    }

    pub(super) fn flush(&mut self, ring: &mut Ring) {
        self.queues.flush(ring);
    }

    /// Minds the queues' time-outs and how far they are; why the path is lost, if it is.
    pub(super) fn mind(&mut self, ring: &mut Ring, now: Moment) -> Option<InitiatorError> {
        self.queues.turn(ring, now);
        self.ready |= self.queues.is_live();
        self.queues.first_error().cloned()
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.queues.next_deadline()
    }

    /// A report on its connections.
    pub(super) fn reports(&self) -> Vec<ConnectionReport> {
        let report = |queue: &Queue| ConnectionReport {
            queue_id: queue.queue_id(),
            outstanding: queue.outstanding(),
            stream: queue.socket().and_then(|socket| stream_info(socket).ok()),
        };
        self.queues.queues().iter().map(report).collect()
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::net::SocketAddr;

    use topology::{Machine, sample};

    use super::*;
    use crate::initiator::ConnectOptions;
    use crate::initiator::path::policy::{Chooser, IoPolicy};
    use crate::ring::{RingOptions, now};

    #[test]
    fn numa_takes_the_path_whose_interface_is_near_the_thread() {
        let machine = Machine::of_recording("two nodes", sample::recording(&sample::two_nodes()));
        let unused = SocketAddr::from(([127, 0, 0, 1], 4420));
        let path = Path::new(ConnectOptions::new(unused, "nqn.2014-08.org.example:none"), now());
        let ring = Ring::new(RingOptions::default()).expect("a ring");
        let mut paths = ["eth0", "eth1"].map(|interface| PathConnections {
            distances: Arc::new(Distances::to_interface(&machine, interface)),
            ready: true,
            ..PathConnections::new(0, 0, AuthenticationWorker::new(ring.waker()))
        });
        let mut chosen_from = |cpu: usize| {
            paths.iter_mut().for_each(|connections| connections.see_from(cpu));
            let candidates = paths.each_ref().map(|connections| connections.candidate(&path));
            Chooser::new(IoPolicy::Numa).choose(&candidates)
        };
        assert_eq!([0, 7, 8, 15].map(&mut chosen_from), [Some(0), Some(0), Some(1), Some(1)]);
    }
}
