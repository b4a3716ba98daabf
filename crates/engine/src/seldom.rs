//! Counts of events that may come in floods, and are logged seldom then: the first times, at powers of two, and once in a while for
//! as long as they go on. Logging is the caller's.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::LOGGED_EVERY_S;
use crate::ring::Moment;

/// Times that are logged, each of them.
const FIRST: u64 = 16;

/// Count of an event, and the moment at which it was logged last.
#[derive(Debug, Default)]
pub struct Seldom {
    count: AtomicU64,
    logged_ns: AtomicU64,
}

impl Seldom {
    /// Counts it; the number if it is one to be logged.
    pub fn count_to_log(&self, now: Moment) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let silence = now.since(Moment(self.logged_ns.load(Ordering::Relaxed)));
        // An event that goes on for days may be another party's by then.
        let is_due = count < FIRST || count.is_power_of_two() || silence.as_secs() >= LOGGED_EVERY_S;
        is_due.then(|| {
            self.logged_ns.store(now.0, Ordering::Relaxed);
            count
        })
    }

    /// Number of events so far.
    pub fn read(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_for_days_is_logged_now_and_then() {
        let seldom = Seldom::default();
        // A host that tries every ten seconds, for a day.
        let logged =
            (1..8640).filter(|at| seldom.count_to_log(Moment(at * 10_000_000_000)).is_some()).count();
        let most = 8640 * 10 / LOGGED_EVERY_S as usize;
        assert!((most / 2..most + 30).contains(&logged), "{logged}");
        assert_eq!(seldom.read(), 8639);
    }
}
