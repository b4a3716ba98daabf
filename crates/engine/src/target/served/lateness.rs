//! Operations of a namespace that exceed the Command Quiesce Time, and when they are logged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::LATE_EPISODE_QUIET_MS;
use crate::ring::Moment;

/// Operations of a namespace that exceed the Command Quiesce Time. Logged once when they begin, and
/// once when they have ended.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    is_reported: AtomicBool,
    under_way: AtomicU64,
    operations: AtomicU64,
    longest_ns: AtomicU64,
    /// Time of the last late operation.
    last_ns: AtomicU64,
}

impl Lateness {
    /// Records that an operation is late. Returns true for the first one of an episode.
    pub(crate) fn begin(&self, now: Moment) -> bool {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.last_ns.fetch_max(now.0, Ordering::Relaxed);
        !self.is_reported.swap(true, Ordering::AcqRel)
    }

    /// Records the end of a late operation after `took`.
    pub(crate) fn end(&self, took: Duration, now: Moment) {
        self.longest_ns.fetch_max(took.as_nanos() as u64, Ordering::Relaxed);
        self.last_ns.fetch_max(now.0, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// Number of late operations and the longest time, at the end of an episode: there have been
    /// none for a while.
    pub(crate) fn is_over(&self, now: Moment) -> Option<(u64, Duration)> {
        let quiet = now.since(Moment(self.last_ns.load(Ordering::Relaxed)));
        let is_over = self.under_way.load(Ordering::Acquire) == 0
            && quiet >= Duration::from_millis(LATE_EPISODE_QUIET_MS)
            && self.is_reported.load(Ordering::Acquire);
        if !is_over {
            return None;
        }
        let operations = self.operations.swap(0, Ordering::Relaxed);
        let longest = Duration::from_nanos(self.longest_ns.swap(0, Ordering::Relaxed));
        self.is_reported.store(false, Ordering::Release);
        Some((operations, longest))
    }

    /// Number of operations that are late now.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_reported_once_until_there_is_none_for_a_while() {
        let quiet = Duration::from_millis(LATE_EPISODE_QUIET_MS);
        let at = |seconds: u64| Moment(0).after(Duration::from_secs(seconds));
        let late = Lateness::default();
        assert!(late.begin(at(100)) && !late.begin(at(101)));
        late.end(Duration::from_secs(3), at(102));
        assert_eq!((late.under_way(), late.is_over(at(102).after(quiet))), (1, None), "one is left");
        late.end(Duration::from_secs(9), at(110));
        assert_eq!(late.is_over(at(110)), None, "another may follow at once");
        assert!(!late.begin(at(111)), "it is the same trouble");
        late.end(Duration::from_secs(4), at(112));
        assert_eq!(late.is_over(at(112).after(quiet)), Some((3, Duration::from_secs(9))));
        assert_eq!(late.is_over(at(1000)), None, "reported once");
        assert!(late.begin(at(2000)), "a new one");
    }
}
