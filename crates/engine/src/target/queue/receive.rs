//! The receiving half of a queue: bytes become commands and data, and data is received where it will be used. What a command
//! means is not known here.

use std::io;
use std::ops::Range;

use nvme::SubmissionEntry;
use nvme::tcp::{DataPdu, DecodeError, Event, FatalError, negotiate};
use zerocopy::IntoBytes;

use super::disconnect::Disconnect;
use super::tcp_queue::{Queue, Receiving, Requested};
use crate::backend::{MemoryHolder, Writer};
use crate::limits::{DATA_TO_CONTROLLER_MAX, LARGE_DATA_LENGTH_MIN, RECEIVE_AHEAD_LENGTH, RECEIVE_BUDGET};
use crate::observation::Observation;
use crate::ring::{Buffer, SpanMut, observe};
use crate::target::telemetry::{Peculiarity, Seen};

/// A received command, or its data.
pub(crate) enum Incoming {
    /// A command, with this number of bytes in its capsule.
    Command { entry: SubmissionEntry, data_length: usize },
    /// All the data of the command in a slot; whether it is as it was sent.
    Data { slot: u16, buffer: Buffer, is_intact: bool },
    /// The same, where all of it is in its place in memory already. The buffer is given back.
    Placed { slot: u16, buffer: Buffer },
}

/// Result of one receive call.
pub(crate) enum Received {
    /// This number of bytes at the beginning of the space, and of payload where it belongs; whether there may be more.
    Bytes { length: usize, direct: usize, may_be_more: bool },
    /// No bytes were available.
    Nothing,
}

impl<H: MemoryHolder> Queue<H> {
    /// Makes one receive call: the rest of a large payload goes straight to its place or its
    /// buffer, all that follows to `scratch`.
    pub(crate) fn receive(&mut self, scratch: &mut [u8]) -> Result<Received, Disconnect> {
        if self.secure.is_some() {
            return self.receive_records(scratch);
        }
        // Behind one large payload mostly comes the next one, whose bytes would be copied out of the space.
        let room = if self.is_after_large { RECEIVE_AHEAD_LENGTH.min(scratch.len()) } else { scratch.len() };
        let scratch = &mut scratch[..room];
        let left = self.receiver.data_left();
        if let Some(received) = self.receive_in_place(left, scratch)? {
            return Ok(received);
        }
        let (direct, result) = match destination(&mut self.receiving, &mut self.requested, left) {
            Some(target) => (left, self.socket.receive(&mut [SpanMut::new(target), SpanMut::new(scratch)])),
            None => (0, self.socket.receive(&mut [SpanMut::new(scratch)])),
        };
        let received = match result {
            Ok(0) => return Err(Disconnect::Gone),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(_) => return Err(Disconnect::Gone),
        };
        // Before anything is decoded: a host that sends what cannot be decoded is alive.
        self.received_since_look = true;
        let is_short = received < direct + room;
        let direct = direct.min(received);
        self.take_direct(direct);
        let may_be_more = !is_short || self.ended || !self.socket.is_emptied_by_short_read();
        Ok(Received::Bytes { length: received - direct, direct, may_be_more })
    }

    /// Receives the rest of a write's data into memory, if all of it has come: the write takes
    /// effect at once and as a whole, as if it had been copied. `None` if some of it has not come,
    /// or if the command has to be looked at first.
    fn receive_in_place(&mut self, left: usize, scratch: &mut [u8]) -> Result<Option<Received>, Disconnect> {
        // Where a short read says nothing, a stream may give less than has come.
        if left < LARGE_DATA_LENGTH_MIN || self.digests.data || !self.socket.is_emptied_by_short_read() {
            return Ok(None);
        }
        let Receiving::Transfer { slot, at } = self.receiving else { return Ok(None) };
        let Some(Some(requested)) = self.requested.get_mut(usize::from(slot)) else { return Ok(None) };
        let Some(place) = &requested.place else { return Ok(None) };
        // Of a transfer in several PDUs the last alone, behind which nothing can stay away.
        if requested.transfer.remaining() > 0 || !place.holder.takes_data() {
            return Ok(None);
        }
        if self.socket.available() < left {
            return Ok(None);
        }
        // All pages for the whole call, so that each block is of one write. For pages in use the
        // command waits later, with its data in the buffer.
        let memory = place.holder.memory();
        let Some(mut writer) = memory.writer(place.offset, requested.buffer.len()) else { return Ok(None) };
        let (room, part) = (scratch.len(), at..at + left);
        let filled =
            fill(&mut writer, &mut requested.buffer, part, scratch, |spans| self.socket.receive(spans));
        drop(writer);
        let received = filled.map_err(|outcome| {
            let reason = "socket lost received data of a write, whose blocks may have a part";
            tracing::error!(offset = place.offset, ?outcome, "{reason}; closing the connection");
            Disconnect::Gone
        })?;
        requested.is_placed = true;
        self.receiver.data_placed(left);
        self.receiving = Receiving::Transfer { slot, at: at + left };
        self.received_since_look = true;
        let is_short = (left..left + room).contains(&received);
        let (length, may_be_more) = (received.saturating_sub(left), !is_short || self.ended);
        Ok(Some(Received::Bytes { length, direct: left, may_be_more }))
    }
}

