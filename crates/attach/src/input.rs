//! Bytes of a client that have been received and not been taken, in a space of fixed length.

use std::io;

use engine::ring::{Socket, SpanMut};

use crate::limits::INPUT_BYTES;

/// The space, and what of it is used.
pub(crate) struct Input {
    space: Box<[u8]>,
    start: usize,
    end: usize,
}

/// Result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// There may be more.
    Some,
    /// All that there was; an event tells when there is more.
    All,
    /// No bytes; an event follows when there are some.
    Nothing,
    /// The client sends no more.
    End,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { space: vec![0; INPUT_BYTES].into(), start: 0, end: 0 }
    }

    /// Input that begins with these bytes.
    pub(crate) fn going_on(bytes: &[u8]) -> Self {
        let mut space = vec![0; INPUT_BYTES.max(bytes.len())];
        space[..bytes.len()].copy_from_slice(bytes);
        Self { space: space.into(), start: 0, end: bytes.len() }
    }

    /// Bytes that have not been taken.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.space[self.start..self.end]
    }

    /// Takes this number of bytes, or all that there are.
    pub(crate) fn take(&mut self, count: usize) -> usize {
        let count = count.min(self.end - self.start);
        self.start += count;
        count
    }

    /// Moves bytes to the front of `to`, and says how many.
    pub(crate) fn copy(&mut self, to: &mut [u8]) -> usize {
        let count = to.len().min(self.end - self.start);
        to[..count].copy_from_slice(&self.space[self.start..][..count]);
        self.take(count)
    }

    /// Bytes that it has room for.
    pub(crate) fn room(&self) -> usize {
        self.space.len() - (self.end - self.start)
    }

    /// Adds bytes, for which there is room, as if they had been received.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.space.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.space[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Receives into `rest`, which takes what comes first, and then into the space unless `rest_alone`. Bytes of the space come
    /// before those that are received now, so that with a rest there must be none. Says how many bytes the rest got.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        rest: &mut [u8],
        rest_alone: bool,
    ) -> io::Result<(Received, usize)> {
        self.space.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let room = if rest_alone { &mut [] } else { &mut self.space[self.end..] };
        let (rest_length, asked) = (rest.len(), rest.len() + room.len());
        if asked == 0 {
            // A receive of no bytes would look like the end.
            return Ok((Received::Nothing, 0));
        }
        let received = match (rest.is_empty(), room.is_empty()) {
            (true, _) => socket.receive(&mut [SpanMut::new(room)]),
            (_, true) => socket.receive(&mut [SpanMut::new(rest)]),
            _ => socket.receive(&mut [SpanMut::new(rest), SpanMut::new(room)]),
        };
        match received {
            Ok(0) => Ok((Received::End, 0)),
            Ok(count) => {
                let into_rest = count.min(rest_length);
                self.end += count - into_rest;
                let is_all = count < asked && socket.is_emptied_by_short_read();
                Ok((if is_all { Received::All } else { Received::Some }, into_rest))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((Received::Nothing, 0)),
            Err(error) => Err(error),
        }
    }
}
