//! Lock under which one path at a time joins the others, held while its thread waits for the network.
//! Unlike with a mutex, a thread that waits for it notices that the set of paths ends, and time passes
//! for it in a simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ring::EventCount;

/// Time between two looks: a release of the lock wakes the waiters, so this only bounds the cost of a lost wake-up.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Lock that threads hold one after the other.
#[derive(Debug)]
pub(super) struct JoinLock {
    is_taken: AtomicBool,
    event_count: Arc<EventCount>,
}

/// Guard of the lock, which is released when it is dropped.
#[derive(Debug)]
pub(super) struct JoinGuard<'a>(&'a JoinLock);

impl JoinLock {
    /// Lock whose releases are notified through `event_count`.
    pub(super) const fn new(event_count: Arc<EventCount>) -> Self {
        Self { is_taken: AtomicBool::new(false), event_count }
    }

    /// Waits for the lock; `None` when it is no longer wanted.
    pub(super) fn acquire(&self, is_unwanted: impl Fn() -> bool) -> Option<JoinGuard<'_>> {
        loop {
            let seen = self.event_count.count();
            if is_unwanted() {
                return None;
            }
            if !self.is_taken.swap(true, Ordering::Acquire) {
                return Some(JoinGuard(self));
            }
            self.event_count.wait(seen, LOOK_INTERVAL);
        }
    }
}

impl Drop for JoinGuard<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
        self.0.event_count.notify_all();
    }
}

#[cfg(test)]
#[cfg(not(feature = "simulation"))]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_waited_for_until_it_is_free_or_no_longer_wanted() {
        let (event_count, unwanted) = (Arc::new(EventCount::default()), AtomicBool::new(false));
        let lock = JoinLock::new(event_count.clone());
        let first = lock.acquire(|| false).expect("the lock is free");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.acquire(|| unwanted.load(Ordering::Acquire)).is_some());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "two threads hold the lock at once");
            unwanted.store(true, Ordering::Release);
            event_count.notify_all();
            assert!(!waiting.join().expect("it ends"), "an unwanted thread holds the lock");
            let next = scope.spawn(|| lock.acquire(|| false).is_some());
            drop(first);
            assert!(next.join().expect("it ends"), "a released lock is not passed on");
        });
    }
}
