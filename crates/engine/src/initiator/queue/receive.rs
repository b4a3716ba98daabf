//! The receiving half of a queue: completions, data straight into its command's buffer, requests for data,
//! and a check of each against the commands that are outstanding. Framing and digests are checked below, in
//! `nvme::tcp`.

use std::io;
use std::sync::Arc;

use nvme::tcp::{DataPdu, DecodeError, Event, FatalError, ReadyToTransfer, TransferError};
use nvme::{CompletionEntry, Status};

use super::fault::Fault;
use super::slot::{Direction, Incoming};
use super::{Queue, QueueState};
use crate::initiator::{InitiatorError, PeerMisbehaved};
use crate::limits::{LARGE_DATA_LENGTH_MIN, RECEIVE_BUDGET, SCRATCH_LENGTH_MIN};
use crate::ring::{Moment, Readiness, Ring, SpanMut};

/// Bytes received behind a large data PDU with the same call: some dozens of headers.
const RECEIVE_AHEAD: usize = 2048;
/// Data with less than this left is copied rather than received on its own: copying costs less than a second
/// span.
const DIRECT_LENGTH: usize = 1024;

/// Byte offsets of header fields, for termination requests.
const FLAGS_AT: u32 = 1;
const COMMAND_ID_AT: u32 = 8;
const RESPONSE_COMMAND_ID_AT: u32 = 20;
const LENGTH_AT: u32 = 16;

impl Queue {
    /// Takes what the socket has: call it for each event with this queue's token. `scratch` is room to
    /// receive into, `limits::RECEIVE_LENGTH` long, that all queues of a thread share; nothing stays in it.
    ///
    /// # Panics
    /// When `scratch` has less than 32 KiB: a record of TLS has to fit.
    pub fn on_ready(&mut self, ring: &mut Ring, scratch: &mut [u8], readiness: Readiness) {
        let now = ring.now();
        self.on_ready_at(ring, scratch, readiness, now);
    }

    /// The same, where the clock was read a moment ago.
    pub(in crate::initiator) fn on_ready_at(
        &mut self,
        ring: &mut Ring,
        scratch: &mut [u8],
        readiness: Readiness,
        now: Moment,
    ) {
        self.clock = now;
        assert!(scratch.len() >= SCRATCH_LENGTH_MIN, "scratch room for at least 32 KiB");
        let outcome = match self.state {
            QueueState::Closed => return,
            QueueState::Connecting => self.connected(),
            QueueState::Securing => {
                self.blocked &= !readiness.writable;
                self.take_flight()
            }
            QueueState::Ending => return self.await_end(ring),
            _ => {
                self.blocked &= !readiness.writable;
                self.is_at_end |= readiness.ended;
                if readiness.readable || self.more { self.receive(scratch) } else { Ok(()) }
            }
        };
        if let Err(fault) = outcome {
            self.fail(ring, *fault);
        }
    }

