//! ClientHellos (RFC 8446, 4.1.2), as far as a listener has to read them to choose a key: suites, and PSK identities with their
//! binders. The library that does the handshake reads them again, from the first byte on.

use std::ops::Range;

use crate::fields::{CutOff, Fields};
use crate::record::{ContentType, DATA_BYTES_MAX, HEADER_BYTES};
use crate::{Alert, Suite};

/// The longest ClientHello: key shares of hybrid groups have 1.6 KiB each, and identities of version 1 half a KiB.
pub const HELLO_BYTES_MAX: usize = 8192;
/// Records that it may be split over. No client needs more than one, and each is parsed again when
/// more bytes have come.
const HELLO_RECORDS_MAX: usize = 4;
/// Identities that are looked at. Each costs a few hashes, before the host has proved anything.
const IDENTITIES_MAX: usize = 8;

const CLIENT_HELLO: usize = 1;
const MESSAGE_HEADER_BYTES: usize = 4;
const RANDOM_BYTES: usize = 32;
const SESSION_ID_BYTES_MAX: usize = 32;
const TLS_1_3: usize = 0x0304;
const PSK_DHE_KE: u8 = 1;
/// Extensions that are read.
const PRE_SHARED_KEY: usize = 41;
const SUPPORTED_VERSIONS: usize = 43;
const PSK_KEY_EXCHANGE_MODES: usize = 45;
/// The least and the most that a binder has.
const BINDER_BYTES: std::ops::RangeInclusive<usize> = 32..=255;

/// Kind of the first bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// Too few to say.
    Incomplete,
    /// Not TLS: an ICReq in clear, for instance.
    InClear,
    /// A ClientHello.
    Hello(Box<ClientHello>),
}

/// First message of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    message: Vec<u8>,
    /// The suites that NVMe has, in the order in which they are offered.
    suites: Vec<Suite>,
    has_version: bool,
    /// True if the PSK modes include psk_dhe_ke. `None` without the extension.
    has_dhe: Option<bool>,
    offers: Vec<Offer>,
    /// Offset of the binders: they sign the bytes before it.
    binders_at: usize,
}

/// Identity with its binder, by their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offer {
    identity: Range<usize>,
    binder: Range<usize>,
}

/// Why a ClientHello cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Another message, or other content in the middle of it.
    #[error("the stream does not begin with a ClientHello")]
    NotAHello,
    /// A length that does not fit to another.
    #[error("the lengths in a ClientHello do not fit together")]
    CutOff,
    /// The message is longer, or in more pieces, than any client needs.
    #[error("a ClientHello has more than {HELLO_BYTES_MAX} bytes or {HELLO_RECORDS_MAX} records")]
    TooLong,
    /// A field with a value that it cannot have.
    #[error("a ClientHello has an invalid {0}")]
    Field(&'static str),
}

impl HelloError {
    /// The alert that the host is due.
    pub const fn alert(self) -> Alert {
        match self {
            Self::NotAHello => Alert::UNEXPECTED_MESSAGE,
            Self::CutOff | Self::TooLong => Alert::DECODE_ERROR,
            Self::Field(_) => Alert::ILLEGAL_PARAMETER,
        }
    }
}

impl From<CutOff> for HelloError {
    fn from(_: CutOff) -> Self {
        Self::CutOff
    }
}

impl FirstBytes {
    /// Kind of a stream, of which each call has all bytes so far.
    ///
    /// # Errors
    /// When it begins as TLS, and is not a ClientHello.
    pub fn of(stream: &[u8]) -> Result<Self, HelloError> {
        match stream {
            [] => return Ok(Self::Incomplete),
            [kind, ..] if *kind != ContentType::Handshake as u8 => return Ok(Self::InClear),
            // The first byte of no version of TLS: nothing that begins so is ever a hello.
            [_, major, ..] if *major != 3 => return Err(HelloError::NotAHello),
            _ => {}
        }
        let mut message = Vec::new();
        let mut rest = stream;
        for _ in 0..HELLO_RECORDS_MAX {
            let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(Self::Incomplete);
            };
            let &[kind, _, _, high, low] = header;
            let length = usize::from(u16::from_be_bytes([high, low]));
            if kind != ContentType::Handshake as u8 || length == 0 {
                return Err(HelloError::NotAHello);
            } else if length > DATA_BYTES_MAX || message.len() + length > HELLO_BYTES_MAX {
                return Err(HelloError::TooLong);
            }
            message.extend_from_slice(&behind[..length.min(behind.len())]);
            if let Some(length) = message_bytes(&message)? {
                return ClientHello::read(&message[..length]).map(|hello| Self::Hello(Box::new(hello)));
            }
            rest = behind.get(length..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Self::Incomplete);
            }
        }
        Err(HelloError::TooLong)
    }
}

/// Length of the message, once it has arrived.
fn message_bytes(bytes: &[u8]) -> Result<Option<usize>, HelloError> {
    let mut fields = Fields::new(bytes);
    match fields.number(1) {
        Ok(CLIENT_HELLO) => {}
        Ok(_) => return Err(HelloError::NotAHello),
        Err(CutOff) => return Ok(None),
    }
    match fields.number(MESSAGE_HEADER_BYTES - 1) {
        Ok(length) if length > HELLO_BYTES_MAX - MESSAGE_HEADER_BYTES => Err(HelloError::TooLong),
        Ok(length) => Ok(fields.take(length).is_ok().then_some(MESSAGE_HEADER_BYTES + length)),
        Err(CutOff) => Ok(None),
    }
}

