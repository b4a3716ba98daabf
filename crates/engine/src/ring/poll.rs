//! How long it pays to poll before sleeping: a bounded window that follows how soon events came lately.
//! It reads no clock itself.

use std::time::Duration;

/// The window: about twice the usual wait while that is short, nothing when events are rare.
#[derive(Debug)]
pub(super) struct PollWindow {
    max_ns: u64,
    usual_ns: u64,
}

/// A new wait weighs 1/8 in the average.
const WEIGHT_SHIFT: u32 = 3;

impl PollWindow {
    /// A window of at most `max_us` microseconds.
    pub(super) const fn new(max_us: u64) -> Self {
        let max_ns = max_us * 1000;
        Self { max_ns, usual_ns: 4 * max_ns }
    }

    /// How long to poll now.
    pub(super) const fn length(&self) -> Duration {
        if self.usual_ns > self.max_ns {
            return Duration::ZERO;
        }
        let twice = self.usual_ns * 2 + 1000;
        Duration::from_nanos(if twice < self.max_ns { twice } else { self.max_ns })
    }

    /// Records that the last wait lasted `waited`.
    pub(super) fn found(&mut self, waited: Duration) {
        // One long pause counts no more than a few windows, so that polling comes back soon after it.
        let waited_ns = (waited.as_nanos() as u64).min(8 * self.max_ns);
        self.usual_ns = self.usual_ns - (self.usual_ns >> WEIGHT_SHIFT) + (waited_ns >> WEIGHT_SHIFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_events_are_slept_for() {
        let mut window = PollWindow::new(50);
        assert_eq!(window.length(), Duration::ZERO);
        for _ in 0..100 {
            window.found(Duration::from_secs(1));
        }
        assert_eq!(window.length(), Duration::ZERO);
    }

    #[test]
    fn frequent_events_are_polled_for() {
        let mut window = PollWindow::new(50);
        for _ in 0..100 {
            window.found(Duration::from_micros(8));
        }
        assert!(window.length() > Duration::from_micros(8));
        assert!(window.length() <= Duration::from_micros(50));
    }
}
