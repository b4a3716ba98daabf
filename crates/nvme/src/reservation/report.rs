//! The Reservation Status data structure, which Reservation Report answers with, in both of its forms.
//! It does not know which hosts are registered, nor how much of it a host has asked for.

use alloc::vec::Vec;
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ReservationType;

/// The extended form has its entries from this byte on.
const EXTENDED_HEADER_BYTES: usize = 64;

/// Bit 0 of an entry's status: the host holds the reservation (RCSTS).
const HOLDS: u8 = 1 << 0;

/// Bit 0 of the header's state: reservations persist through power loss (PTPLS).
const PERSISTS: u8 = 1 << 0;

/// Header of the Reservation Status data structure, 24 bytes; in the extended form 40 reserved bytes follow
/// (Base 7.8).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ReservationStatus {
    /// Counts the commands that changed a registration or the reservation (GEN).
    pub generation: U32,
    /// Type of the reservation, 0 for none: [`ReservationType`] (RTYPE).
    pub kind: u8,
    /// Number of entries that follow (REGSTRNT, once REGCTL).
    pub registrants: U16,
    /// Reserved.
    pub reserved_7: [u8; 2],
    /// Bit 0: reservations persist through power loss (PTPLS).
    pub persistence: u8,
    /// Reserved.
    pub reserved_10: [u8; 14],
}

const _: () = assert!(size_of::<ReservationStatus>() == 24);
const _: () = assert!(offset_of!(ReservationStatus, registrants) == 5);
const _: () = assert!(offset_of!(ReservationStatus, persistence) == 9);

/// Registrant data structure with a host identifier of 64 bits, 24 bytes (Base 7.8).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RegisteredController {
    /// A controller of the host, FFFFh if it has none now (CNTLID).
    pub controller_id: U16,
    /// Bit 0: the host holds the reservation (RCSTS).
    pub status: u8,
    /// Reserved.
    pub reserved_3: [u8; 5],
    /// Host identifier (HOSTID).
    pub host_id: [u8; 8],
    /// Reservation key (RKEY).
    pub key: U64,
}

const _: () = assert!(size_of::<RegisteredController>() == 24);
const _: () = assert!(offset_of!(RegisteredController, host_id) == 8);

/// Registrant extended data structure with a host identifier of 128 bits, 64 bytes (Base 7.8).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RegisteredControllerExtended {
    /// A controller of the host, FFFFh if it has none now (CNTLID).
    pub controller_id: U16,
    /// Bit 0: the host holds the reservation (RCSTS).
    pub status: u8,
    /// Reserved.
    pub reserved_3: [u8; 5],
    /// Reservation key (RKEY).
    pub key: U64,
    /// Host identifier (HOSTID).
    pub host_id: [u8; 16],
    /// Reserved.
    pub reserved_32: [u8; 32],
}

const _: () = assert!(size_of::<RegisteredControllerExtended>() == 64);
const _: () = assert!(offset_of!(RegisteredControllerExtended, host_id) == 16);

/// Registrant of a namespace, as a report names it: once for each of its controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registrant {
    /// A controller of the host, [`Self::NO_CONTROLLER`] if it has none now.
    pub controller_id: u16,
    /// True if the host holds the reservation.
    pub holds: bool,
    /// Host identifier; the first 8 bytes alone are an identifier of 64 bits.
    pub host_id: [u8; 16],
    /// Reservation key.
    pub key: u64,
}

impl Registrant {
    /// The controller ID of a host that is registered but has no controller now (CNTLID).
    pub const NO_CONTROLLER: u16 = 0xFFFF;

    fn encode(&self, extended: bool, bytes: &mut Vec<u8>) {
        let controller_id = U16::new(self.controller_id);
        let status = if self.holds { HOLDS } else { 0 };
        let key = U64::new(self.key);
        if extended {
            let host_id = self.host_id;
            let entry = RegisteredControllerExtended {
                controller_id,
                status,
                key,
                host_id,
                ..RegisteredControllerExtended::default()
            };
            bytes.extend_from_slice(entry.as_bytes());
        } else {
            let [a, b, c, d, e, f, g, h, ..] = self.host_id;
            let host_id = [a, b, c, d, e, f, g, h];
            let entry = RegisteredController {
                controller_id,
                status,
                host_id,
                key,
                ..RegisteredController::default()
            };
            bytes.extend_from_slice(entry.as_bytes());
        }
    }
}

impl From<&RegisteredController> for Registrant {
    fn from(entry: &RegisteredController) -> Self {
        let [a, b, c, d, e, f, g, h] = entry.host_id;
        Self {
            controller_id: entry.controller_id.get(),
            holds: entry.status & HOLDS != 0,
            host_id: [a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0],
            key: entry.key.get(),
        }
    }
}

