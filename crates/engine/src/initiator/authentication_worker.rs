//! The authentication worker of a driver: a thread that does the public-key work of its queues' exchanges, which takes
//! milliseconds and would hold up the I/O of all of them. It is there only as long as there is work, so that a driver whose
//! queues are quiet, or never authenticate, costs no thread.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use authentication::{HostSide, HostStep};

use crate::limits::HOST_AUTHENTICATION_JOBS_MAX;
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::{self, Waker, thread};

/// A step that was done, with the side that did it.
pub(super) type Computed = (Box<HostSide>, HostStep);

/// The worker, shared by all queues of a driver, whose ring it wakes.
#[derive(Clone)]
pub(super) struct AuthenticationWorker(Arc<Inner>);

struct Inner {
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Whether there is a thread that takes them.
    is_running: bool,
}

/// A message of the controller that is to be taken.
struct Job {
    side: Box<HostSide>,
    message: Vec<u8>,
    answer: Sender<Computed>,
    /// There as long as its queue waits.
    is_wanted: Weak<()>,
}

/// The way of a step back to its queue, which gives it up by dropping this.
pub(super) struct PendingStep {
    answer: Receiver<Computed>,
    _waits: Arc<()>,
}

/// What becomes of a step.
pub(super) enum StepState {
    Working,
    Done(Computed),
    /// It will not be done.
    GivenUp,
}

impl AuthenticationWorker {
    /// Of the driver with the ring that this wakes.
    pub(super) fn new(waker: Waker) -> Self {
        Self(Arc::new(Inner { waker, state: Mutex::default() }))
    }

    /// Has the message taken by the side; the ring is woken when it is. `None` when too many wait.
    pub(super) fn hand(&self, side: Box<HostSide>, message: Vec<u8>) -> Option<PendingStep> {
        let (sender, answer) = channel();
        let waits = Arc::new(());
        let job = Job { side, message, answer: sender, is_wanted: Arc::downgrade(&waits) };
        let mut state = self.0.state();
        if state.waiting.len() >= HOST_AUTHENTICATION_JOBS_MAX {
            state.waiting.retain(|job| job.is_wanted.strong_count() > 0);
            if state.waiting.len() >= HOST_AUTHENTICATION_JOBS_MAX {
                return None;
            }
        }
        state.waiting.push_back(job);
        let has_thread = std::mem::replace(&mut state.is_running, true);
        drop(state);
        if !has_thread {
            let inner = self.0.clone();
            let thread = thread::Builder::new().name("authentication".to_owned());
            if let Err(error) = thread.spawn(move || inner.run()) {
                tracing::debug!(%error, "no thread for authentication; the queues' own does it");
                self.0.run();
            }
        }
        Some(PendingStep { answer, _waits: waits })
    }
}

impl fmt::Debug for AuthenticationWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthenticationWorker")
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; without one the thread ends, and whoever has the next begins another.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        let job = state.waiting.pop_front();
        state.is_running = job.is_some();
        job
    }

    fn run(&self) {
        while let Some(Job { mut side, message, answer, is_wanted }) = self.next() {
            if is_wanted.strong_count() == 0 {
                continue;
            }
            // A panic costs its queue alone: the answer's sender is gone then, which the queue sees.
            let step = catch_unwind(AssertUnwindSafe(|| side.take(&message, &mut ring::fill_random)));
            match step {
                Ok(step) => drop(answer.send((side, step))),
                Err(_) => drop(answer),
            }
            self.waker.wake();
        }
    }
}

impl PendingStep {
    /// How far it is.
    pub(super) fn state(&self) -> StepState {
        match self.answer.try_recv() {
            Ok(computed) => StepState::Done(computed),
            Err(TryRecvError::Empty) => StepState::Working,
            Err(TryRecvError::Disconnected) => StepState::GivenUp,
        }
    }
}

#[cfg(all(test, not(feature = "simulation")))]
#[path = "authentication_worker_tests.rs"]
mod tests;
