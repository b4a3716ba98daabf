//! What a client has while its TLS handshake is under way, and how it goes on with records.

use std::io;
use std::sync::{Arc, Weak};

use engine::secure_stream::{Piece, SecureStream};
use secure_channel::{HEADER_BYTES, Peer, RECORD_BYTES_MAX, RecordLimit};

use super::handshake::{Established, Handshake};
use super::handshake_thread::{Answer, Outcome};
use crate::client::{Client, Incoming, Needs, Phase};
use crate::client_faults::ClientFault;
use crate::storage::Storage;

/// A connection between STARTTLS and the end of the handshake.
pub(crate) struct Securing {
    /// Negotiation that continues after the handshake.
    options: nbd::Handshake,
    /// Bytes received and not processed.
    bytes: Vec<u8>,
    stage: Stage,
    /// Dropped with the client: a step of its handshake is skipped then.
    waits: Arc<()>,
}

enum Stage {
    /// None before the first step.
    Here(Option<Handshake>),
    /// A step is being done.
    Away,
}

/// A step that is to be done for a client.
pub(crate) struct Flight {
    pub(super) is_awaited: Weak<()>,
    pub(super) handshake: Option<Handshake>,
    pub(super) bytes: Vec<u8>,
}

impl Securing {
    pub(crate) fn new(options: nbd::Handshake) -> Self {
        Self { options, bytes: Vec::new(), stage: Stage::Here(None), waits: Arc::new(()) }
    }

    /// True if there is a whole record, or bytes that begin none.
    fn has_record(&self) -> bool {
        match *self.bytes {
            [] => false,
            [20..=23, 3, _, high, low, ..] => {
                let length = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
                self.bytes.len() >= length.min(RECORD_BYTES_MAX)
            }
            [20..=23] | [20..=23, 3] | [20..=23, 3, _] | [20..=23, 3, _, _] => false,
            _ => true,
        }
    }
}

impl Client {
    /// Takes what has come of a handshake.
    pub(crate) fn take_flight(&mut self) -> Needs {
        let Phase::Securing(securing) = &mut self.phase else { return Needs::Bytes };
        if matches!(securing.stage, Stage::Away) {
            return Needs::Room;
        }
        securing.bytes.extend_from_slice(self.input.bytes());
        self.input.take(usize::MAX);
        if securing.has_record() { Needs::Room } else { Needs::Bytes }
    }

    /// The step that is to be done next, if there is one.
    pub(crate) fn flight(&mut self) -> Option<Flight> {
        let Phase::Securing(securing) = &mut self.phase else { return None };
        if !securing.has_record() {
            return None;
        }
        let Stage::Here(handshake) = &mut securing.stage else { return None };
        let (handshake, bytes) = (handshake.take(), std::mem::take(&mut securing.bytes));
        securing.stage = Stage::Away;
        Some(Flight { is_awaited: Arc::downgrade(&securing.waits), handshake, bytes })
    }

    /// A step has been done.
    pub(crate) fn landed(&mut self, answer: Answer, storage: &mut Storage, scratch: &mut [u8]) {
        let Phase::Securing(securing) = &mut self.phase else { return };
        self.output.text.extend(answer.output);
        match answer.outcome {
            Outcome::Continues(handshake) => securing.stage = Stage::Here(Some(handshake)),
            Outcome::Failed(error) => {
                if let Some(times) = storage.faults.count(ClientFault::Handshake) {
                    tracing::warn!(client = self.peer, %error, times, "TLS handshake of an NBD client failed; closing the connection");
                }
                self.end(storage);
            }
            Outcome::Established(established, behind) => {
                let mut options = std::mem::take(&mut securing.options);
                options.secured();
                self.phase = Phase::Handshake(options);
                self.secured(&established, &behind, storage, scratch);
            }
        }
    }

    /// From here on all that comes and goes are records.
    fn secured(
        &mut self,
        established: &Established,
        behind: &[u8],
        storage: &mut Storage,
        scratch: &mut [u8],
    ) {
        let Established { sending, receiving } = established;
        let mut secure = SecureStream::new((sending, receiving), Peer::Host, RecordLimit::default());
        secure.outbound.begin_behind(self.output.unsent_text(), |bytes| storage.pool.take(bytes));
        self.output.drop_text();
        tracing::debug!(client = self.peer, suite = %sending.suite(), "NBD client uses TLS");
        self.secure = Some(Box::new(secure));
        let records = &mut scratch[..behind.len()];
        records.copy_from_slice(behind);
        self.open_records(records, storage);
    }

    /// Receives once, and processes the records.
    pub(crate) fn receive_records(&mut self, storage: &mut Storage, scratch: &mut [u8]) {
        let rest = match &self.incoming {
            Incoming::Data { buffer: Some(buffer), filled, .. } => buffer.len() - filled,
            _ => 0,
        };
        let (Some(socket), Some(secure)) = (&self.socket, &mut self.secure) else { return };
        // Data has never more bytes than its records.
        let room = (rest + self.input.room()).min(scratch.len());
        let space = &mut scratch[..room];
        match secure.inbound.receive(socket, space) {
            Ok(Some(length)) => {
                if length < room && socket.is_emptied_by_short_read() {
                    self.is_readable = self.has_end;
                }
                self.open_records(&mut space[..length], storage);
            }
            Ok(None) => self.end(storage),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                secure.inbound.trim();
            }
            Err(error) => self.lost(&error, storage),
        }
    }

    fn open_records(&mut self, space: &mut [u8], storage: &mut Storage) {
        let mut at = 0;
        while let Some(secure) = &mut self.secure {
            let place = match &mut self.incoming {
                Incoming::Data { buffer: Some(buffer), filled, .. } => &mut buffer[*filled..],
                _ => &mut [],
            };
            match secure.inbound.next(space, &mut at, place) {
                Ok(Piece::Data(data)) => self.deliver(&space[data]),
                Ok(Piece::Placed(length)) => self.placed(length),
                Ok(Piece::AsksForUpdate) => secure.outbound.update(false),
                Ok(Piece::End) => return self.end(storage),
                Ok(Piece::Nothing) => return,
                Err(error) => {
                    if let Some(times) = storage.faults.count(ClientFault::Record) {
                        tracing::warn!(client = self.peer, %error, times, "NBD client breaks TLS; closing the connection");
                    }
                    error.alert().into_iter().for_each(|alert| secure.outbound.close_with(alert));
                    return self.end(storage);
                }
            }
        }
    }

    /// Counts data of a write that was opened into its buffer.
    fn placed(&mut self, length: usize) {
        if let Incoming::Data { filled, .. } = &mut self.incoming {
            *filled += length;
        }
    }

    /// Takes data as if it had been received in clear: what a write waits for first.
    fn deliver(&mut self, mut data: &[u8]) {
        if let Incoming::Data { buffer: Some(buffer), filled, .. } = &mut self.incoming {
            let (now, later) = data.split_at(data.len().min(buffer.len() - *filled));
            buffer[*filled..][..now.len()].copy_from_slice(now);
            *filled += now.len();
            data = later;
        }
        self.input.put(data);
    }
}
