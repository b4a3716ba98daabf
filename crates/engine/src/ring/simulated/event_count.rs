//! Event count of a simulation, which is waited for in virtual time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock;
use super::scheduler::{self, FiberId};

#[derive(Debug, Default)]
struct State {
    count: u64,
    waiting: Vec<FiberId>,
}

/// Counter of notifications that can be waited for.
#[derive(Debug, Default)]
pub(crate) struct EventCount(Mutex<State>);

impl EventCount {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all waiting threads.
    pub(crate) fn notify_all(&self) {
        let mut state = self.state();
        state.count += 1;
        state.waiting.drain(..).for_each(scheduler::unpark);
    }

    /// Number of notifications so far.
    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    /// Waits for a notification after `seen` was taken, or for `timeout`.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let deadline = clock::now().after(timeout);
        // Others have their turns, even where the wait is for no time at all.
        scheduler::step_aside();
        while !scheduler::is_ending() && clock::now() < deadline {
            {
                let mut state = self.state();
                if state.count != seen {
                    return;
                }
                state.waiting.extend(scheduler::current());
            }
            scheduler::park(Some(deadline));
        }
    }
}
