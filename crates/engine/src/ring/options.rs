//! Options of a ring. What each engine does is the machine's.

use crate::limits::POLL_US_MAX;

/// Kernel interface below a ring.
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

/// Parameters of a new ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Kernel interface.
    pub engine: Engine,
    /// Longest time to poll before sleeping, in microseconds; 0 never polls.
    pub poll_us_max: u64,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { engine: Engine::Automatic, poll_us_max: POLL_US_MAX }
    }
}
