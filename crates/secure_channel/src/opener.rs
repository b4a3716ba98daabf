//! The receiving half of a channel: opens records, and says what is in them. Where records come from is not known here.

use std::fmt;
use std::ops::Range;

use crate::Alert;
use crate::post_handshake::PostHandshake;
use crate::record::{BODY_BYTES_MAX, ContentType, DATA_BYTES_MAX, HEADER_BYTES, RecordError, TAG_BYTES};
use crate::traffic_secret::{DirectionState, Protection, TrafficSecret};

/// Records in a row that carry no data, of which each costs as much as one that does: the number of BoringSSL.
const IDLE_RECORDS_MAX: u32 = 32;

/// End of the channel that the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The host, TLS' client.
    Host,
    /// The controller, TLS' server. It alone sends tickets.
    Controller,
}

/// Result of opening the record at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The record is not complete.
    Incomplete {
        /// Bytes to wait for.
        missing_bytes: usize,
    },
    /// Data.
    Data {
        /// Bytes of the record.
        record_bytes: usize,
        /// Range of the data in the record, now in clear.
        data: Range<usize>,
    },
    /// Something that needs nothing done: padding alone, a ticket, a part of a message.
    Nothing {
        /// Bytes of the record.
        record_bytes: usize,
    },
    /// The peer's next records have its next key. When it asks back, a KeyUpdate is due before anything else is sent.
    KeyUpdate {
        /// Bytes of the record.
        record_bytes: usize,
        /// True if this end is to change its key too.
        asks_back: bool,
    },
    /// The peer has said that it sends nothing more. What follows is not looked at.
    Closed,
}

/// Result of opening a record into a place of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedInto {
    /// Data, which is at the beginning of the place.
    Place {
        /// Bytes of the record.
        record_bytes: usize,
        /// Bytes of the data.
        data_bytes: usize,
    },
    /// Anything else, and data that the place was too short for. It stands in the record.
    Record(Opened),
}

/// The receiving half of a channel.
pub struct Opener {
    protection: Protection,
    /// The secret of the key, as the sealer's.
    secret: TrafficSecret,
    messages: PostHandshake,
    idle_records: u32,
    updates: u64,
    end: Option<Result<Opened, RecordError>>,
}

impl Opener {
    /// Opener that begins with this secret.
    pub fn new(secret: &TrafficSecret, peer: Peer) -> Self {
        Self::going_on(&DirectionState { secret: secret.clone(), records: 0, updates: 0 }, peer)
    }

    /// Opener that continues from another one's state.
    pub fn going_on(state: &DirectionState, peer: Peer) -> Self {
        Self {
            protection: state.secret.protection_from(state.records),
            secret: state.secret.clone(),
            messages: PostHandshake::new(peer == Peer::Controller),
            idle_records: 0,
            updates: state.updates,
            end: None,
        }
    }

    /// State from which another opener can continue. `None` when the channel has ended, or a
    /// message has come in part.
    pub fn state(&self) -> Option<DirectionState> {
        let (secret, records, updates) = (self.secret.clone(), self.records(), self.updates);
        let may_go_on = self.end.is_none() && self.messages.is_between();
        may_go_on.then_some(DirectionState { secret, records, updates })
    }

    /// Records that were opened with the present key.
    pub const fn records(&self) -> u64 {
        self.protection.records()
    }

    /// Number of the peer's key changes.
    pub const fn updates(&self) -> u64 {
        self.updates
    }

    /// Opens the record that the bytes begin with, where it stands. The bytes of a record that is not whole stay as they are.
    ///
    /// # Errors
    /// When the record is not one that the peer may send now. The connection ends with that: each further call says the same.
    pub fn open(&mut self, stream: &mut [u8]) -> Result<Opened, RecordError> {
        self.open_next(stream, &mut []).map(|(opened, _)| opened)
    }

