//! Events of a ring. How the machine finds them out is the machine's.

use std::io;

use super::buffer::Buffer;

/// Operations for which a socket is ready.
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

/// Event of a ring.
#[derive(Debug)]
pub enum Event {
    /// A watched socket may have something to read, room to write, or has come to its end.
    Ready {
        /// The token it is watched with.
        token: u32,
        /// Operations for which it is ready.
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
    /// `Waker::wake` was called.
    Woken,
}
