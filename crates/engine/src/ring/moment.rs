//! Moments on the clock of all rings. What the clock says is the machine's.

use std::time::Duration;

/// A moment on the ring's clock, in nanoseconds since the process began to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The time from `earlier` to this moment; nothing when it is not earlier.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` later.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration.as_nanos() as u64))
    }
}
