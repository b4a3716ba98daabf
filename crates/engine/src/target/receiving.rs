//! What a connection does with what it receives: commands, and their data, which goes where it will be used.

use std::io;

use nvme::tcp::{DataPdu, DecodeError, Event, FatalError, negotiate};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;

use super::connection::{Connection, Environment, Session, Verdict};
use super::end::End;
use super::peculiarity::Peculiarity;
use super::slot::{Stage, Work};
use crate::limits::{DATA_TO_CONTROLLER_MAX, RECEIVE_BUDGET, SEND_BATCH_BYTES, SEND_BYTES_MAX};
use crate::observation::{Observation, observe};
use crate::ring::SpanMut;

/// Where the data of the PDU that is coming in goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Nowhere.
    Discard,
    /// Into the buffer of a slot, from this byte on.
    Slot { slot: u16, at: usize },
    /// Into the buffer of a slot as far as there is room, after `skip` bytes that go nowhere.
    Part { slot: u16, skip: usize, at: usize },
}

impl Connection {
    pub(super) fn receive(&mut self, env: &mut Environment<'_>, scratch: &mut [u8]) -> Result<Verdict, End> {
        for _ in 0..RECEIVE_BUDGET {
            if self.draining && self.receiver.data_left() == 0 && self.slots.busy() == 0 {
                return Ok(Verdict::Wait);
            }
            // A host that does not read what it asked for gets no more commands taken.
            if (self.blocked || self.contention.cuts) && self.transmitter.length() >= SEND_BYTES_MAX {
                return Ok(Verdict::Wait);
            }
            let (direct, received, asked) = self.receive_once(scratch)?;
            let Some(received) = received else { return Ok(Verdict::Wait) };
            self.heard = true;
            let direct = direct.min(received);
            self.take_direct(direct);
            self.process(&scratch[..received - direct], env)?;
            if received < asked && !self.ended && self.socket.is_emptied_by_short_read() {
                return Ok(Verdict::Wait);
            }
            self.flush(env).map_err(|_| End::Gone)?;
        }
        Ok(Verdict::Again)
    }