/// Receives this part of a write's data, the last one, into its place, and what follows into
/// `scratch`. The earlier parts are copied from the buffer. Returns the number of bytes of the first
/// receive call.
///
/// # Errors
/// Outcome of the receive call that gave nothing.
fn fill(
    writer: &mut Writer<'_>,
    buffer: &mut [u8],
    part: Range<usize>,
    scratch: &mut [u8],
    mut receive: impl FnMut(&mut [SpanMut<'_>]) -> io::Result<usize>,
) -> Result<usize, io::Result<usize>> {
    let span = writer.room(part.start, part.len());
    let received = receive(&mut [span, SpanMut::new(scratch)]).unwrap_or(0);
    let mut placed = part.start + received.min(part.len());
    // The kernel gives less than it has if it finds no memory for a page. The rest is copied into
    // such a page, as any other write would be.
    while placed < part.end {
        let rest = &mut buffer[placed..part.end];
        let more = match receive(&mut [SpanMut::new(rest)]) {
            Ok(more @ 1..) => more,
            outcome => return Err(outcome),
        };
        writer.write_at(placed, &rest[..more]);
        placed += more;
    }
    // Bytes that came with the header.
    writer.write_at(0, &buffer[..part.start]);
    Ok(received)
}

impl<H> Queue<H> {
    /// After the last words nothing that comes matters, but it has to be read for ours to be delivered. Whether there may be
    /// more.
    pub(crate) fn discard_input(&mut self, scratch: &mut [u8]) -> Result<bool, Disconnect> {
        for _ in 0..RECEIVE_BUDGET {
            match self.socket.receive(&mut [SpanMut::new(scratch)]) {
                Ok(0) => return Err(Disconnect::Gone),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(Disconnect::Gone),
            }
        }
        Ok(true)
    }

    /// Records payload that was received where it belongs.
    pub(super) fn take_direct(&mut self, length: usize) {
        if length == 0 {
            return;
        }
        match &mut self.receiving {
            Receiving::Transfer { slot, at } => {
                if let Some(Some(requested)) = self.requested.get(usize::from(*slot)) {
                    self.receiver.data_received(&requested.buffer[*at..*at + length]);
                }
                *at += length;
            }
            Receiving::Capsule { buffer, at, .. } => {
                self.receiver.data_received(&buffer[*at..*at + length]);
                *at += length;
            }
            Receiving::Discard => {}
        }
    }

    /// The next thing in `input`, or `None` when all of it is taken.
    pub(crate) fn next(
        &mut self,
        input: &mut &[u8],
        seen: &mut Seen,
    ) -> Result<Option<Incoming>, Disconnect> {
        loop {
            if self.receiver.data_left() > 0 {
                if input.is_empty() {
                    return Ok(None);
                }
                let data = self.receiver.take_data(input, usize::MAX);
                keep(&mut self.receiving, &mut self.requested, data);
                continue;
            }
            match self.receiver.next(input)? {
                Some(Event::Command { entry, data_length }) => {
                    self.receiving = Receiving::Discard;
                    self.is_after_large &= data_length == 0;
                    return Ok(Some(Incoming::Command { entry, data_length }));
                }
                Some(Event::Data(pdu)) => {
                    self.on_data(&pdu, seen).map_err(|fault| fault.within(pdu.as_bytes()))?;
                }
                Some(Event::DataEnd { digest_matches }) => {
                    if let Some(data) = self.on_data_end(digest_matches) {
                        return Ok(Some(data));
                    }
                }
                Some(Event::Initialize(request)) => {
                    let (response, negotiated) = negotiate(&request, DATA_TO_CONTROLLER_MAX)
                        .map_err(|error| Disconnect::from(error).within(request.as_bytes()))?;
                    self.transmitter.initialize(&response);
                    self.transmitter.set_digests(negotiated.digests);
                    self.transmitter.set_alignment(negotiated.data_alignment);
                    if negotiated.has_unknown_digests {
                        seen.note(Peculiarity::UnknownDigests);
                    }
                    self.receiver.set_digests(negotiated.digests);
                    self.digests = negotiated.digests;
                }
                Some(Event::Terminate { error, information }) => {
                    observe(Observation::ProtocolViolation);
                    let name = FatalError::name_of(error);
                    tracing::info!(error = name, information, "host ends a connection");
                    return Err(Disconnect::Gone);
                }
                Some(Event::Response(_) | Event::ReadyToTransfer(_)) => {
                    return Err(DecodeError::new(FatalError::PduSequence, 0).into());
                }
                None if self.receiver.data_left() == 0 => {
                    if self.receiver.has_stray_flags() {
                        seen.note(Peculiarity::StrayDigestFlags);
                    }
                    if self.receiver.has_unset_offsets() {
                        seen.note(Peculiarity::UnsetDataOffset);
                    }
                    return Ok(None);
                }
                None => {}
            }
        }
    }

    /// The data of the capsule that has just come, if all of it is in `input`.
    pub(crate) fn capsule<'a>(&self, data_length: usize, input: &'a [u8]) -> Option<&'a [u8]> {
        (self.receiver.data_left() == data_length).then(|| input.get(..data_length)).flatten()
    }

    /// A data PDU that answers an R2T.
    fn on_data(&mut self, pdu: &DataPdu, seen: &mut Seen) -> Result<(), Disconnect> {
        /// Byte offsets of CCCID and TTAG in the header.
        const COMMAND_ID_AT: u32 = 8;
        const TAG_AT: u32 = 10;
        let slot = pdu.transfer_tag.get();
        let Some(requested) = self.requested.get_mut(usize::from(slot)).and_then(Option::as_mut) else {
            return Err(DecodeError::new(FatalError::InvalidHeaderField, TAG_AT).into());
        };
        if requested.command_id != pdu.command_id.get() {
            return Err(DecodeError::new(FatalError::InvalidHeaderField, COMMAND_ID_AT).into());
        }
        let length = requested.buffer.len();
        let (range, last_is_right) = requested.transfer.accept_with_any_last(pdu).map_err(|_| {
            // Data past what was asked for is one thing, data within it but out of turn another.
            let end = u64::from(pdu.offset.get()) + u64::from(pdu.length.get());
            let outside = end > length as u64;
            let error = if outside { FatalError::DataTransferOutOfRange } else { FatalError::PduSequence };
            DecodeError::new(error, 0)
        })?;
        self.is_after_large = range.len() >= LARGE_DATA_LENGTH_MIN;
        self.receiving = Receiving::Transfer { slot, at: range.start };
        if !last_is_right {
            seen.note(Peculiarity::LastFlag);
        }
        Ok(())
    }

    /// The data of a PDU is there: that of a command, if it was the last of it.
    fn on_data_end(&mut self, digest_matches: bool) -> Option<Incoming> {
        match std::mem::replace(&mut self.receiving, Receiving::Discard) {
            Receiving::Discard => None,
            Receiving::Capsule { slot, buffer, .. } => {
                Some(Incoming::Data { slot, buffer, is_intact: digest_matches })
            }
            Receiving::Transfer { slot, .. } => {
                let place = self.requested.get_mut(usize::from(slot))?;
                let requested = place.as_mut()?;
                requested.is_intact &= digest_matches;
                if requested.transfer.remaining() > 0 {
                    return None;
                }
                let Requested { buffer, is_intact, is_placed, .. } = place.take()?;
                if is_placed {
                    return Some(Incoming::Placed { slot, buffer });
                }
                Some(Incoming::Data { slot, buffer, is_intact })
            }
        }
    }
}

