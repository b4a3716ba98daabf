//! How a ring is made. What each engine does is the machine's.

use crate::limits::POLL_US_MAX;

/// Which machinery is below a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// io_uring where it is allowed, else epoll.
    #[default]
    Automatic,
    /// io_uring or an error.
    IoUring,
    /// epoll, with threads for storage.
    Epoll,
}

/// How a ring is made.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Which machinery.
    pub engine: Engine,
    /// Longest time to poll before sleeping, in microseconds; 0 never polls.
    pub poll_us_max: u64,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { engine: Engine::Automatic, poll_us_max: POLL_US_MAX }
    }
}
