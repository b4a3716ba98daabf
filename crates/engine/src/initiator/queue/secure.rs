//! TLS of a queue's stream before its first PDU and behind it: received records are opened in
//! place, and what is queued is sealed into the space that is sent from.

use std::io;
use std::sync::Arc;

use nvme::tcp::Chunk;
use secure_channel::{Alert, Names, Peer, RecordError, TlsPsk};
use tls_handshake::{Established, Handshake, HandshakeError, Progress};

use super::fault::Fault;
use super::open::connect;
use super::receive::Received;
use super::{Queue, QueueState};
use crate::initiator::authentication_worker::{PendingStep, StepState};
use crate::initiator::{InitiatorError, TlsKeys};
use crate::limits::{HANDSHAKE_BYTES_MAX, SEALED_SPACE_BYTES, SEND_PARTS_MAX};
use crate::ring::{Buffer, Ring, SpanMut};
use crate::secure_stream::{Piece, SecureStream};

/// Another possible reason where a controller that had to authenticate was to make the key: Linux'
/// does not report that it has none.
const NO_KEY_BOTH_WAYS: &str = "; Linux' target (7.3.4) makes no TLS key where it has to authenticate too, and logs `failed to \
     generate PSK`: connect without the controller's secret (-C)";

/// Event that a queue's handshake waits for.
pub(super) enum Securing {
    /// The worker's result for the bytes so far.
    Step(PendingStep<Step>),
    /// Bytes of the controller.
    Bytes(Box<Handshake>),
}

/// A step of a handshake that was done.
pub(super) struct Step {
    handshake: Option<Box<Handshake>>,
    outcome: Result<Progress, HandshakeError>,
    /// Bytes for the controller.
    output: Vec<u8>,
    /// Bytes that have come behind the handshake.
    rest: Vec<u8>,
}

impl std::fmt::Debug for Securing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Securing")
    }
}

impl Step {
    fn of(mut handshake: Box<Handshake>, input: &[u8]) -> Self {
        let (mut rest, mut output) = (input, Vec::new());
        let outcome = handshake.step(&mut rest, &mut output);
        Self { handshake: Some(handshake), outcome, output, rest: rest.to_vec() }
    }

    fn first(keys: &[TlsPsk]) -> Self {
        match Handshake::of_host(keys) {
            Ok(handshake) => Self::of(Box::new(handshake), &[]),
            Err(error) => Self { handshake: None, outcome: Err(error), output: Vec::new(), rest: Vec::new() },
        }
    }
}

impl Queue {
    /// Begins the handshake of a stream that was just made.
    pub(super) fn begin_handshake(&mut self, keys: &TlsKeys) -> Result<(), Box<Fault>> {
        let names = Names::new(&self.options.host.nqn, &self.options.subsystem_nqn);
        let offers = names.and_then(|names| keys.offers(&names)).map_err(|error| self.tls_failed(error))?;
        let alone = self.offers_alone.and_then(|place| offers.get(place).cloned());
        let offers = alone.map_or(offers, |alone| vec![alone]);
        self.begin_handshake_with(offers)
    }

    /// The same with these keys.
    pub(super) fn begin_handshake_with(&mut self, offers: Vec<TlsPsk>) -> Result<(), Box<Fault>> {
        self.state = QueueState::Securing;
        self.step(move || Step::first(&offers))
    }

    fn step(&mut self, step: impl FnOnce() -> Step + Send + 'static) -> Result<(), Box<Fault>> {
        match self.worker.hand(step) {
            Some(pending) => self.securing = Some(Securing::Step(pending)),
            None => return Err(self.tls_failed("too many queues do a TLS handshake at this time")),
        }
        Ok(())
    }

    pub(super) fn tls_failed(&self, why: impl std::fmt::Display) -> Box<Fault> {
        let address = self.options.address;
        Fault::ended(InitiatorError::TlsFailed { address, why: why.to_string() })
    }

    /// The handshake has failed in a way that says nothing about the other keys: Linux' target and SPDK look at the first
    /// identity alone, and say no more than that when they do not know it.
    fn not_taken(&self, error: &HandshakeError) -> Box<Fault> {
        let has_asked =
            self.options.secrets.as_ref().is_some_and(|secrets| secrets.controller_secret.is_some());
        let hint = if self.options.concat.is_some() && has_asked { NO_KEY_BOTH_WAYS } else { "" };
        let why = format!("{error}{hint}");
        let failed = InitiatorError::TlsFailed { address: self.options.address, why };
        match error {
            HandshakeError::Closed(_) | HandshakeError::Refused { alert: Alert::INTERNAL_ERROR, .. } => {
                Box::new(Fault::NotTaken(failed))
            }
            _ => Fault::ended(failed),
        }
    }

