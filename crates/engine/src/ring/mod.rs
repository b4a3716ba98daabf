//! The seam between the engine and the machine: readiness of sockets, storage I/O, time, and waking another
//! thread. One ring belongs to one thread. It knows nothing of NVMe; a simulator can stand in its place.

#[cfg(not(feature = "simulation"))]
mod bell;
mod buffer;
pub(crate) mod channel;
pub mod core;
#[cfg(not(feature = "simulation"))]
mod epoll;
#[cfg(not(feature = "simulation"))]
mod machinery;
mod operation;
#[cfg(not(feature = "simulation"))]
mod poll;
#[cfg(not(feature = "simulation"))]
mod remote;
#[cfg(not(feature = "simulation"))]
mod socket;
mod span;
#[cfg(not(feature = "simulation"))]
mod storage;
pub(crate) mod thread;
pub(crate) mod transfer;
#[cfg(not(feature = "simulation"))]
mod uring;
#[cfg(not(feature = "simulation"))]
mod vital;
#[cfg(not(feature = "simulation"))]
mod waker;

use std::io;
use std::time::{Duration, SystemTime};

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::bell::Bell;
#[cfg(feature = "simulation")]
pub use crate::simulation::{disk::Storage, ring::Ring, ring::Waker, socket::Socket, thread::Vital};
#[cfg(not(feature = "simulation"))]
pub(crate) use bell::Bell;
pub use buffer::{Buffer, BufferPool};
#[cfg(not(feature = "simulation"))]
pub use machinery::Ring;
pub use operation::StorageOp;
#[cfg(not(feature = "simulation"))]
pub use remote::{RemoteOperation, RemoteStorage};
#[cfg(not(feature = "simulation"))]
pub use socket::Socket;
#[cfg(not(feature = "simulation"))]
pub(crate) use socket::bind_to_interface;
pub use span::{Span, SpanMut};
#[cfg(not(feature = "simulation"))]
pub use storage::Storage;
#[cfg(not(feature = "simulation"))]
pub use vital::Vital;
#[cfg(not(feature = "simulation"))]
pub use waker::Waker;

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
        Self { engine: Engine::Automatic, poll_us_max: crate::limits::POLL_US_MAX }
    }
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data, a connection to accept, or the end of the stream.
    pub readable: bool,
    /// Room in its send buffer. Reported only after `Ring::await_writable`.
    pub writable: bool,
    /// The peer sends no more, or the connection is broken. Data may still be there in front of the end, and no other
    /// event will come for it: read until the end shows, however short the reads.
    pub ended: bool,
}

impl Readiness {
    /// There may be something to read.
    pub const READABLE: Self = Self { readable: true, writable: false, ended: false };
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A watched socket may have something to read, room to write, or has come to its end.
    Ready {
        /// The token it is watched with.
        token: u32,
        /// What for.
        readiness: Readiness,
    },
    /// A storage operation ended.
    Stored {
        /// The token it was submitted with.
        token: u64,
        /// Bytes moved, or what went wrong.
        result: io::Result<usize>,
        /// The buffer that was lent to it.
        buffer: Option<Buffer>,
    },
    /// Somebody called `Waker::wake`.
    Woken,
}

/// The time now, on the clock of all rings.
pub fn now() -> Moment {
    #[cfg(feature = "simulation")]
    return crate::simulation::now();
    #[cfg(not(feature = "simulation"))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Moment(START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64)
    }
}

/// The time of day.
pub fn wall_time() -> SystemTime {
    #[cfg(feature = "simulation")]
    return SystemTime::UNIX_EPOCH + Duration::from_nanos(now().0);
    #[cfg(not(feature = "simulation"))]
    SystemTime::now()
}

/// A random number: it has nothing to do with secrets, and is not likely to come twice.
pub fn random() -> u64 {
    #[cfg(feature = "simulation")]
    return crate::simulation::random();
    // Of a random UUID's bits, the lower half has two that mean something.
    #[cfg(not(feature = "simulation"))]
    {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        high.rotate_left(32) ^ low
    }
}
