//! Turns: work that one thread does at a time while it waits for the network. Unlike with a lock, a
//! thread that waits for its turn notices that the set ends, and time passes for it in a
//! simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ring::Bell;

/// Time between two looks: the bell is rung when a turn ends, so that this only bounds what a lost ring costs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Turns that threads take one after the other.
#[derive(Debug)]
pub(super) struct Turns {
    is_taken: AtomicBool,
    bell: Arc<Bell>,
}

/// A turn, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Turns whose ends `bell` is rung for.
    pub(super) const fn new(bell: Arc<Bell>) -> Self {
        Self { is_taken: AtomicBool::new(false), bell }
    }

    /// Waits for a turn; `None` when it is no longer wanted.
    pub(super) fn take(&self, is_unwanted: impl Fn() -> bool) -> Option<Turn<'_>> {
        loop {
            let seen = self.bell.count();
            if is_unwanted() {
                return None;
            }
            if !self.is_taken.swap(true, Ordering::Acquire) {
                return Some(Turn(self));
            }
            self.bell.wait(seen, LOOK_INTERVAL);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
        self.0.bell.ring();
    }
}

#[cfg(test)]
#[cfg(not(feature = "simulation"))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_waited_for_until_it_ends_or_is_not_wanted_any_more() {
        let (bell, unwanted) = (Arc::new(Bell::default()), AtomicBool::new(false));
        let turns = Turns::new(bell.clone());
        let first = turns.take(|| false).expect("the turn is free");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(|| unwanted.load(Ordering::Acquire)).is_some());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "two have their turn at once");
            unwanted.store(true, Ordering::Release);
            bell.ring();
            assert!(!waiting.join().expect("it ends"), "who is not wanted has got a turn");
            let next = scope.spawn(|| turns.take(|| false).is_some());
            drop(first);
            assert!(next.join().expect("it ends"), "a turn that has ended is not given on");
        });
    }
}
