//! The Namespace Identification Descriptor list (CNS 03h): the names by which a namespace is known.
//!
//! Whether two namespaces with the same names are one is for the host to say, not for this module.

use super::{CommandSet, IDENTIFY_BYTES};

const HEADER_BYTES: usize = 4;

/// A descriptor list no conforming controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// The descriptor's length leads past the end of the list.
    #[error("descriptor at byte {offset} of the namespace identification list leads past its end")]
    Overrun {
        /// Offset of the descriptor in bytes.
        offset: usize,
    },
    /// An identifier of a known type does not have that type's length.
    #[error("namespace identifier of type {kind} is {length} bytes long")]
    Length {
        /// The type (NIDT).
        kind: u8,
        /// The length it came with (NIDL).
        length: u8,
    },
    /// Two identifiers of one type that differ: no one can say which namespace this is.
    #[error("namespace has two different identifiers of type {kind}")]
    Conflict {
        /// The type (NIDT).
        kind: u8,
    },
}

/// Descriptor as it stands on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// Namespace Identifier Type (NIDT).
    pub kind: u8,
    /// Namespace Identifier (NID), never empty.
    pub value: &'a [u8],
}

impl Descriptor<'_> {
    /// Type of an EUI64 (NIDT 1h).
    pub const EUI64: u8 = 1;
    /// Type of an NGUID (NIDT 2h).
    pub const NGUID: u8 = 2;
    /// Type of a UUID (NIDT 3h).
    pub const UUID: u8 = 3;
    /// Type of an I/O command set (NIDT 4h).
    pub const COMMAND_SET: u8 = 4;
}

/// Iterates over the descriptors of a list, of whatever type; ends after the first error.
#[derive(Clone, Debug)]
pub struct Descriptors<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Descriptors<'a> {
    /// The descriptors in `bytes`, which may be any bytes at all.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }
}

impl<'a> Iterator for Descriptors<'a> {
    type Item = Result<Descriptor<'a>, DescriptorError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.bytes.get(offset..)?;
        // The list ends with a length of zero, or with the buffer when it is full to the last byte.
        let (&kind, &length) = (rest.first()?, rest.get(1)?);
        if length == 0 {
            self.offset = self.bytes.len();
            return None;
        }
        let end = HEADER_BYTES + usize::from(length);
        let Some(value) = rest.get(HEADER_BYTES..end) else {
            self.offset = self.bytes.len();
            return Some(Err(DescriptorError::Overrun { offset }));
        };
        self.offset = offset + end;
        Some(Ok(Descriptor { kind, value }))
    }
}

/// The identifiers of a namespace, at most one of each type (Base 5.1.13.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamespaceIdentifiers {
    /// IEEE Extended Unique Identifier, big-endian (EUI64, NIDT 1h).
    pub eui64: Option<[u8; 8]>,
    /// Namespace Globally Unique Identifier, big-endian (NGUID, NIDT 2h).
    pub nguid: Option<[u8; 16]>,
    /// UUID as RFC 9562 writes it, big-endian (NUUID, NIDT 3h).
    pub uuid: Option<[u8; 16]>,
    /// Command Set Identifier (CSI, NIDT 4h).
    pub command_set: Option<CommandSet>,
}

impl NamespaceIdentifiers {
    /// The descriptor list that Identify answers with.
    pub fn encode(&self) -> [u8; IDENTIFY_BYTES] {
        let mut list = [0; IDENTIFY_BYTES];
        let mut offset = 0;
        let mut put = |kind: u8, value: &[u8]| {
            list[offset] = kind;
            list[offset + 1] = value.len() as u8;
            list[offset + HEADER_BYTES..][..value.len()].copy_from_slice(value);
            offset += HEADER_BYTES + value.len();
        };
        if let Some(eui64) = &self.eui64 {
            put(Descriptor::EUI64, eui64);
        }
        if let Some(nguid) = &self.nguid {
            put(Descriptor::NGUID, nguid);
        }
        if let Some(uuid) = &self.uuid {
            put(Descriptor::UUID, uuid);
        }
        if let Some(CommandSet(command_set)) = self.command_set {
            put(Descriptor::COMMAND_SET, &[command_set]);
        }
        list
    }

    /// Reads a descriptor list; types this module does not know are passed over, as a host should.
    pub fn decode(bytes: &[u8]) -> Result<Self, DescriptorError> {
        let mut identifiers = Self::default();
        for descriptor in Descriptors::new(bytes) {
            let descriptor = descriptor?;
            match descriptor.kind {
                Descriptor::EUI64 => store(&mut identifiers.eui64, &descriptor)?,
                Descriptor::NGUID => store(&mut identifiers.nguid, &descriptor)?,
                Descriptor::UUID => store(&mut identifiers.uuid, &descriptor)?,
                Descriptor::COMMAND_SET => {
                    let mut value = identifiers.command_set.map(|command_set| [command_set.0]);
                    store(&mut value, &descriptor)?;
                    identifiers.command_set = value.map(|[command_set]| CommandSet(command_set));
                }
                _ => {}
            }
        }
        Ok(identifiers)
    }
}

fn store<const N: usize>(
    slot: &mut Option<[u8; N]>,
    descriptor: &Descriptor<'_>,
) -> Result<(), DescriptorError> {
    let kind = descriptor.kind;
    let value: [u8; N] = descriptor
        .value
        .try_into()
        .map_err(|_| DescriptorError::Length { kind, length: descriptor.value.len() as u8 })?;
    match slot {
        Some(previous) if *previous != value => Err(DescriptorError::Conflict { kind }),
        _ => {
            *slot = Some(value);
            Ok(())
        }
    }
}
