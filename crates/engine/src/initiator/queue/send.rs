//! The sending half of a queue: all PDUs that are ready leave in one vectored send.
//! What is on the send list was put there by `submit` and by the target's requests for data.

use std::io;
use std::sync::Arc;

use nvme::tcp::{Chunk, DataPdu, FatalError, PduType, ReadyToTransfer, flags};

use secure_channel::Alert;

use super::{Queue, QueueState, data_crc};
use crate::initiator::InitiatorError;
use crate::limits::SEND_PARTS_MAX;
use crate::ring::{Ring, Span};

impl Queue {
    /// Sends all that is queued, or as much as there is room for; the ring then tells when there is more.
    pub fn flush(&mut self, ring: &mut Ring) {
        if self.is_done_with_keys() {
            return self.end_connection(ring);
        }
        if !self.has_unsent() {
            return;
        }
        let outcome = self.send_all();
        if !self.departures.is_empty() {
            self.departures.depart(&mut self.slots, ring.now());
        }
        let broken = match outcome {
            Ok(true) => return,
            Ok(false) => {
                let Some(socket) = &self.socket else { return };
                self.blocked = true;
                ring.await_writable(socket, self.token).err()
            }
            Err(error) => Some(error),
        };
        if let Some(error) = broken {
            let (address, error) = (self.options.address, Arc::new(error));
            self.shut(ring, InitiatorError::Broken { address, error });
        }
    }

    /// Sends until there is nothing left (true) or no room (false).
    pub(super) fn send_all(&mut self) -> io::Result<bool> {
        if self.secure.is_some() {
            return self.send_sealed();
        }
        while !self.transmitter.is_empty() {
            let Some(socket) = &self.socket else { return Ok(true) };
            let mut spans = [Span::EMPTY; SEND_PARTS_MAX];
            let mut count = 0;
            let mut length = 0;
            for (span, part) in spans.iter_mut().zip(self.transmitter.chunks()) {
                let bytes = match part {
                    Chunk::Bytes(bytes) => bytes,
                    Chunk::Payload { payload, start, end } => {
                        let buffer = self.slots.get(*payload).buffer.as_deref().unwrap_or_default();
                        &buffer[start..end]
                    }
                };
                *span = Span::new(bytes);
                length += bytes.len();
                count += 1;
            }
            let sent = match socket.send(&spans[..count]) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            self.sent(sent);
            self.departures.all_taken_is_handed();
            if sent < length {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn sent(&mut self, sent: usize) {
        self.departures.take(sent);
        let slots = &mut self.slots;
        let mut answered = false;
        self.transmitter.advance(sent, |index| {
            let slot = slots.get_mut(index);
            slot.sends -= 1;
            answered |= slot.sends == 0 && slot.answer.is_some();
        });
        if answered {
            self.complete_answered();
        }
    }

    /// Completes commands that were answered before their data had left. Rare: the target had no use for the
    /// data.
    fn complete_answered(&mut self) {
        for index in 0..self.slots.count() as u16 {
            let slot = self.slots.get_mut(index);
            if slot.active
                && slot.sends == 0
                && self.state == QueueState::Live
                && let Some((status, result)) = slot.answer.take()
            {
                // Completing fails only before a queue is live.
                let _ = self.complete(index, status, result);
            }
        }
    }

    /// Queues the data that the target asked for, in PDUs as long as it allows.
    pub(super) fn send_data(&mut self, index: u16, asked: &ReadyToTransfer) {
        let end = asked.offset.get() + asked.length.get();
        let piece_length = self.negotiated.data_to_controller_max;
        let mut offset = asked.offset.get();
        while offset < end {
            let length = (end - offset).min(piece_length);
            let flags = if offset + length == end { flags::LAST } else { 0 };
            let (command_id, tag) = (asked.command_id.get(), asked.transfer_tag.get());
            let pdu = DataPdu::new(PduType::DataToController, flags, command_id, tag, offset, length);
            let range = offset as usize..(offset + length) as usize;
            let slot = self.slots.get_mut(index);
            let buffer = slot.buffer.as_deref().unwrap_or_default();
            let crc = data_crc(self.negotiated.digests, &buffer[range.clone()]);
            slot.sends += 1;
            self.transmitter.data(pdu, index, range, Some(crc));
            offset += length;
        }
        self.departures.push(index, self.transmitter.length());
    }

    /// Tells the target why the connection ends, as far as there is room for it.
    pub(super) fn terminate(&mut self, error: FatalError, information: u32, header: &[u8]) {
        if !self.blocked {
            // Nothing is on its way in part, so the reason may go first.
            self.transmitter.clear(|_| ());
        }
        self.transmitter.terminate(PduType::HostTerminate, error, information, header);
        if let Some(secure) = &mut self.secure {
            secure.outbound.close_with(Alert::CLOSE_NOTIFY);
        }
        let _ = self.send_all();
        if let Some(socket) = &self.socket {
            socket.shut_down_sending();
        }
    }
}