    /// The same into `place`, without copying it from the record then, if all that is sealed in the record fits there: the data,
    /// its type and padding. Bytes of the place behind the data are undefined then, as all of it is after an error.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_into(&mut self, stream: &mut [u8], place: &mut [u8]) -> Result<OpenedInto, RecordError> {
        Ok(match self.open_next(stream, place)? {
            (Opened::Data { record_bytes, data }, true) => {
                OpenedInto::Place { record_bytes, data_bytes: data.len() }
            }
            (opened, _) => OpenedInto::Record(opened),
        })
    }

    /// Opens the next record, and says whether its content is in the place.
    fn open_next(&mut self, stream: &mut [u8], place: &mut [u8]) -> Result<(Opened, bool), RecordError> {
        if let Some(end) = &self.end {
            return end.clone().map(|opened| (opened, false));
        }
        let opened = self.open_record(stream, place);
        match &opened {
            Ok((Opened::Closed, _)) => self.end = Some(Ok(Opened::Closed)),
            Ok(_) => {}
            Err(error) => self.end = Some(Err(error.clone())),
        }
        opened
    }

    fn open_record(&mut self, stream: &mut [u8], place: &mut [u8]) -> Result<(Opened, bool), RecordError> {
        let length = stream.len();
        let Some((header, rest)) = stream.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Ok((Opened::Incomplete { missing_bytes: HEADER_BYTES - length }, false));
        };
        let header = *header;
        let body_bytes = body_bytes(header)?;
        let Some(body) = rest.get_mut(..body_bytes) else {
            return Ok((Opened::Incomplete { missing_bytes: body_bytes - rest.len() }, false));
        };
        let (sealed, tag) = body.split_at_mut(body_bytes - TAG_BYTES);
        let place = place.get_mut(..sealed.len());
        let is_placed = place.is_some();
        let (is_right, inner) = match place {
            Some(place) => (self.protection.open_into(header, (sealed, tag), place), &*place),
            None => (self.protection.open(header, sealed, tag), &*sealed),
        };
        if !is_right.ok_or(RecordError::UsedUp)? {
            return Err(RecordError::Tag);
        }
        let end = inner.iter().rposition(|byte| *byte != 0).ok_or(RecordError::NoContentType)?;
        if end > DATA_BYTES_MAX {
            return Err(RecordError::TooLong(end));
        }
        let opened = self.content(inner[end], &inner[..end], HEADER_BYTES + body_bytes)?;
        Ok((opened, is_placed))
    }

    fn content(&mut self, kind: u8, content: &[u8], record_bytes: usize) -> Result<Opened, RecordError> {
        let content_type = ContentType::of(kind);
        if content_type != Some(ContentType::Handshake) && !self.messages.is_between() {
            return Err(RecordError::Torn);
        }
        match content_type {
            Some(ContentType::Data) if !content.is_empty() => {
                self.idle_records = 0;
                let data = HEADER_BYTES..HEADER_BYTES + content.len();
                return Ok(Opened::Data { record_bytes, data });
            }
            Some(ContentType::Alert | ContentType::Handshake) if content.is_empty() => {
                return Err(RecordError::Empty(kind));
            }
            _ => {}
        }
        self.idle_records += 1;
        if self.idle_records > IDLE_RECORDS_MAX {
            return Err(RecordError::Idle(self.idle_records));
        }
        match content_type {
            Some(ContentType::Data) => Ok(Opened::Nothing { record_bytes }),
            Some(ContentType::Alert) => alert(content, record_bytes),
            Some(ContentType::Handshake) => self.message(content, record_bytes),
            Some(ContentType::ChangeCipherSpec) | None => Err(RecordError::ContentType(kind)),
        }
    }

    fn message(&mut self, content: &[u8], record_bytes: usize) -> Result<Opened, RecordError> {
        let Some(asks_back) = self.messages.take(content)? else {
            return Ok(Opened::Nothing { record_bytes });
        };
        self.secret = self.secret.next();
        self.protection = self.secret.protection();
        self.updates += 1;
        Ok(Opened::KeyUpdate { record_bytes, asks_back })
    }
}

/// The bytes behind a header, if it is one of a sealed record. Its version means nothing (RFC 8446, 5.1), and is under the tag.
fn body_bytes([kind, _, _, high, low]: [u8; HEADER_BYTES]) -> Result<usize, RecordError> {
    if kind != ContentType::Data as u8 {
        return Err(RecordError::InClear(kind));
    }
    match usize::from(u16::from_be_bytes([high, low])) {
        long if long > BODY_BYTES_MAX => Err(RecordError::TooLong(long)),
        short if short <= TAG_BYTES => Err(RecordError::TooShort(short)),
        bytes => Ok(bytes),
    }
}

/// Result of an alert. All but two end the connection, whatever their level is (RFC 8446, 6).
fn alert(content: &[u8], record_bytes: usize) -> Result<Opened, RecordError> {
    let &[_, description] = content else { return Err(RecordError::Alert(content.len())) };
    match Alert(description) {
        Alert::CLOSE_NOTIFY => Ok(Opened::Closed),
        Alert::USER_CANCELED => Ok(Opened::Nothing { record_bytes }),
        other => Err(RecordError::Ended(other)),
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({}, {} records, {} updates)", self.secret.suite(), self.records(), self.updates)
    }
}
