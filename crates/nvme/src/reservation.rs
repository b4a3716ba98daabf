//! Reservations on the wire: their types, the actions of the reservation commands and the data that
//! those commands carry. Who is registered, and who may do what, is the target's business.

mod report;

pub use report::{
    RegisteredController, RegisteredControllerExtended, Registrant, ReportError, ReservationReport,
    ReservationStatus, encode_report,
};

use core::mem::offset_of;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::bits::reservation_capabilities;
use crate::wire_value::from_wire;

/// Type of a reservation: what its holder, the other registrants and everybody else may do (RTYPE,
/// Base 8.1.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes, and everybody reads.
    WriteExclusive = 1,
    /// Only the holder writes and reads.
    ExclusiveAccess = 2,
    /// Only registrants write, and everybody reads.
    WriteExclusiveRegistrantsOnly = 3,
    /// Only registrants write and read.
    ExclusiveAccessRegistrantsOnly = 4,
    /// Only registrants write, everybody reads, and every registrant is a holder.
    WriteExclusiveAllRegistrants = 5,
    /// Only registrants write and read, and every registrant is a holder.
    ExclusiveAccessAllRegistrants = 6,
}

from_wire! {
    ReservationType: WriteExclusive ExclusiveAccess WriteExclusiveRegistrantsOnly
        ExclusiveAccessRegistrantsOnly WriteExclusiveAllRegistrants ExclusiveAccessAllRegistrants
}

impl ReservationType {
    /// Every type there is, in the order of their values.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// True if all hosts may still read; if not, hosts that may not write may not read either.
    pub const fn is_write_exclusive(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive | Self::WriteExclusiveRegistrantsOnly | Self::WriteExclusiveAllRegistrants
        )
    }

    /// True if it lets all registrants do what the holder may, with one of them being the holder.
    pub const fn registrants_only(self) -> bool {
        matches!(self, Self::WriteExclusiveRegistrantsOnly | Self::ExclusiveAccessRegistrantsOnly)
    }

    /// True if every registrant is a holder.
    pub const fn all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// The bit of the type in the reservation capabilities of a namespace (RESCAP): one of
    /// [`reservation_capabilities`].
    pub const fn capability(self) -> u8 {
        match self {
            Self::WriteExclusive => reservation_capabilities::WRITE_EXCLUSIVE,
            Self::ExclusiveAccess => reservation_capabilities::EXCLUSIVE_ACCESS,
            Self::WriteExclusiveRegistrantsOnly => reservation_capabilities::WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
            Self::ExclusiveAccessRegistrantsOnly => {
                reservation_capabilities::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY
            }
            Self::WriteExclusiveAllRegistrants => reservation_capabilities::WRITE_EXCLUSIVE_ALL_REGISTRANTS,
            Self::ExclusiveAccessAllRegistrants => reservation_capabilities::EXCLUSIVE_ACCESS_ALL_REGISTRANTS,
        }
    }
}

/// Action of Reservation Register (RREGA, Base 7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RegisterAction {
    /// Register the new key (000b).
    Register = 0,
    /// Take the current key back (001b).
    Unregister = 1,
    /// Put the new key in the place of the current one (010b).
    Replace = 2,
}

from_wire! { RegisterAction: Register Unregister Replace }

/// Change of the persistence of reservations through power loss by Reservation Register (CPTPL,
/// Base 7.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PersistenceChange {
    /// No change (00b).
    #[default]
    NoChange = 0,
    /// Reservations are released and registrations removed at power on (10b).
    ClearOnPowerLoss = 2,
    /// Reservations and registrations persist through power loss (11b).
    PersistThroughPowerLoss = 3,
}

from_wire! { PersistenceChange: NoChange ClearOnPowerLoss PersistThroughPowerLoss }

/// Action of Reservation Acquire (RACQA, Base 7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AcquireAction {
    /// Acquire a reservation without a holder (000b).
    Acquire = 0,
    /// Take the place of those who are registered with the preempt key (001b).
    Preempt = 1,
    /// The same, and abort the commands of those who are preempted (010b).
    PreemptAndAbort = 2,
}

from_wire! { AcquireAction: Acquire Preempt PreemptAndAbort }

/// Action of Reservation Release (RRELA, Base 7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReleaseAction {
    /// Release the reservation; all hosts stay registered (000b).
    Release = 0,
    /// Release the reservation and remove every registration (001b).
    Clear = 1,
}

from_wire! { ReleaseAction: Release Clear }

/// Data of Reservation Register, 16 bytes (Base 7.6).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RegisterData {
    /// Current reservation key, unused for Register and where the existing key is ignored (CRKEY).
    pub current_key: U64,
    /// New reservation key, unused for Unregister (NRKEY).
    pub new_key: U64,
}

const _: () = assert!(size_of::<RegisterData>() == 16);
const _: () = assert!(offset_of!(RegisterData, new_key) == 8);

/// Data of Reservation Acquire, 16 bytes (Base 7.5).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct AcquireData {
    /// Current reservation key of the host (CRKEY).
    pub current_key: U64,
    /// Key of those who are preempted, unused for Acquire (PRKEY).
    pub preempt_key: U64,
}

const _: () = assert!(size_of::<AcquireData>() == 16);
const _: () = assert!(offset_of!(AcquireData, preempt_key) == 8);

/// Data of Reservation Release, 8 bytes (Base 7.7).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ReleaseData {
    /// Current reservation key of the host (CRKEY).
    pub current_key: U64,
}

const _: () = assert!(size_of::<ReleaseData>() == 8);