    /// Receives until the socket is empty or the budget is used up.
    fn receive(&mut self, scratch: &mut [u8]) -> Result<(), Box<Fault>> {
        self.more = true;
        for _ in 0..RECEIVE_BUDGET {
            let address = self.options.address;
            match self.receive_once(scratch)? {
                Ok(Received::Full) => {}
                // The socket is empty, unless its end was part of the same event.
                Ok(Received::Short) if self.is_at_end => {}
                Ok(Received::Short) => {
                    self.more = false;
                    return Ok(());
                }
                Ok(Received::End) => return Err(Fault::ended(InitiatorError::Closed { address })),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.more = false;
                    return Ok(());
                }
                Err(error) => {
                    return Err(Fault::ended(InitiatorError::Broken { address, error: Arc::new(error) }));
                }
            }
        }
        Ok(())
    }

    fn receive_once(&mut self, scratch: &mut [u8]) -> Result<io::Result<Received>, Box<Fault>> {
        if self.secure.is_some() {
            return self.receive_records(scratch);
        }
        let Some(socket) = &self.socket else { return Ok(Ok(Received::End)) };
        let is_emptied_by_short_read = socket.is_emptied_by_short_read();
        let room = room_behind(self.data_length_last, scratch.len());
        let scratch = &mut scratch[..room];
        let data_left = self.receiver.data_left();
        let direct = match &mut self.incoming {
            Some(incoming) if data_left >= DIRECT_LENGTH => Some(incoming),
            _ => None,
        };
        let (received, asked, placed) = if let Some(incoming) = direct {
            let buffer = self.slots.get_mut(incoming.slot).buffer.as_deref_mut().unwrap_or_default();
            let rest = &mut buffer[incoming.next..incoming.end];
            let asked = rest.len() + room;
            let received = match socket.receive(&mut [SpanMut::new(rest), SpanMut::new(scratch)]) {
                Ok(received) => received,
                Err(error) => return Ok(Err(error)),
            };
            let placed = received.min(rest.len());
            self.receiver.data_received(&rest[..placed]);
            incoming.next += placed;
            (received, asked, placed)
        } else {
            match socket.receive(&mut [SpanMut::new(scratch)]) {
                Ok(received) => (received, room, 0),
                Err(error) => return Ok(Err(error)),
            }
        };
        if received == 0 {
            return Ok(Ok(Received::End));
        }
        self.process(&scratch[..received - placed])?;
        let is_all = received < asked && is_emptied_by_short_read;
        Ok(Ok(if is_all { Received::Short } else { Received::Full }))
    }

    pub(super) fn process(&mut self, mut input: &[u8]) -> Result<(), Box<Fault>> {
        loop {
            if !input.is_empty()
                && let Some(incoming) = &mut self.incoming
            {
                let taken = self.receiver.take_data(&mut input, usize::MAX);
                let end = incoming.next + taken.len();
                let buffer = self.slots.get_mut(incoming.slot).buffer.as_deref_mut().unwrap_or_default();
                buffer[incoming.next..end].copy_from_slice(taken);
                incoming.next = end;
            }
            let Some(event) = self.receiver.next(&mut input).map_err(Fault::decode)? else {
                if input.is_empty() {
                    return Ok(());
                }
                continue;
            };
            match event {
                Event::Response(entry) => self.on_response(&entry)?,
                Event::Data(pdu) => self.on_data(&pdu)?,
                Event::DataEnd { digest_matches } => self.on_data_end(digest_matches)?,
                Event::ReadyToTransfer(pdu) => self.on_ready_to_transfer(&pdu)?,
                Event::Initialize(response) => self.initialized(&response)?,
                Event::Terminate { error, information } => {
                    let address = self.options.address;
                    return Err(Fault::ended(InitiatorError::Terminated { address, error, information }));
                }
                // The receiver lets no command through to a host.
                Event::Command { .. } => {
                    return Err(Fault::decode(DecodeError::new(FatalError::PduSequence, 0)));
                }
            }
        }
    }

    fn on_response(&mut self, entry: &CompletionEntry) -> Result<(), Box<Fault>> {
        let command_id = entry.command_id.get();
        let fault = |misbehaviour, information| {
            Err(Fault::misbehaved(misbehaviour, FatalError::InvalidHeaderField, information, entry))
        };
        let Some(index) = self.slots.find(command_id) else {
            return fault(PeerMisbehaved::UnknownCommand { command_id }, RESPONSE_COMMAND_ID_AT);
        };
        let slot = self.slots.get_mut(index);
        if slot.answer.is_some() {
            return fault(PeerMisbehaved::UnknownCommand { command_id }, RESPONSE_COMMAND_ID_AT);
        }
        slot.answered(self.clock);
        let status = entry.status();
        let moves = matches!(slot.direction, Direction::Send | Direction::Receive);
        if status.is_success() && moves && slot.moved != slot.length {
            let (moved, length) = (slot.moved, slot.length);
            return Err(Fault::misbehaved(
                PeerMisbehaved::DataMissing { command_id, moved, length },
                FatalError::PduSequence,
                0,
                entry,
            ));
        }
        if slot.sends > 0 {
            // The buffer is still on the send list, and has to stay until it has left.
            slot.answer = Some((status, entry.result()));
            return Ok(());
        }
        self.complete(index, status, entry.result())
    }

    fn on_data(&mut self, pdu: &DataPdu) -> Result<(), Box<Fault>> {
        let command_id = pdu.command_id.get();
        let fault =
            |misbehaviour, error, information| Err(Fault::misbehaved(misbehaviour, error, information, pdu));
        let invalid = FatalError::InvalidHeaderField;
        let Some(index) = self.slots.find(command_id) else {
            return fault(PeerMisbehaved::UnknownCommand { command_id }, invalid, COMMAND_ID_AT);
        };
        let slot = self.slots.get_mut(index);
        if slot.direction != Direction::Receive {
            return fault(PeerMisbehaved::DataNotAsked { command_id }, FatalError::PduSequence, 0);
        }
        if pdu.is_success() && !pdu.is_last() {
            return fault(PeerMisbehaved::SuccessWithoutLast { command_id }, invalid, FLAGS_AT);
        }
        // In data to a host the tag is reserved, and what is reserved is not looked at.
        let mut untagged = *pdu;
        untagged.transfer_tag = 0.into();
        let accepted = if slot.is_exchange && pdu.is_last() {
            // What a message is asked for with is the most that it may have; Linux' target fills it up, SPDK's does not.
            let accepted = slot.transfer.accept_with_any_last(&untagged);
            accepted.map(|(range, _)| {
                slot.length = range.end as u32;
                range
            })
        } else {
            slot.transfer.accept(&untagged)
        };
        match accepted {
            Ok(range) => {
                slot.answered(self.clock);
                self.data_length_last = pdu.length.get();
                let success = pdu.is_success();
                self.incoming = Some(Incoming { slot: index, next: range.start, end: range.end, success });
                Ok(())
            }
            Err(TransferError::WrongLast) if pdu.is_success() => {
                let (moved, length) = (slot.moved + pdu.length.get(), slot.length);
                fault(PeerMisbehaved::DataMissing { command_id, moved, length }, invalid, FLAGS_AT)
            }
            Err(error @ TransferError::WrongLast) => {
                fault(PeerMisbehaved::DataOutOfRange { command_id, error }, invalid, FLAGS_AT)
            }
            Err(error) => {
                let kind = FatalError::DataTransferOutOfRange;
                fault(PeerMisbehaved::DataOutOfRange { command_id, error }, kind, 0)
            }
        }
    }

    fn on_data_end(&mut self, digest_matches: bool) -> Result<(), Box<Fault>> {
        let Some(incoming) = self.incoming.take() else { return Ok(()) };
        let slot = self.slots.get_mut(incoming.slot);
        slot.moved = incoming.end as u32;
        slot.damaged |= !digest_matches;
        if incoming.success {
            return self.complete(incoming.slot, Status::SUCCESS, 0);
        }
        Ok(())
    }

    fn on_ready_to_transfer(&mut self, pdu: &ReadyToTransfer) -> Result<(), Box<Fault>> {
        let command_id = pdu.command_id.get();
        let (offset, length) = (pdu.offset.get(), pdu.length.get());
        let fault =
            |misbehaviour, error, information| Err(Fault::misbehaved(misbehaviour, error, information, pdu));
        let invalid = FatalError::InvalidHeaderField;
        let Some(index) = self.slots.find(command_id) else {
            return fault(PeerMisbehaved::UnknownCommand { command_id }, invalid, COMMAND_ID_AT);
        };
        let slot = self.slots.get_mut(index);
        if slot.direction != Direction::Send || slot.answer.is_some() {
            let misbehaviour = PeerMisbehaved::ReadyToTransferNotExpected { command_id };
            return fault(misbehaviour, FatalError::PduSequence, 0);
        }
        if slot.sends > 0 {
            let misbehaviour = PeerMisbehaved::ReadyToTransferLimit { command_id };
            return fault(misbehaviour, FatalError::TransferLimitExceeded, 0);
        }
        let out_of_range = PeerMisbehaved::ReadyToTransferOutOfRange { command_id, offset, length };
        if length == 0 {
            return fault(out_of_range, invalid, LENGTH_AT);
        }
        if offset != slot.moved || length > slot.length - slot.moved {
            return fault(out_of_range, FatalError::DataTransferOutOfRange, 0);
        }
        slot.moved += length;
        slot.asked_for(self.clock);
        self.send_data(index, pdu);
        Ok(())
    }

    /// Ends the connection for `fault`, telling the target where it is to blame.
    pub(super) fn fail(&mut self, ring: &mut Ring, fault: Fault) {
        let address = self.options.address;
        let error = match fault {
            Fault::Ended(error) => error,
            Fault::NotTaken(_) if self.offers_another(ring) => return,
            Fault::NotTaken(error) => error,
            Fault::Record(error) => {
                self.break_off(&error);
                InitiatorError::ChannelBroken { address, error }
            }
            Fault::Decode(error) => {
                let mut header = [0; 128];
                let faulty = self.receiver.faulty_header();
                let length = faulty.len().min(header.len());
                header[..length].copy_from_slice(&faulty[..length]);
                self.terminate(error.error, error.information, &header[..length]);
                InitiatorError::Protocol { address, error }
            }
            Fault::Misbehaved { misbehaviour, error, information, header } => {
                self.terminate(error, information, &header);
                InitiatorError::PeerMisbehaved { address, misbehaviour }
            }
        };
        self.drain();
        self.shut(ring, error);
    }

    /// Throws away what has come: a socket closed with unread data resets the connection, and the peer would
    /// lose the termination request that tells it why.
    fn drain(&self) {
        let Some(socket) = &self.socket else { return };
        let mut sink = [0; 4096];
        for _ in 0..RECEIVE_BUDGET {
            match socket.receive(&mut [SpanMut::new(&mut sink)]) {
                Ok(1..) => {}
                _ => return,
            }
        }
    }
}

/// Bytes of `scratch_length` that a call receives into behind a data PDU of this length: behind a large one mostly comes the
/// next one, whose data would be copied out of the scratch room.
const fn room_behind(data_length: u32, scratch_length: usize) -> usize {
    let is_large = data_length as usize >= LARGE_DATA_LENGTH_MIN;
    if is_large && RECEIVE_AHEAD < scratch_length { RECEIVE_AHEAD } else { scratch_length }
}

/// Result of a receive call.
pub(super) enum Received {
    /// All the room was filled: there may be more.
    Full,
    /// The socket has no more.
    Short,
    /// The stream has ended.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECEIVE_LENGTH;

    #[test]
    fn behind_large_data_a_call_takes_little_of_the_next() {
        let large = LARGE_DATA_LENGTH_MIN as u32;
        for (data_length, room) in [
            (0, RECEIVE_LENGTH),
            (large - 1, RECEIVE_LENGTH),
            (large, RECEIVE_AHEAD),
            (128 << 10, RECEIVE_AHEAD),
        ] {
            assert_eq!(room_behind(data_length, RECEIVE_LENGTH), room, "behind {data_length} bytes");
        }
    }
}
