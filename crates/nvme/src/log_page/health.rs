//! The log pages about how a controller fares: errors, health, firmware, changed namespaces.
//!
//! They are only laid out here; the target counts and clears what they report.

use crate::identify::{ListError, NSID_ALL, NamespaceList, zeroed_default};
use alloc::vec::Vec;
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entry of the Error Information log page (LID 01h, Base 5.1.12.1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ErrorLogEntry {
    /// Number of this error since the controller was made, 0 for an unused entry.
    pub error_count: U64,
    /// Submission queue of the command, FFFFh if the error belongs to none (SQID).
    pub queue_id: U16,
    /// Command identifier, FFFFh if the error belongs to none (CID).
    pub command_id: U16,
    /// Status field of the completion, with the phase tag in bit 0.
    pub status: U16,
    /// Position of the wrong parameter: byte 7:0 and bit 10:8, FFFFh if there is none.
    pub parameter_location: U16,
    /// The first LBA with the error.
    pub lba: U64,
    /// Namespace.
    pub namespace_id: U32,
    /// Log page with vendor specific information about the error, 0 for none.
    pub vendor_log_page: u8,
    /// Transport type (TRTYPE).
    pub transport_type: u8,
    /// I/O command set of the command (CSI).
    pub command_set: u8,
    /// Opcode of the command (OPC).
    pub opcode: u8,
    /// Command specific information.
    pub command_specific: U64,
    /// Transport type specific information.
    pub transport_specific: U16,
    /// Reserved.
    pub reserved_42: [u8; 21],
    /// Version of this entry's layout, 1 (LPVER).
    pub version: u8,
}

impl ErrorLogEntry {
    /// Value of the queue, command identifier and parameter location for an error that belongs to
    /// none.
    pub const NONE: u16 = 0xFFFF;

    /// A parameter location: a byte of the submission entry and the lowest wrong bit in it, 0 to 7.
    pub const fn parameter(byte: u8, bit: u8) -> u16 {
        byte as u16 | (bit as u16 & 0x7) << 8
    }
}

const _: () = assert!(size_of::<ErrorLogEntry>() == 64);
const _: () = assert!(offset_of!(ErrorLogEntry, command_specific) == 32);

/// SMART / Health Information log page (LID 02h, Base 5.1.12.1.3).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SmartLog {
    /// Critical warnings: [`critical_warning`] (CW).
    pub critical_warning: u8,
    /// Composite temperature in kelvins (CTEMP).
    pub temperature: U16,
    /// Available spare in percent (AVSP).
    pub available_spare: u8,
    /// Available spare threshold in percent (AVSPT).
    pub available_spare_threshold: u8,
    /// Percentage used, 255 at most (PUSED).
    pub percentage_used: u8,
    /// Critical warnings of all endurance groups (EGCWS).
    pub endurance_group_warning: u8,
    /// Reserved.
    pub reserved_7: [u8; 25],
    /// Data units read, each 1,000 times 512 bytes, rounded up (DUR).
    pub data_units_read: U128,
    /// Data units written, each 1,000 times 512 bytes, rounded up (DUW).
    pub data_units_written: U128,
    /// Read commands completed (HRC).
    pub host_read_commands: U128,
    /// Write commands completed (HWC).
    pub host_write_commands: U128,
    /// Minutes in which the controller was busy with I/O commands (CBT).
    pub controller_busy_minutes: U128,
    /// Power cycles (PWRC).
    pub power_cycles: U128,
    /// Power on hours (POH).
    pub power_on_hours: U128,
    /// Unexpected power losses (UPL).
    pub unsafe_shutdowns: U128,
    /// Media and data integrity errors (MDIE).
    pub media_errors: U128,
    /// Entries ever put into the error log (NEILE).
    pub error_log_entries: U128,
    /// Minutes above the warning temperature (WCTT).
    pub warning_temperature_minutes: U32,
    /// Minutes above the critical temperature (CCTT).
    pub critical_temperature_minutes: U32,
    /// Temperature sensors 1 to 8 in kelvins, 0 where there is none (TSEN1 to TSEN8).
    pub temperature_sensors: [U16; 8],
    /// Transitions by thermal management temperature 1 (TMT1TC).
    pub thermal_transitions_1: U32,
    /// Transitions by thermal management temperature 2 (TMT2TC).
    pub thermal_transitions_2: U32,
    /// Seconds under thermal management temperature 1 (TTTMT1).
    pub thermal_seconds_1: U32,
    /// Seconds under thermal management temperature 2 (TTTMT2).
    pub thermal_seconds_2: U32,
    /// Reserved.
    pub reserved_232: [u8; 280],
}

const _: () = assert!(size_of::<SmartLog>() == 512);
const _: () = assert!(offset_of!(SmartLog, data_units_read) == 32);
const _: () = assert!(offset_of!(SmartLog, temperature_sensors) == 200);

/// Critical warnings (CW, Base 5.1.12.1.3).
pub mod critical_warning {
    /// Reliability is degraded (NDR).
    pub const RELIABILITY: u8 = 1 << 2;
    /// The media are read only (AMRO).
    pub const READ_ONLY: u8 = 1 << 3;
}

/// Firmware Slot Information log page (LID 03h, Base 5.1.12.1.4).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FirmwareSlotLog {
    /// Active slot 2:0, and the slot active after the next reset 6:4, 0 for no change (AFI).
    pub active: u8,
    /// Reserved.
    pub reserved_1: [u8; 7],
    /// Firmware revision of each slot, ASCII, zero for an empty slot (FRS1 to FRS7).
    pub revisions: [[u8; 8]; 7],
    /// Reserved.
    pub reserved_64: [u8; 448],
}

const _: () = assert!(size_of::<FirmwareSlotLog>() == 512);

/// Changed Attached Namespace List log page (LID 04h, Base 5.1.12.1.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct ChangedNamespaceList(pub NamespaceList);

const _: () = assert!(size_of::<ChangedNamespaceList>() == 4096);

impl ChangedNamespaceList {
    /// The list of those of `nsids` that changed, in increasing order; if there are too many for the list it
    /// says so instead, as it does where `NSID_ALL` is among them.
    pub fn new(nsids: impl IntoIterator<Item = u32>) -> Self {
        let mut nsids = nsids.into_iter().filter(|&nsid| nsid != 0);
        let mut is_any = false;
        let named = nsids.by_ref().inspect(|nsid| is_any |= *nsid == NSID_ALL);
        let list = NamespaceList::after(0, named.take(NamespaceList::CAPACITY));
        if is_any || nsids.next().is_some() { Self::too_many() } else { Self(list) }
    }

    /// The list that says that more namespaces changed than it can hold.
    pub fn too_many() -> Self {
        Self(NamespaceList::after(0, [NSID_ALL]))
    }

    /// The namespaces that changed, `None` if there are too many to list and any may have.
    pub fn decode(&self) -> Result<Option<Vec<u32>>, ListError> {
        if self.0.entries[0].get() == NSID_ALL { Ok(None) } else { self.0.decode(0).map(Some) }
    }
}

zeroed_default!(SmartLog, FirmwareSlotLog);
