//! The sending half of a queue: one vectored send of all queued bytes, wherever they are. Shared memory goes
//! to the socket from its place, and is locked against writes meanwhile.

use std::io;

use nvme::tcp::Chunk;

use super::tcp_queue::{Payload, Queue, Remainder, ZEROES};
use crate::backend::{Memory, MemoryHolder};
use crate::limits::{BUFFER_LENGTH_MIN, SEND_PARTS_MAX};
use crate::ring::{BufferPool, Moment, Ring, Span};

/// Bytes of a page, whose beginning has left.
const PAGE: u64 = BUFFER_LENGTH_MIN as u64;

/// Bytes of memory in the send list that are not of the remainder.
pub(super) struct Piece<'a> {
    pub(super) memory: &'a Memory,
    pub(super) offset: u64,
    pub(super) length: usize,
}

impl<H: MemoryHolder> Queue<H> {
    /// Sends all that is queued, as far as the socket takes it. The bytes of the buffers that have left whole, which are the
    /// pool's again.
    pub(crate) fn flush(&mut self, ring: &mut Ring, pool: &mut BufferPool, now: Moment) -> io::Result<usize> {
        let mut released = 0;
        if self.secure.is_some() {
            return self.flush_sealed(ring, pool, now);
        }
        while !self.transmitter.is_empty() && !self.blocked {
            let (sent, wanted) = self.send_once(pool, now)?;
            // After the pages were given back: with the payload goes what holds the memory in its place.
            self.transmitter.advance(sent, |payload| {
                if let Payload::Buffer(buffer) = payload {
                    released += buffer.capacity();
                    pool.give(buffer);
                }
            });
            if sent < wanted {
                self.blocked = true;
                ring.await_writable(&self.socket, self.token)?;
            }
            if self.is_cut {
                break;
            }
        }
        Ok(released)
    }

    /// The socket takes more again.
    pub(crate) const fn unblock(&mut self) {
        self.blocked = false;
    }

    /// A turn has ended. Once the last words have left, the stream ends.
    pub(crate) fn settle(&mut self, now: Moment) {
        self.patience.settle(self.is_cut, now);
        if self.is_terminated() && self.is_flushed() {
            self.socket.shut_down_sending();
        }
    }

    /// Makes one send call. Returns the number of bytes sent and the number offered. The call ends
    /// before a page that is being written.
    fn send_once(&mut self, pool: &mut BufferPool, now: Moment) -> io::Result<(usize, usize)> {
        let insists = self.patience.is_over(now);
        // One place is the remainder's.
        let ready = self.digest(SEND_PARTS_MAX - 1, insists);
        let mut spans = [Span::EMPTY; SEND_PARTS_MAX];
        let (mut count, mut wanted, mut is_cut, mut in_memory) = (0, 0, false, false);
        for (at, part) in self.transmitter.chunks().take(SEND_PARTS_MAX - 1).enumerate() {
            if at == ready {
                is_cut = true;
                break;
            }
            let mut rest = &[][..];
            let span = match part {
                Chunk::Bytes(bytes) => Span::new(bytes),
                Chunk::Payload { payload: Payload::Buffer(buffer), start, end } => {
                    Span::new(&buffer[start..end])
                }
                Chunk::Payload { payload: Payload::Zeroes, start, end } => Span::new(&ZEROES[start..end]),
                Chunk::Payload { payload: Payload::Memory { holder, offset }, start, end } => {
                    rest = self.rest_before(at);
                    let piece = piece(holder, *offset, start + rest.len()..end);
                    let held = if self.digests.data {
                        piece.length
                    } else {
                        piece.memory.hold(piece.offset, piece.length, insists)
                    };
                    in_memory |= held > 0;
                    is_cut = held < piece.length;
                    piece.memory.span(piece.offset, held)
                }
            };
            for span in [Span::new(rest), span] {
                if !span.is_empty() {
                    spans[count] = span;
                    count += 1;
                    wanted += span.len();
                }
            }
            if is_cut {
                break;
            }
        }
        let sent = match count {
            0 => Ok(0),
            _ => self.socket.send(&spans[..count]),
        };
        // The pages that were held are given back below whatever this call has done, also where it has failed.
        let sent = match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        };
        // A socket that takes no more tells when it does, and there is nothing to try again before.
        self.is_cut = is_cut && sent.as_ref().is_ok_and(|sent| *sent == wanted);
        if in_memory || self.remainder.is_some() {
            self.let_go(wanted, *sent.as_ref().unwrap_or(&0), pool);
        }
        sent.map(|sent| (sent, wanted))
    }

    /// Takes the pages among the first `parts` parts whose digests are made when they leave, and makes those. How many parts
    /// may leave: a page that is being written is not among them.
    pub(super) fn digest(&mut self, parts: usize, insists: bool) -> usize {
        if !self.digests.data {
            return parts;
        }
        self.transmitter.digest(parts, |payload, range| {
            let Payload::Memory { holder, offset } = payload else { return None };
            let piece = piece(holder, *offset, range);
            // Of one page, it is held whole or not at all.
            let held = piece.memory.hold(piece.offset, piece.length, insists);
            (held == piece.length).then(|| piece.memory.crc32c_held(piece.offset, piece.length))
        })
    }

    /// Gives the pages back that were held for a send of `wanted` bytes, of which `sent` have left. Of a page that has left in
    /// part, the rest is kept as it is.
    fn let_go(&mut self, wanted: usize, sent: usize, pool: &mut BufferPool) {
        let (mut begin, mut kept) = (0, None);
        for (at, part) in self.transmitter.chunks().enumerate() {
            if begin >= wanted {
                break;
            }
            let Chunk::Payload { payload: Payload::Memory { holder, offset }, start, end } = part else {
                begin += match part {
                    Chunk::Bytes(bytes) => bytes.len(),
                    Chunk::Payload { start, end, .. } => end - start,
                };
                continue;
            };
            begin += self.rest_before(at).len();
            let piece = piece(holder, *offset, start + self.rest_before(at).len()..end);
            let held = piece.length.min(wanted - begin);
            let left = piece.offset + sent.saturating_sub(begin).min(held) as u64;
            if left > piece.offset && left < piece.offset + held as u64 && !left.is_multiple_of(PAGE) {
                let end = (left - left % PAGE + PAGE).min(piece.offset + held as u64);
                let mut page = pool.take((end - left) as usize);
                piece.memory.read_held(left, &mut page);
                kept = Some(Remainder { page, at: 0 });
            }
            piece.memory.release(piece.offset, held);
            begin += held;
        }
        match &mut self.remainder {
            // It has not all left: nothing behind it has.
            Some(remainder) if sent < remainder.bytes().len() => remainder.at += sent,
            remainder => {
                if let Some(former) = std::mem::replace(remainder, kept) {
                    pool.give(former.page);
                }
            }
        }
    }

    /// Saved bytes of the first part in the send list, whose beginning has been sent; empty for the
    /// other parts.
    fn rest_before(&self, part: usize) -> &[u8] {
        match &self.remainder {
            Some(remainder) if part == 0 => remainder.bytes(),
            _ => &[],
        }
    }
}

/// Bytes of memory that a queued payload names.
pub(super) fn piece<H: MemoryHolder>(holder: &H, offset: u64, range: std::ops::Range<usize>) -> Piece<'_> {
    Piece { memory: holder.memory(), offset: offset + range.start as u64, length: range.len() }
}
