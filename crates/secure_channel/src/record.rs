//! Records as they stand in the stream (RFC 8446, 5): headers, content types and lengths, and what is wrong with those that
//! come in. Keys are not here.

use crate::Alert;

/// Bytes before each record.
pub const HEADER_BYTES: usize = 5;
/// Bytes of the authentication tag behind it.
pub const TAG_BYTES: usize = 16;
/// The most data of a record.
pub const DATA_BYTES_MAX: usize = 1 << 14;
/// Bytes of a record beside its data: header, content type and tag.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;
/// Most bytes that may follow a header.
pub(crate) const BODY_BYTES_MAX: usize = DATA_BYTES_MAX + 256;
/// The longest record, with its header.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;

/// Type of a record's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentType {
    ChangeCipherSpec = 20,
    Alert = 21,
    Handshake = 22,
    Data = 23,
}

impl ContentType {
    pub(crate) const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::Data,
            _ => return None,
        })
    }
}

/// The header of a record. Its version is that of TLS 1.2, as RFC 8446, 5.1 has it.
pub(crate) fn header(kind: ContentType, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = (body_bytes as u16).to_be_bytes();
    [kind as u8, 3, 3, high, low]
}

/// Why a record is refused. The connection ends with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The tag is wrong.
    #[error("a record was changed on the way, or was sealed with another key")]
    Tag,
    /// Longer than any record, or with more data than any.
    #[error("a record of {0} bytes is longer than TLS allows")]
    TooLong(usize),
    /// Shorter than any that is sealed.
    #[error("a record of {0} bytes is shorter than any that is sealed")]
    TooShort(usize),
    /// Something in clear where all has to be sealed.
    #[error("a record of type {0} came in clear after the handshake")]
    InClear(u8),
    /// A content type that is unknown, or not allowed now.
    #[error("content of type {0} is not allowed after the handshake")]
    ContentType(u8),
    /// Padding and nothing else.
    #[error("a record has no content type")]
    NoContentType,
    /// A message or an alert of no bytes.
    #[error("a record of type {0} has no content")]
    Empty(u8),
    /// An alert of another length than all have.
    #[error("an alert of {0} bytes cannot be read")]
    Alert(usize),
    /// A handshake message that is not allowed after the handshake.
    #[error("handshake message {0} is not allowed after the handshake")]
    Message(u8),
    /// A handshake message of another length than it has.
    #[error("handshake message {kind} of {bytes} bytes cannot be read")]
    MessageLength {
        /// Type of the message.
        kind: u8,
        /// Length of the message.
        bytes: u32,
    },
    /// A KeyUpdate with a value that it cannot have.
    #[error("a KeyUpdate has value {0}, and not 0 or 1")]
    KeyUpdate(u8),
    /// Something follows a KeyUpdate in its record, or comes in the middle of a message.
    #[error("a handshake message is not whole where other content begins")]
    Torn,
    /// Records that carry no data, one after the other.
    #[error("{0} records in a row carried no data")]
    Idle(u32),
    /// The peer has ended the connection.
    #[error("the peer has ended it with {0}")]
    Ended(Alert),
    /// There is no other sequence number.
    #[error("the key was used for as many records as can be counted")]
    UsedUp,
}

impl RecordError {
    /// The alert that the peer is due, if any.
    pub const fn alert(&self) -> Option<Alert> {
        Some(match self {
            // A record that is too short for a tag is one without the right tag.
            Self::Tag | Self::TooShort(_) => Alert::BAD_RECORD_MAC,
            Self::TooLong(_) => Alert::RECORD_OVERFLOW,
            Self::Alert(_) | Self::MessageLength { .. } => Alert::DECODE_ERROR,
            Self::KeyUpdate(_) => Alert::ILLEGAL_PARAMETER,
            Self::UsedUp => Alert::INTERNAL_ERROR,
            Self::Ended(_) => return None,
            _ => Alert::UNEXPECTED_MESSAGE,
        })
    }
}
