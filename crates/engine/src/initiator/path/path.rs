//! A path as all threads see it: its live association, the ANA state of that, and the old
//! associations that can do no more harm. Threads with queues look at atomics; everything behind
//! the lock belongs to monitors and reports.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvme::log_page::AnaState;

use super::distance::Distances;
use super::policy::Access;
use crate::initiator::{ConnectOptions, Controller, InitiatorError, QueueOptions};
use crate::ring::Moment;

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// The path is being connected for the first time.
    Connecting,
    /// The path takes commands, as far as its ANA state permits.
    Live,
    /// The path was lost and is being reconnected.
    Reconnecting,
    /// The path is given up.
    Dead,
}

/// The state of a group for which there is no reporting.
const NO_REPORT: u8 = AnaState::Optimized as u8;
/// A state that is known to be otherwise, and not known yet.
const PENDING: u8 = 0;

/// A path. Its associations, one with each controller it had, are counted from 1.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) options: ConnectOptions,
    /// The association that takes commands, 0 for none.
    live: AtomicU64,
    ana: AtomicU8,
    /// This association and all before it have come to rest.
    at_rest: AtomicU64,
    details: Mutex<Details>,
}

/// State of a path under its lock.
#[derive(Debug)]
pub(super) struct Details {
    pub(super) state: PathState,
    /// The newest association.
    pub(super) association: u64,
    pub(super) controller: Option<Controller>,
    /// Distances of its network interface from the processors, for the policy that asks.
    distances: Arc<Distances>,
    /// Time when it was last lost, or began to be connected.
    pub(super) lost_at: Moment,
    /// Times it was connected again.
    pub(super) reconnects: u64,
    /// Why it is not live.
    pub(super) error: Option<InitiatorError>,
    /// Set once it was seen to lead to the same disk as the others, by more than names.
    pub(super) is_recognized: bool,
    /// Threads that have queues of an association.
    users: Vec<(u64, usize)>,
}

impl Path {
    pub(super) fn new(options: ConnectOptions, now: Moment) -> Self {
        Self {
            options,
            live: AtomicU64::new(0),
            ana: AtomicU8::new(NO_REPORT),
            at_rest: AtomicU64::new(0),
            details: Mutex::new(Details {
                state: PathState::Connecting,
                association: 0,
                controller: None,
                distances: Arc::default(),
                lost_at: now,
                reconnects: 0,
                error: None,
                is_recognized: false,
                users: Vec::new(),
            }),
        }
    }

    pub(super) fn details(&self) -> MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The association that takes commands, 0 for none.
    pub(super) fn live(&self) -> u64 {
        self.live.load(Ordering::Acquire)
    }

    /// Access to the namespace through the live association.
    pub(super) fn access(&self) -> Access {
        match AnaState::from_wire(self.ana.load(Ordering::Relaxed)) {
            Some(AnaState::Optimized) => Access::Optimized,
            Some(AnaState::NonOptimized) => Access::NonOptimized,
            _ => Access::None,
        }
    }

    /// The namespace's ANA state; `None` while it is being asked for.
    pub(super) fn ana(&self) -> Option<AnaState> {
        AnaState::from_wire(self.ana.load(Ordering::Relaxed))
    }

    pub(super) fn set_ana(&self, state: AnaState) {
        self.ana.store(state as u8, Ordering::Relaxed);
    }

    /// Records that a command's answer contradicts the ANA state: nothing is sent there until the
    /// state has been read again.
    pub(super) fn doubt_ana(&self) {
        self.ana.store(PENDING, Ordering::Relaxed);
    }

    pub(super) fn doubts_ana(&self) -> bool {
        self.ana.load(Ordering::Relaxed) == PENDING
    }

    /// Sets the distances of its network interface from the processors; a reconnect may move it to
    /// another interface.
    pub(super) fn set_distances(&self, distances: Distances) {
        self.details().distances = Arc::new(distances);
    }

    /// The most bytes that one command may transfer.
    pub(super) fn transfer_length_max(&self) -> usize {
        self.details().controller.as_ref().map_or(usize::MAX, Controller::transfer_length_max)
    }

    pub(super) fn distances(&self) -> Arc<Distances> {
        self.details().distances.clone()
    }

    /// A controller has been connected, and the namespace found there.
    pub(super) fn revive(&self, controller: Controller, ana: AnaState) -> u64 {
        let mut details = self.details();
        details.association += 1;
        if details.association > 1 {
            details.reconnects += 1;
        }
        details.controller = Some(controller);
        details.state = PathState::Live;
        details.error = None;
        self.set_ana(ana);
        self.live.store(details.association, Ordering::Release);
        details.association
    }

