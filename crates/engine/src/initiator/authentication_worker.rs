//! The authentication worker of a driver: a thread that does the public-key work of its queues' exchanges and handshakes, which
//! takes up to milliseconds and would hold up the I/O of all of them. It is there only as long as there is work, so that a driver whose
//! queues are quiet, or never authenticate, costs no thread.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::limits::HOST_AUTHENTICATION_JOBS_MAX;
use crate::ring::channel::{Receiver, channel};
use crate::ring::{Waker, thread};

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
    /// Set while a thread takes jobs.
    is_running: bool,
}

/// Something to compute, which sends what it comes to.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    /// There as long as its queue waits.
    is_wanted: Weak<()>,
}

/// The way of a step back to its queue, which gives it up by dropping this.
pub(super) struct PendingStep<T> {
    answer: Receiver<T>,
    _waits: Arc<()>,
}

/// State of a step.
pub(super) enum StepState<T> {
    Working,
    Done(T),
    /// The step will not be done.
    GivenUp,
}

impl AuthenticationWorker {
    /// Of the driver with the ring that this wakes.
    pub(super) fn new(waker: Waker) -> Self {
        Self(Arc::new(Inner { waker, state: Mutex::default() }))
    }

    /// Has this step done; the ring is woken when it is. `None` when too many wait.
    pub(super) fn hand<T: Send + 'static>(
        &self,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Option<PendingStep<T>> {
        let (sender, answer) = channel();
        let waits = Arc::new(());
        let work = Box::new(move || {
            // A panic costs its queue alone: the answer's sender is gone then, which the queue sees.
            match catch_unwind(AssertUnwindSafe(step)) {
                Ok(outcome) => drop(sender.send(outcome)),
                Err(_) => drop(sender),
            }
        });
        let job = Job { work, is_wanted: Arc::downgrade(&waits) };
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

    /// The next job; without one the thread ends, and the next job starts another.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        let job = state.waiting.pop_front();
        state.is_running = job.is_some();
        job
    }

    fn run(&self) {
        while let Some(Job { work, is_wanted }) = self.next() {
            if is_wanted.strong_count() == 0 {
                continue;
            }
            work();
            self.waker.wake();
        }
    }
}

impl<T> PendingStep<T> {
    /// State of the step.
    pub(super) fn state(&self) -> StepState<T> {
        match self.answer.try_recv() {
            Ok(outcome) => StepState::Done(outcome),
            Err(TryRecvError::Empty) => StepState::Working,
            Err(TryRecvError::Disconnected) => StepState::GivenUp,
        }
    }
}

#[cfg(all(test, feature = "target", not(feature = "simulation")))]
#[path = "authentication_worker_tests.rs"]
mod tests;
