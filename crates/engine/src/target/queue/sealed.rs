//! A queue over TLS: received records are decrypted in place, and queued bytes are encrypted into
//! the space that is sent from. Shared memory is held only while it is encrypted, so a host that
//! reads slowly does not delay writers.

use std::io;
use std::ops::Range;

use nvme::tcp::Chunk;
use secure_channel::SealError;

use super::disconnect::Disconnect;
use super::receive::{Received, destination};
use super::send::piece;
use super::tcp_queue::{Payload, Queue, ZEROES};
use crate::backend::MemoryHolder;
use crate::limits::{BUFFER_LENGTH_MIN, SEND_PARTS_MAX};
use crate::ring::{BufferPool, Moment, Ring};
use crate::secure_stream::{Piece, Sealing};

/// Bytes of a page, which is sealed whole: what its host reads is of one moment.
const PAGE: u64 = BUFFER_LENGTH_MIN as u64;

impl<H> Queue<H> {
    /// Makes one receive call, and appends to the part of a record that is already there.
    pub(super) fn receive_records(&mut self, scratch: &mut [u8]) -> Result<Received, Disconnect> {
        let Some(secure) = &mut self.secure else { return Ok(Received::Nothing) };
        let room = scratch.len();
        let length = match secure.inbound.receive(&self.socket, scratch) {
            Ok(Some(length)) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Ok(None) | Err(_) => return Err(Disconnect::Gone),
        };
        self.received_since_look = true;
        let may_be_more = length == room || self.ended || !self.socket.is_emptied_by_short_read();
        Ok(Received::Bytes { length, direct: 0, may_be_more })
    }

    /// True once the keys have reached their usage limit. A host that can do so replaces them
    /// earlier.
    pub(crate) fn is_worn(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.is_worn())
    }

    /// True if the queue keeps memory for the beginning of a record, which an idle queue gives
    /// back.
    pub(crate) fn keeps_input(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.inbound.keeps_memory())
    }

    /// True if the queue uses TLS.
    pub(crate) const fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Range of the next data in the received bytes from `at` on, and advances `at`. `None` when
    /// all of it was consumed. Payload of which more is to come is opened into its buffer.
    pub(crate) fn open(
        &mut self,
        space: &mut [u8],
        at: &mut usize,
    ) -> Result<Option<Range<usize>>, Disconnect> {
        while let Some(secure) = &mut self.secure {
            let left = self.receiver.data_left();
            let place = destination(&mut self.receiving, &mut self.requested, left).unwrap_or_default();
            match secure.inbound.next(space, at, place)? {
                Piece::Data(data) => return Ok(Some(data)),
                Piece::Placed(length) => self.take_direct(length),
                Piece::AsksForUpdate => secure.outbound.update(false),
                Piece::End => return Err(Disconnect::Gone),
                Piece::Nothing => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl<H: MemoryHolder> Queue<H> {
    /// Seals what is queued and sends it, as far as the socket takes it. The bytes of the buffers that were sealed whole.
    pub(super) fn flush_sealed(
        &mut self,
        ring: &mut Ring,
        pool: &mut BufferPool,
        now: Moment,
    ) -> io::Result<usize> {
        let mut released = 0;
        self.is_cut = false;
        while !self.blocked {
            let Some(secure) = &mut self.secure else { return Ok(released) };
            let has_left = secure.outbound.send(&self.socket, |space| pool.give(space))?;
            if !has_left {
                self.blocked = true;
                ring.await_writable(&self.socket, self.token)?;
            } else if self.is_cut || (self.transmitter.is_empty() && !secure.outbound.wants_turn()) {
                break;
            } else {
                released += self.seal(pool, now).map_err(io::Error::other)?;
            }
        }
        // A socket that takes no more tells when it does, and there is nothing to try again before.
        self.is_cut &= !self.blocked;
        Ok(released)
    }

    /// Seals as much as there is space for, up to a page that is being written: the bytes of the buffers that are free again.
    fn seal(&mut self, pool: &mut BufferPool, now: Moment) -> Result<usize, SealError> {
        let insists = self.patience.is_over(now);
        let (mut released, mut is_full) = (0, false);
        let Some(mut secure) = self.secure.take() else { return Ok(0) };
        let mut sealing = secure.outbound.begin(self.transmitter.length(), |bytes| pool.take(bytes));
        while !is_full && !self.is_cut && !self.transmitter.is_empty() {
            let sealed;
            (sealed, is_full) = self.seal_parts(&mut sealing, insists);
            self.transmitter.advance(sealed, |payload| {
                if let Payload::Buffer(buffer) = payload {
                    released += buffer.capacity();
                    pool.give(buffer);
                }
            });
        }
        let sealed = sealing.finish(self.transmitter.is_empty());
        // Also where that has failed: without it the queue would go on in clear.
        self.secure = Some(secure);
        sealed.map(|()| released)
    }

    /// Seals some parts of what is queued: their bytes, and whether the space is full.
    fn seal_parts(&mut self, sealing: &mut Sealing<'_>, insists: bool) -> (usize, bool) {
        let ready = self.digest(SEND_PARTS_MAX, insists);
        let has_digests = self.digests.data;
        let (mut sealed, mut is_full, mut is_cut) = (0, false, false);
        for part in self.transmitter.chunks().take(ready) {
            let goes = !is_full && !is_cut;
            let (taken, length) = match part {
                Chunk::Payload { payload: Payload::Memory { holder, offset }, start, end } => {
                    let piece = piece(holder, *offset, start..end);
                    // Pages with digests are held already, and are given back whatever becomes of them.
                    let held = match (has_digests, goes) {
                        (true, _) => piece.length,
                        (false, true) => piece.memory.hold(piece.offset, piece.length, insists),
                        (false, false) => 0,
                    };
                    let whole = if goes { whole_pages(piece.offset, held, sealing.capacity()) } else { 0 };
                    let taken = piece.memory.with_held(piece.offset, whole, |bytes| sealing.push(bytes));
                    piece.memory.release(piece.offset, held);
                    is_cut |= goes && taken == held && held < piece.length;
                    (taken, piece.length)
                }
                _ if !goes => continue,
                Chunk::Bytes(bytes) => (sealing.push(bytes), bytes.len()),
                Chunk::Payload { payload: Payload::Buffer(buffer), start, end } => {
                    (sealing.push(&buffer[start..end]), end - start)
                }
                Chunk::Payload { payload: Payload::Zeroes, start, end } => {
                    (sealing.push(&ZEROES[start..end]), end - start)
                }
            };
            sealed += taken;
            is_full |= goes && !is_cut && taken < length;
        }
        self.is_cut = is_cut || (ready < SEND_PARTS_MAX && !is_full);
        (sealed, is_full)
    }
}

/// The first bytes of memory that end with a page, or with all of them, and for which there is room.
const fn whole_pages(offset: u64, length: usize, room: usize) -> usize {
    if length <= room {
        return length;
    }
    let end = (offset + room as u64) / PAGE * PAGE;
    end.saturating_sub(offset) as usize
}