    /// Begins with the offer that another queue has found to be taken, if one has.
    pub(super) fn recall_offer(&mut self) {
        self.offers_alone = self.options.tls.as_ref().and_then(|keys| keys.taken_alone());
        self.has_recalled = self.offers_alone.is_some();
    }

    /// Reconnects with all keys where it has begun with the offer that another queue had found, and
    /// then with the next one alone; false if there is none.
    pub(super) fn offers_another(&mut self, ring: &mut Ring) -> bool {
        let Some(keys) = self.options.tls.clone() else { return false };
        let names = Names::new(&self.options.host.nqn, &self.options.subsystem_nqn);
        let count = names.and_then(|names| keys.offers(&names)).map_or(0, |offers| offers.len());
        let has_recalled = std::mem::take(&mut self.has_recalled);
        let next = (!has_recalled).then(|| self.offers_alone.map_or(0, |place| place + 1));
        if count < 2 || next.is_some_and(|next| next >= count) {
            // The next queue begins with all of them again: the target may be another by then.
            keys.remember(None);
            return false;
        }
        if let Some(socket) = self.socket.take() {
            ring.unwatch(&socket, self.token);
        }
        self.transmitter.clear(|_| ());
        let Ok(pending) = connect(ring, self.token, &self.options) else { return false };
        tracing::debug!(queue = self.options.queue_id, next, "TLS: offering other keys");
        (self.pending, self.state, self.blocked) = (Some(pending), QueueState::Connecting, true);
        (self.securing, self.offers_alone, self.is_at_end) = (None, next, false);
        true
    }