    /// One receive call: the rest of a large payload goes where it will be used, what follows into `scratch`.
    /// Gives the room there was for the payload, the bytes received (`None` when there are none) and those asked for.
    fn receive_once(&mut self, scratch: &mut [u8]) -> Result<(usize, Option<usize>, usize), End> {
        let left = self.receiver.data_left();
        let target = match self.receiving {
            Receiving::Slot { slot, at } if left > 0 => self
                .slots
                .get_mut(slot)
                .and_then(|slot| slot.data.as_mut())
                .map(|data| &mut data[at..at + left]),
            _ => None,
        };
        let room = scratch.len();
        let (direct, result) = match target {
            Some(target) => (left, self.socket.receive(&mut [SpanMut::new(target), SpanMut::new(scratch)])),
            None => (0, self.socket.receive(&mut [SpanMut::new(scratch)])),
        };
        match result {
            Ok(0) => Err(End::Gone),
            Ok(received) => Ok((direct, Some(received), direct + room)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((direct, None, direct + room)),
            Err(_) => Err(End::Gone),
        }
    }

    /// Takes note of payload that was received where it belongs.
    fn take_direct(&mut self, length: usize) {
        if length == 0 {
            return;
        }
        if let Receiving::Slot { slot, at } = self.receiving {
            self.receiver.data_received(&self.slots.data(slot)[at..at + length]);
            self.receiving = Receiving::Slot { slot, at: at + length };
        }
    }

    fn process(&mut self, mut input: &[u8], env: &mut Environment<'_>) -> Result<(), End> {
        loop {
            if self.receiver.data_left() > 0 {
                if input.is_empty() {
                    return Ok(());
                }
                let data = self.receiver.take_data(&mut input, usize::MAX);
                self.keep(data);
                continue;
            }
            match self.receiver.next(&mut input)? {
                Some(Event::Command { entry, data_length }) => {
                    self.on_command(&entry, data_length, &mut input, env)
                        .map_err(|end| end.within_command(&entry, data_length, self.digests))?;
                    if self.transmitter.length() >= SEND_BATCH_BYTES {
                        self.flush(env).map_err(|_| End::Gone)?;
                    }
                }
                Some(Event::Data(pdu)) => {
                    self.on_data(&pdu, env).map_err(|end| end.within(pdu.as_bytes()))?;
                }
                Some(Event::DataEnd { digest_matches }) => self.on_data_end(digest_matches, env)?,
                Some(Event::Initialize(request)) => {
                    let (response, negotiated) = negotiate(&request, DATA_TO_CONTROLLER_MAX)
                        .map_err(|error| End::from(error).within(request.as_bytes()))?;
                    self.transmitter.initialize(&response);
                    self.transmitter.set_digests(negotiated.digests);
                    self.transmitter.set_alignment(negotiated.data_alignment);
                    if negotiated.has_unknown_digests {
                        self.note_peculiarity(Peculiarity::UnknownDigests, env);
                    }
                    self.receiver.set_digests(negotiated.digests);
                    self.digests = negotiated.digests;
                }
                Some(Event::Terminate { error, information }) => {
                    observe(Observation::ProtocolViolation);
                    let name = FatalError::name_of(error);
                    tracing::info!(error = name, information, "host ends a connection");
                    return Err(End::Gone);
                }
                Some(Event::Response(_) | Event::ReadyToTransfer(_)) => {
                    return Err(DecodeError::new(FatalError::PduSequence, 0).into());
                }
                None if self.receiver.data_left() == 0 => {
                    if self.receiver.has_stray_flags() {
                        self.note_peculiarity(Peculiarity::StrayDigestFlags, env);
                    }
                    if self.receiver.has_unset_offsets() {
                        self.note_peculiarity(Peculiarity::UnsetDataOffset, env);
                    }
                    return Ok(());
                }
                None => {}
            }
        }
    }

    /// Puts data of the PDU that is coming in where it goes.
    fn keep(&mut self, data: &[u8]) {
        match self.receiving {
            Receiving::Discard => {}
            Receiving::Slot { slot, at } => {
                if let Some(buffer) = self.slots.at(slot).data.as_mut() {
                    buffer[at..at + data.len()].copy_from_slice(data);
                }
                self.receiving = Receiving::Slot { slot, at: at + data.len() };
            }
            Receiving::Part { slot, skip, at } => {
                let skipped = skip.min(data.len());
                let data = &data[skipped..];
                let mut kept = 0;
                if let Some(buffer) = self.slots.at(slot).data.as_mut() {
                    kept = data.len().min(buffer.len() - at);
                    buffer[at..at + kept].copy_from_slice(&data[..kept]);
                }
                self.receiving = Receiving::Part { slot, skip: skip - skipped, at: at + kept };
            }
        }
    }

    fn on_command(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        input: &mut &[u8],
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        self.receiving = Receiving::Discard;
        if self.draining {
            // It was not accepted, so the host may send it again on another path or connection.
            return Ok(());
        }
        self.queue_head = if self.queue_head + 1 >= self.entries { 0 } else { self.queue_head + 1 };
        if matches!(self.session, Session::Io { .. }) {
            self.commands += 1;
            return self.io_command(entry, data_length, input, env);
        }
        self.admin_command(entry, data_length, env)
    }

    /// A data PDU that answers an R2T.
    fn on_data(&mut self, pdu: &DataPdu, env: &Environment<'_>) -> Result<(), End> {
        /// Byte offsets of CCCID and TTAG in the header.
        const COMMAND_ID_AT: u32 = 8;
        const TAG_AT: u32 = 10;
        let index = pdu.transfer_tag.get();
        let slot = self.slots.get_mut(index).filter(|slot| slot.stage == Stage::Data);
        let Some(slot) = slot else {
            return Err(DecodeError::new(FatalError::InvalidHeaderField, TAG_AT).into());
        };
        if slot.command_id != pdu.command_id.get() {
            return Err(DecodeError::new(FatalError::InvalidHeaderField, COMMAND_ID_AT).into());
        }
        let (range, last_is_right) = slot.transfer.accept_with_any_last(pdu).map_err(|_| {
            // Data past what was asked for is one thing, data within it but out of turn another.
            let end = u64::from(pdu.offset.get()) + u64::from(pdu.length.get());
            let outside = end > u64::from(slot.length);
            let error = if outside { FatalError::DataTransferOutOfRange } else { FatalError::PduSequence };
            DecodeError::new(error, 0)
        })?;
        self.receiving = Receiving::Slot { slot: index, at: range.start };
        if !last_is_right {
            self.note_peculiarity(Peculiarity::LastFlag, env);
        }
        Ok(())
    }

    fn on_data_end(&mut self, digest_matches: bool, env: &mut Environment<'_>) -> Result<(), End> {
        let (Receiving::Slot { slot: index, .. } | Receiving::Part { slot: index, .. }) = self.receiving
        else {
            return Ok(());
        };
        self.receiving = Receiving::Discard;
        let slot = self.slots.at(index);
        if !digest_matches {
            slot.failed = Some(Status::TRANSIENT_TRANSPORT_ERROR);
        }
        if slot.transfer.remaining() > 0 {
            return Ok(());
        }
        if let Some(status) = slot.failed {
            self.finish(index, status, env);
            return Ok(());
        }
        if self.slots.at(index).work == Work::Admin {
            return self.admin_data_came(index, env);
        }
        self.data_came(index, env);
        Ok(())
    }

    /// Gives a slot its buffer and asks the host for the data, or lets it wait for other commands' buffers.
    pub(super) fn ask_for_data(&mut self, index: u16, env: &mut Environment<'_>) {
        let (command_id, length) = (self.slots.at(index).command_id, self.slots.at(index).length);
        self.slots.hold(index, env.pool);
        self.slots.at(index).stage = Stage::Data;
        self.transmitter.ready_to_transfer(nvme::tcp::ReadyToTransfer::new(command_id, index, 0, length));
    }

    /// Receives in-capsule data into a slot's own buffer: as much as it holds of what comes behind the first `offset` of the
    /// capsule's `data_length` bytes.
    pub(super) fn take_in_capsule(
        &mut self,
        index: u16,
        (offset, data_length): (usize, usize),
        env: &mut Environment<'_>,
    ) {
        self.slots.hold(index, env.pool);
        let slot = self.slots.at(index);
        slot.stage = Stage::Data;
        // All of it comes with the capsule: no transfer follows.
        slot.transfer = nvme::tcp::Transfer::new(0..0, index);
        self.receiving = if offset == 0 && data_length == slot.length as usize {
            Receiving::Slot { slot: index, at: 0 }
        } else {
            Receiving::Part { slot: index, skip: offset, at: 0 }
        };
    }

    /// Whether `length` bytes of in-capsule data are all there in `input`.
    pub(super) fn has_whole(&self, length: usize, input: &[u8]) -> bool {
        self.receiver.data_left() == length && input.len() >= length
    }

    /// Takes `length` bytes of in-capsule data out of `input` if they are all there.
    pub(super) fn take_whole<'a>(&mut self, length: usize, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        self.has_whole(length, input).then(|| self.receiver.take_data(input, length))
    }

    /// Starts commands that waited for a buffer, as long as there are any.
    pub(super) fn wake_waiting(&mut self, env: &mut Environment<'_>) {
        // Who wakes may end at once, and its end comes here: the next one is this loop's, and not another's below it.
        if std::mem::replace(&mut self.is_waking, true) {
            return;
        }
        while let Some(&index) = self.waiting.front() {
            let length = self.slots.at(index).length as usize;
            if !self.slots.may_hold(length) || self.work_left == 0 {
                break;
            }
            self.waiting.pop_front();
            self.start_waiting(index, env);
        }
        self.is_waking = false;
    }
}