/// Room for the `left` bytes of the present PDU's data that have not come, in the buffer that they all go to.
pub(super) fn destination<'a, H>(
    receiving: &'a mut Receiving,
    requested: &'a mut [Option<Requested<H>>],
    left: usize,
) -> Option<&'a mut [u8]> {
    match receiving {
        Receiving::Transfer { slot, at } if left > 0 => {
            let requested = requested.get_mut(usize::from(*slot)).and_then(Option::as_mut);
            requested.map(|requested| &mut requested.buffer[*at..*at + left])
        }
        Receiving::Capsule { buffer, skip: 0, at, .. } if left > 0 && left <= buffer.len() - *at => {
            Some(&mut buffer[*at..*at + left])
        }
        _ => None,
    }
}

/// Puts data of the PDU that is coming in where it goes.
fn keep<H>(receiving: &mut Receiving, requested: &mut [Option<Requested<H>>], data: &[u8]) {
    match receiving {
        Receiving::Discard => {}
        Receiving::Transfer { slot, at } => {
            if let Some(Some(requested)) = requested.get_mut(usize::from(*slot)) {
                requested.buffer[*at..*at + data.len()].copy_from_slice(data);
            }
            *at += data.len();
        }
        Receiving::Capsule { buffer, skip, at, .. } => {
            let skipped = (*skip).min(data.len());
            let data = &data[skipped..];
            let kept = data.len().min(buffer.len() - *at);
            buffer[*at..*at + kept].copy_from_slice(&data[..kept]);
            *skip -= skipped;
            *at += kept;
        }
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