    /// Takes what the controller has sent of its handshake. While the worker is busy, it stays in the socket.
    pub(super) fn take_flight(&mut self) -> Result<(), Box<Fault>> {
        let Some(Securing::Bytes(_)) = &self.securing else { return Ok(()) };
        let Some(socket) = &self.socket else { return Ok(()) };
        let (mut flight, mut length) = (vec![0; HANDSHAKE_BYTES_MAX], 0);
        let mut has_ended = false;
        while length < flight.len() {
            match socket.receive(&mut [SpanMut::new(&mut flight[length..])]) {
                Ok(0) => {
                    has_ended = true;
                    break;
                }
                Ok(received) => length += received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    let address = self.options.address;
                    let broken = InitiatorError::Broken { address, error: Arc::new(error) };
                    return Err(Box::new(Fault::NotTaken(broken)));
                }
            }
        }
        // Whatever it has said before its end says more than the end.
        if length == 0 && !has_ended {
            return Ok(());
        }
        let Some(Securing::Bytes(handshake)) = self.securing.take() else { return Ok(()) };
        if length == 0 {
            return Err(self.not_taken(&handshake.closed()));
        }
        flight.truncate(length);
        self.step(move || Step::of(handshake, &flight))
    }

    /// Takes what the worker has made of the handshake, if it has.
    pub(super) fn handshake_goes_on(&mut self) -> Result<(), Box<Fault>> {
        let Some(Securing::Step(pending)) = &self.securing else { return Ok(()) };
        let step = match pending.state() {
            StepState::Working => return Ok(()),
            StepState::Done(step) => step,
            StepState::GivenUp => return Err(self.tls_failed("the TLS handshake has failed here")),
        };
        self.securing = None;
        match (step.outcome, step.handshake) {
            (Ok(Progress::Done(established)), _) => {
                self.secured(&established, &step.output);
                let mut rest = step.rest;
                self.open_records(&mut rest).map(drop)
            }
            (Ok(Progress::Continues), Some(handshake)) => {
                self.transmitter.raw(&step.output);
                self.securing = Some(Securing::Bytes(handshake));
                // What has come meanwhile was reported already.
                self.take_flight()
            }
            (Ok(Progress::Continues), None) => Ok(()),
            (Err(error), _) => {
                self.transmitter.raw(&step.output);
                let _ = self.send_all();
                Err(self.not_taken(&error))
            }
        }
    }

    /// The handshake is complete: from now on everything is sealed, behind the last that the controller gets of it.
    fn secured(&mut self, established: &Established, last: &[u8]) {
        let Established { sending, receiving, .. } = established;
        let mut secure = SecureStream::new((sending, receiving), Peer::Controller, self.renewal());
        secure.outbound.begin_behind(last, Buffer::zeroed);
        tracing::debug!(queue = self.options.queue_id, suite = %established.suite, group = established.group, "TLS");
        self.secure = Some(Box::new(secure));
        if let Some(keys) = &self.options.tls {
            keys.remember(self.offers_alone);
        }
        // Records may have come with the handshake, or behind it.
        self.more = true;
        self.initialize();
    }

    /// Makes one receive call, and opens its records.
    pub(super) fn receive_records(&mut self, scratch: &mut [u8]) -> Result<io::Result<Received>, Box<Fault>> {
        let (Some(socket), Some(secure)) = (&self.socket, &mut self.secure) else {
            return Ok(Ok(Received::End));
        };
        let room = scratch.len();
        let is_emptied_by_short_read = socket.is_emptied_by_short_read();
        let length = match secure.inbound.receive(socket, scratch) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(Ok(Received::End)),
            Err(error) => return Ok(Err(error)),
        };
        if !self.open_records(&mut scratch[..length])? {
            return Ok(Ok(Received::End));
        }
        let is_all = length < room && is_emptied_by_short_read;
        Ok(Ok(if is_all { Received::Short } else { Received::Full }))
    }

    /// The next bytes of a data PDU were opened into their buffer.
    fn data_placed(&mut self, length: usize) {
        let Some(incoming) = &mut self.incoming else { return };
        let buffer = self.slots.get(incoming.slot).buffer.as_deref().unwrap_or_default();
        let end = incoming.next + length;
        self.receiver.data_received(buffer.get(incoming.next..end).unwrap_or_default());
        incoming.next = end;
    }

    /// Opens what has come; false when the controller has said that this was all.
    fn open_records(&mut self, space: &mut [u8]) -> Result<bool, Box<Fault>> {
        let mut at = 0;
        while let Some(secure) = &mut self.secure {
            let place = match &self.incoming {
                // Behind padding in front of the data, if there is some.
                Some(incoming) if self.receiver.data_left() > 0 => {
                    let buffer = self.slots.get_mut(incoming.slot).buffer.as_deref_mut().unwrap_or_default();
                    buffer.get_mut(incoming.next..incoming.end).unwrap_or_default()
                }
                _ => &mut [],
            };
            let piece = secure.inbound.next(space, &mut at, place);
            match piece.map_err(|error| Box::new(Fault::Record(error)))? {
                Piece::Data(data) => self.process(&space[data])?,
                Piece::Placed(length) => self.data_placed(length),
                Piece::AsksForUpdate => secure.outbound.update(false),
                Piece::End => return Ok(false),
                Piece::Nothing => break,
            }
        }
        Ok(true)
    }

    /// Seals and sends until there is nothing left (true) or no room (false).
    pub(super) fn send_sealed(&mut self) -> io::Result<bool> {
        loop {
            let (Some(socket), Some(secure)) = (&self.socket, &mut self.secure) else { return Ok(true) };
            if !secure.outbound.send(socket, |space| self.sealed_space = Some(space))? {
                return Ok(false);
            }
            self.departures.all_taken_is_handed();
            if self.transmitter.is_empty() && !secure.outbound.wants_turn() {
                return Ok(true);
            }
            self.seal()?;
        }
    }

    /// Seals as much as there is space for.
    fn seal(&mut self) -> io::Result<()> {
        self.renew_keys();
        let Some(mut secure) = self.secure.take() else { return Ok(()) };
        let kept = self.sealed_space.take();
        // It is kept for good, and has to do for the most.
        let space = |_| kept.unwrap_or_else(|| Buffer::zeroed(SEALED_SPACE_BYTES));
        let mut sealing = secure.outbound.begin(self.transmitter.length(), space);
        let mut is_full = false;
        while !is_full && !self.transmitter.is_empty() {
            let mut sealed = 0;
            for part in self.transmitter.chunks().take(SEND_PARTS_MAX) {
                let bytes = match part {
                    Chunk::Bytes(bytes) => bytes,
                    Chunk::Payload { payload, start, end } => {
                        let buffer = self.slots.get(*payload).buffer.as_deref().unwrap_or_default();
                        &buffer[start..end]
                    }
                };
                let taken = sealing.push(bytes);
                sealed += taken;
                is_full = taken < bytes.len();
                if is_full {
                    break;
                }
            }
            self.sent(sealed);
        }
        let sealed = sealing.finish(self.transmitter.is_empty());
        // Also where that has failed: without it the queue would go on in clear.
        self.secure = Some(secure);
        sealed.map_err(io::Error::other)
    }

    /// Tells the controller why its record cannot be used.
    pub(super) fn break_off(&mut self, error: &RecordError) {
        self.transmitter.clear(|_| ());
        if let (Some(secure), Some(alert)) = (&mut self.secure, error.alert()) {
            secure.outbound.close_with(alert);
            let _ = self.send_all();
        }
    }

    /// Says that nothing more comes, where there is room for it.
    pub(super) fn say_goodbye(&mut self) {
        if self.blocked || self.state != QueueState::Live {
            return;
        }
        if let Some(secure) = &mut self.secure {
            self.transmitter.clear(|_| ());
            secure.outbound.close_with(Alert::CLOSE_NOTIFY);
            let _ = self.send_all();
        }
    }
}