impl From<&RegisteredControllerExtended> for Registrant {
    fn from(entry: &RegisteredControllerExtended) -> Self {
        Self {
            controller_id: entry.controller_id.get(),
            holds: entry.status & HOLDS != 0,
            host_id: entry.host_id,
            key: entry.key.get(),
        }
    }
}

/// The bytes of a whole report, to be cut to the length that a host asks for: the header counts all
/// registrants even if it asks for less.
///
/// Registrants past the 65,535 that the header can count are left out. Without `extended`, only the first 8
/// bytes of a host identifier are in the report; a host with 128 bits of it asks for the extended form.
pub fn encode_report(
    generation: u32,
    kind: Option<ReservationType>,
    persists: bool,
    registrants: &[Registrant],
    extended: bool,
) -> Vec<u8> {
    let count = u16::try_from(registrants.len()).unwrap_or(u16::MAX);
    let (header_bytes, entry_bytes) = lengths(extended);
    let mut bytes = Vec::with_capacity(header_bytes + usize::from(count) * entry_bytes);
    let header = ReservationStatus {
        generation: U32::new(generation),
        kind: kind.map_or(0, |kind| kind as u8),
        registrants: U16::new(count),
        persistence: if persists { PERSISTS } else { 0 },
        ..ReservationStatus::default()
    };
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(header_bytes, 0);
    for registrant in registrants.iter().take(usize::from(count)) {
        registrant.encode(extended, &mut bytes);
    }
    bytes
}

const fn lengths(extended: bool) -> (usize, usize) {
    if extended {
        (EXTENDED_HEADER_BYTES, size_of::<RegisteredControllerExtended>())
    } else {
        (size_of::<ReservationStatus>(), size_of::<RegisteredController>())
    }
}

/// A report that no conforming controller sends, or not all of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Fewer bytes than the header, or than the registrants it announces.
    #[error("reservation report announces {announced} registrants, but {bytes} bytes are here")]
    Truncated {
        /// Registrants in the header, 0 if the header is not whole.
        announced: u16,
        /// Bytes there are.
        bytes: usize,
    },
    /// A reserved reservation type.
    #[error("reservation report has the reserved reservation type {0:#x}")]
    Type(u8),
}

/// A whole report, as the host reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// Counts the commands that changed a registration or the reservation.
    pub generation: u32,
    /// Type of the reservation, `None` if there is none.
    pub kind: Option<ReservationType>,
    /// True if reservations persist through power loss.
    pub persists: bool,
    /// The registrants, in the order they came.
    pub registrants: Vec<Registrant>,
}

impl ReservationReport {
    /// Reads a report in the form that was asked for; bytes after the last registrant are ignored.
    ///
    /// # Errors
    /// A report that is not whole, or one of a reserved type.
    pub fn parse(bytes: &[u8], extended: bool) -> Result<Self, ReportError> {
        let length = bytes.len();
        let truncated = |announced| ReportError::Truncated { announced, bytes: length };
        let (header, _) = ReservationStatus::ref_from_prefix(bytes).map_err(|_| truncated(0))?;
        let kind = match header.kind {
            0 => None,
            field => Some(ReservationType::from_wire(field).ok_or(ReportError::Type(field))?),
        };
        let announced = header.registrants.get();
        let count = usize::from(announced);
        let rest = bytes.get(lengths(extended).0..).ok_or(truncated(0))?;
        let registrants = if extended {
            let entries = <[RegisteredControllerExtended]>::ref_from_prefix_with_elems(rest, count);
            entries.map_err(|_| truncated(announced))?.0.iter().map(Registrant::from).collect()
        } else {
            let entries = <[RegisteredController]>::ref_from_prefix_with_elems(rest, count);
            entries.map_err(|_| truncated(announced))?.0.iter().map(Registrant::from).collect()
        };
        let persists = header.persistence & PERSISTS != 0;
        Ok(Self { generation: header.generation.get(), kind, persists, registrants })
    }

    /// Bytes of the whole report in one form, by the header of as much as is here: what a host that asked
    /// for too little has to ask for. `None` if the header is not whole.
    pub fn length_bytes(bytes: &[u8], extended: bool) -> Option<usize> {
        let (header, _) = ReservationStatus::ref_from_prefix(bytes).ok()?;
        let (header_bytes, entry_bytes) = lengths(extended);
        Some(header_bytes + usize::from(header.registrants.get()) * entry_bytes)
    }
}
