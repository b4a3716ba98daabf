//! The Cross-Controller Reset log page: how far the resets have come that were asked of one controller (TP8028).
//!
//! What a reset is, and when it has succeeded, is the target's knowledge.

use alloc::vec::Vec;
use core::mem::offset_of;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire_value::from_wire;

/// Entries that fit the log page (Base 2.3, TP8028).
pub const CROSS_RESET_ENTRIES_MAX: usize = 511;

/// Log specific parameter bit 0: entries whose resets have ended are gone once they were read (RMC).
pub const CROSS_RESET_REMOVE_COMPLETED: u8 = 1 << 0;

const HEADER_BYTES: usize = 8;

/// Status of a cross-controller reset (CCRS, Base 2.3, TP8028).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CrossResetStatus {
    /// Commands of the controller may still take effect.
    InProgress = 0,
    /// No command of the controller can take effect from now on.
    Successful = 1,
    /// The controller could not be reset.
    Failed = 2,
}

from_wire! { CrossResetStatus: InProgress Successful Failed }

/// Bits of a Cross-Controller Reset entry's flags (CCRF, Base 2.3, TP8028).
pub mod cross_reset_flags {
    /// The request was found valid.
    pub const VALIDATED: u8 = 1 << 0;
    /// The reset of the controller has begun.
    pub const INITIATED: u8 = 1 << 1;
}

/// Entry of the Cross-Controller Reset log page, 8 bytes (LID 1Eh, Base 2.3, TP8028).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CrossResetEntry {
    /// The controller that is reset (ICID).
    pub impacted_controller_id: U16,
    /// Instance of the controller with this identifier (CIU).
    pub uniquifier: u8,
    /// Reserved.
    pub reserved_3: u8,
    /// The controller that was asked to do it (ACID).
    pub asked_controller_id: U16,
    /// Status of the reset: [`CrossResetStatus`] (CCRS).
    pub status: u8,
    /// Work done: [`cross_reset_flags`] (CCRF).
    pub flags: u8,
}

const _: () = assert!(size_of::<CrossResetEntry>() == 8);
const _: () = assert!(offset_of!(CrossResetEntry, asked_controller_id) == 4);
const _: () = assert!(offset_of!(CrossResetEntry, status) == 6);

impl CrossResetEntry {
    /// Status of the reset, `None` for a reserved value.
    pub const fn status(&self) -> Option<CrossResetStatus> {
        CrossResetStatus::from_wire(self.status)
    }
}

/// A Cross-Controller Reset log page that no conforming controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrossResetParseError {
    /// The header or the entries it announces are not whole.
    #[error("Cross-Controller Reset log page of {announced} entries ends after {bytes} bytes")]
    Truncated {
        /// Entries the header announces, 0 if the header is not whole.
        announced: u16,
        /// Bytes there are.
        bytes: usize,
    },
    /// More entries than the log page can have.
    #[error("Cross-Controller Reset log page announces {announced} entries of at most 511")]
    TooMany {
        /// Entries the header announces.
        announced: u16,
    },
}

/// A whole Cross-Controller Reset log page (LID 1Eh, Base 2.3, TP8028).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrossResetLog {
    /// The entries, in the order they came.
    pub entries: Vec<CrossResetEntry>,
}

impl CrossResetLog {
    /// Bytes of the log page with `entries` entries.
    pub const fn length_bytes(entries: usize) -> usize {
        HEADER_BYTES + entries * size_of::<CrossResetEntry>()
    }

    /// Reads a log page; bytes after the last entry are ignored.
    ///
    /// # Errors
    /// When it announces more entries than there are, or than there can be.
    pub fn parse(bytes: &[u8]) -> Result<Self, CrossResetParseError> {
        let truncated = |announced| CrossResetParseError::Truncated { announced, bytes: bytes.len() };
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(truncated(0))?;
        let announced = u16::from_le_bytes([header[0], header[1]]);
        if usize::from(announced) > CROSS_RESET_ENTRIES_MAX {
            return Err(CrossResetParseError::TooMany { announced });
        }
        let found = <[CrossResetEntry]>::ref_from_prefix_with_elems(rest, usize::from(announced));
        let (entries, _) = found.map_err(|_| truncated(announced))?;
        Ok(Self { entries: entries.to_vec() })
    }

    /// The bytes of the log page. Entries beyond those that fit are left out.
    pub fn encode(&self) -> Vec<u8> {
        let entries = &self.entries[..self.entries.len().min(CROSS_RESET_ENTRIES_MAX)];
        let mut bytes = Vec::with_capacity(Self::length_bytes(entries.len()));
        bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(entries.as_bytes());
        bytes
    }
}