    /// The association is lost; whether this call is the one that found out.
    pub(super) fn lose(&self, association: u64, error: InitiatorError, now: Moment) -> bool {
        let mut details = self.details();
        if self.live() != association {
            return false;
        }
        self.live.store(0, Ordering::Release);
        let silence = details.controller.as_ref().and_then(|controller| controller.missed_keep_alive(now));
        let error = match (silence, error) {
            // A target closes without a word on a host that it no longer hears.
            (Some(silence), InitiatorError::Closed { address } | InitiatorError::Broken { address, .. }) => {
                let timeout = Duration::from_millis(self.options.keep_alive_ms.into());
                InitiatorError::GivenUp { address, silence, timeout }
            }
            (_, error) => error,
        };
        details.state = PathState::Reconnecting;
        details.lost_at = now;
        details.error = Some(error);
        true
    }

    /// Ends the attempts to reconnect.
    pub(super) fn give_up(&self, error: Option<InitiatorError>) {
        let mut details = self.details();
        details.state = PathState::Dead;
        if error.is_some() {
            details.error = error;
        }
    }

    /// True if commands may wait for it, at `now`.
    pub(super) fn may_come_back(&self, fast_io_fail: Option<Duration>, now: Moment) -> bool {
        let details = self.details();
        match details.state {
            PathState::Dead => false,
            PathState::Live => self.ana() != Some(AnaState::PersistentLoss),
            PathState::Connecting | PathState::Reconnecting => {
                fast_io_fail.is_none_or(|limit| now.since(details.lost_at) < limit)
            }
        }
    }

    /// A thread wants queues of the live association; how queue `queue_id` of it is opened. The thread has to `leave` it.
    pub(super) fn enter(&self, queue_ids: impl Iterator<Item = u16>) -> Option<(u64, Vec<QueueOptions>)> {
        let mut details = self.details();
        let association = self.live();
        let controller = details.controller.as_ref().filter(|_| association != 0)?;
        let granted = controller.io_queues();
        let queues = queue_ids.filter(|id| *id <= granted).map(|id| controller.queue_options(id)).collect();
        match details.users.iter_mut().find(|(of, _)| *of == association) {
            Some((_, users)) => *users += 1,
            None => details.users.push((association, 1)),
        }
        Some((association, queues))
    }

    /// A thread has closed its queues of an association; whether it was the last.
    pub(super) fn leave(&self, association: u64) -> bool {
        let mut details = self.details();
        let Some(at) = details.users.iter().position(|(of, _)| *of == association) else { return true };
        details.users[at].1 -= 1;
        let last = details.users[at].1 == 0;
        if last {
            details.users.swap_remove(at);
        }
        last
    }

    /// True if no thread still has queues of an association.
    pub(super) fn is_left(&self, association: u64) -> bool {
        !self.details().users.iter().any(|(of, _)| *of == association)
    }

    /// True if commands of an association can take effect no more.
    pub(super) fn is_at_rest(&self, association: u64) -> bool {
        self.at_rest.load(Ordering::Acquire) >= association
    }

    /// All associations up to this one have come to rest.
    pub(super) fn lay_to_rest(&self, association: u64) {
        self.at_rest.fetch_max(association, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Path {
        Path::new(
            ConnectOptions::new("127.0.0.1:4420".parse().unwrap(), "nqn.2026-01.io.selvedge:a"),
            Moment(0),
        )
    }

    #[test]
    fn commands_wait_for_a_path_that_may_come_back() {
        let path = path();
        let after = |seconds| Moment(0).after(Duration::from_secs(seconds));
        let limit = Some(Duration::from_secs(5));
        assert!(path.may_come_back(limit, after(4)));
        assert!(!path.may_come_back(limit, after(5)));
        assert!(path.may_come_back(None, after(1_000_000)));
        path.give_up(None);
        assert!(!path.may_come_back(None, after(0)));
    }

    #[test]
    fn an_ana_state_in_doubt_is_not_used() {
        let path = path();
        assert_eq!(path.access(), Access::Optimized);
        path.doubt_ana();
        assert_eq!((path.access(), path.ana()), (Access::None, None));
        path.set_ana(AnaState::NonOptimized);
        assert_eq!(path.access(), Access::NonOptimized);
        path.set_ana(AnaState::Inaccessible);
        assert_eq!(path.access(), Access::None);
    }

    #[test]
    fn rest_comes_in_order() {
        let path = path();
        assert!(!path.is_at_rest(1));
        path.lay_to_rest(2);
        path.lay_to_rest(1);
        assert!(path.is_at_rest(2) && !path.is_at_rest(3));
        assert!(path.enter(1..=4).is_none(), "there is nothing to have queues of");
        assert!(path.is_left(1));
    }
}
