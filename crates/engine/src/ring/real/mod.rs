//! The machine that a program runs on: io_uring or epoll, sockets, threads and clocks of Linux.

pub mod channel;
mod clock;
mod epoll;
mod event_count;
pub mod lock;
mod poll;
mod program;
mod random;
mod remote;
mod ring;
mod socket;
mod storage;
pub mod tcp;
pub mod thread;
mod typical;
mod uring;
mod vital;
mod waker;

pub use clock::{now, wall_time};
pub(crate) use event_count::EventCount;
pub use program::end_program;
pub use random::random;
pub use remote::{RemoteOperation, RemoteStorage};
pub use ring::Ring;
pub use socket::Socket;
pub use storage::Storage;
pub use vital::Vital;
pub use waker::Waker;

use std::os::fd::OwnedFd;

use crate::observation::Observation;

/// Descriptor that holds the lock on a file, on its way to another process.
pub type Hold = OwnedFd;

/// Ignores an observation: only the simulation judges them.
pub(crate) const fn observe(_: Observation) {}