impl ClientHello {
    /// Reads a whole message.
    fn read(message: &[u8]) -> Result<Self, HelloError> {
        let mut fields = Fields::new(message);
        fields.take(MESSAGE_HEADER_BYTES + size_of::<u16>() + RANDOM_BYTES)?;
        if fields.counted(1)?.bytes().len() > SESSION_ID_BYTES_MAX {
            return Err(HelloError::Field("session identifier"));
        }
        let suites = fields.counted(2)?;
        if suites.is_empty() || suites.bytes().len() % 2 != 0 {
            return Err(HelloError::CutOff);
        }
        let suites =
            suites.bytes().chunks_exact(2).filter_map(|id| Suite::of(u16::from_be_bytes([id[0], id[1]])));
        let suites = suites.collect();
        let has_version = false;
        let compressions = fields.counted(1)?;
        if !compressions.bytes().contains(&0) {
            return Err(HelloError::Field("compression method"));
        }
        let (message, offers) = (message.to_vec(), Vec::new());
        let mut hello = Self { message, suites, has_version, has_dhe: None, offers, binders_at: 0 };
        // A hello without extensions is one of TLS 1.2.
        if !fields.is_empty() {
            hello.read_extensions(fields.counted(2)?)?;
            if !fields.is_empty() {
                return Err(HelloError::CutOff);
            }
        }
        Ok(hello)
    }

    fn read_extensions(&mut self, mut fields: Fields<'_>) -> Result<(), HelloError> {
        let mut seen = Vec::new();
        while !fields.is_empty() {
            let kind = fields.number(2)?;
            let extension = fields.counted(2)?;
            if !matches!(kind, PRE_SHARED_KEY | SUPPORTED_VERSIONS | PSK_KEY_EXCHANGE_MODES) {
                continue;
            }
            if seen.contains(&kind) {
                return Err(HelloError::Field("extension: it comes twice"));
            }
            seen.push(kind);
            match kind {
                SUPPORTED_VERSIONS => self.has_version = has_version(extension)?,
                PSK_KEY_EXCHANGE_MODES => self.has_dhe = Some(has_dhe(extension)?),
                // The binders sign all that is before them, so that nothing may be behind.
                _ if !fields.is_empty() => {
                    return Err(HelloError::Field("pre_shared_key: it is not the last"));
                }
                _ => self.read_offers(extension)?,
            }
        }
        Ok(())
    }

    fn read_offers(&mut self, mut fields: Fields<'_>) -> Result<(), HelloError> {
        let mut identities = fields.counted(2)?;
        self.binders_at = fields.at();
        let mut binders = fields.counted(2)?;
        if !fields.is_empty() || identities.is_empty() {
            return Err(HelloError::CutOff);
        }
        while !identities.is_empty() {
            let identity = identities.counted(2)?;
            identities.take(size_of::<u32>())?;
            if identity.is_empty() {
                return Err(HelloError::Field("PSK identity"));
            } else if binders.is_empty() {
                return Err(HelloError::Field("number of binders"));
            }
            let binder = binders.counted(1)?;
            if !BINDER_BYTES.contains(&binder.bytes().len()) {
                return Err(HelloError::Field("binder"));
            }
            if self.offers.len() < IDENTITIES_MAX {
                self.offers.push(Offer { identity: identity.range(), binder: binder.range() });
            }
        }
        if binders.is_empty() { Ok(()) } else { Err(HelloError::Field("number of binders")) }
    }

    /// The suites of NVMe that it offers, in its order.
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// The PSK identities that it offers, in its order, as far as they are looked at. They are of any bytes.
    pub fn identities(&self) -> impl Iterator<Item = &[u8]> {
        self.offers.iter().filter_map(|offer| self.message.get(offer.identity.clone()))
    }

    /// True if it offers TLS 1.3.
    pub const fn has_version(&self) -> bool {
        self.has_version
    }

    /// True if a key exchange may be part of the handshake (psk_dhe_ke); `None` if the hello has no
    /// PSK modes.
    pub const fn has_dhe(&self) -> Option<bool> {
        self.has_dhe
    }

    /// Identities with their binders.
    pub(crate) fn offers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let at = |range: &Range<usize>| self.message.get(range.clone()).unwrap_or_default();
        self.offers.iter().map(move |offer| (at(&offer.identity), at(&offer.binder)))
    }

    /// Bytes that binders sign.
    pub(crate) fn signed(&self) -> &[u8] {
        self.message.get(..self.binders_at).unwrap_or_default()
    }
}

fn has_version(mut fields: Fields<'_>) -> Result<bool, HelloError> {
    let versions = fields.counted(1)?;
    if !fields.is_empty() || versions.is_empty() || versions.bytes().len() % 2 != 0 {
        return Err(HelloError::CutOff);
    }
    let mut versions = versions.bytes().chunks_exact(2);
    Ok(versions.any(|version| usize::from(u16::from_be_bytes([version[0], version[1]])) == TLS_1_3))
}

fn has_dhe(mut fields: Fields<'_>) -> Result<bool, HelloError> {
    let modes = fields.counted(1)?;
    if !fields.is_empty() || modes.is_empty() {
        return Err(HelloError::CutOff);
    }
    Ok(modes.bytes().contains(&PSK_DHE_KE))
}
