//! The I/O commands of the NVM command set, decoded once from a submission entry and encoded into
//! one. It does not know the namespace: the caller checks ranges against its size.

mod copy;
mod reservation;

pub use copy::{
    COPY_RANGES_MAX, CopyFormat, CopyRange, CopyRangeFormat1, CopyRanges, copy_ranges, encode_copy_ranges,
};

use alloc::vec::Vec;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::command::io_opcode;
use crate::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReleaseAction, ReservationType};
use crate::{Status, SubmissionEntry};

const FORCE_UNIT_ACCESS: u32 = 1 << 30;
const DEALLOCATE: u32 = 1 << 25;
const PROTECTION_MASK: u32 = 0xf << 26;
const DSM_DEALLOCATE: u32 = 1 << 2;
const COPY_FORMAT_SHIFT: u32 = 8;
/// PRINFOR and PRINFOW: a Copy has one for what it reads and one for what it writes.
const COPY_PROTECTION_MASK: u32 = 0xf << 12 | PROTECTION_MASK;
const INVALID_FIELD: Status = Status::INVALID_FIELD.do_not_retry();

/// The most ranges one Dataset Management command carries (NR is 0's based and 8 bits wide).
pub const DATASET_RANGES_MAX: usize = 256;

/// Place of a command in a fused operation: two commands that are done as one (FUSE, Base 3.4.2).
/// The owner of the queue checks that the two follow one another, and name the same blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fused {
    /// Not fused: a command of its own (00b).
    #[default]
    No = 0,
    /// First of two commands (01b).
    First = 1,
    /// Second of two commands (10b).
    Second = 2,
}

/// An I/O command, with block numbers and counts as the host gave them. Counts are 1's based here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoCommand {
    /// Read `blocks` blocks from `start` on (NVM 3.2.4).
    Read {
        /// First block (SLBA).
        start: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
        /// Read from the medium itself (FUA).
        force_unit_access: bool,
    },
    /// Write `blocks` blocks from `start` on (NVM 3.2.6).
    Write {
        /// First block (SLBA).
        start: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
        /// Durable before the completion (FUA).
        force_unit_access: bool,
    },
    /// Compare `blocks` blocks from `start` on with the host's data (NVM 3.2.1).
    Compare {
        /// First block (SLBA).
        start: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
    },
    /// Make all completed writes durable (Base 7.2).
    Flush,
    /// Write zeroes without sending them (NVM 3.2.8).
    WriteZeroes {
        /// First block (SLBA).
        start: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
        /// Durable before the completion (FUA).
        force_unit_access: bool,
        /// The host would like the blocks deallocated (DEAC).
        deallocate: bool,
    },
    /// Hints about ranges (NVM 3.2.3).
    DatasetManagement {
        /// Number of ranges in the data, 1 to 256.
        ranges: u16,
        /// The ranges may be deallocated (AD).
        deallocate: bool,
    },
    /// Check that `blocks` blocks from `start` on can be read (NVM 3.2.5).
    Verify {
        /// First block (SLBA).
        start: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
    },
    /// Make `blocks` blocks from `start` on unreadable until they are written (NVM 3.2.7).
    WriteUncorrectable {
        /// First block (SLBA).
        start: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
    },
    /// Copy the ranges that the data names to one place (NVM 3.2.2).
    Copy {
        /// First block of the destination (SDLBA).
        start: u64,
        /// Number of source ranges in the data, 1 to 256.
        ranges: u16,
        /// Descriptor format of the ranges (CDFT).
        format: CopyFormat,
        /// Durable before the completion (FUA).
        force_unit_access: bool,
    },
    /// Register, replace or take back a reservation key (Base 7.6).
    ReservationRegister {
        /// Action on the registration (RREGA).
        action: RegisterAction,
        /// Do it whatever key the host has (IEKEY).
        ignore_existing_key: bool,
        /// Change of the persistence of reservations through power loss (CPTPL).
        persistence: PersistenceChange,
    },
    /// Acquire or preempt a reservation (Base 7.5).
    ReservationAcquire {
        /// Action on the reservation (RACQA).
        action: AcquireAction,
        /// Do not check the host's key, which only controllers before revision 1.3 do (IEKEY).
        ignore_existing_key: bool,
        /// Type of the reservation (RTYPE).
        kind: ReservationType,
    },
    /// Release or clear a reservation (Base 7.7).
    ReservationRelease {
        /// Action on the reservation (RRELA).
        action: ReleaseAction,
        /// Do not check the host's key, which only controllers before revision 1.3 do (IEKEY).
        ignore_existing_key: bool,
        /// Type of the reservation, `None` for a Clear, which does not look at it (RTYPE).
        kind: Option<ReservationType>,
    },
    /// Ask who is registered and who holds the reservation (Base 7.8).
    ReservationReport {
        /// Number of dwords of the report that the host takes, at least 1 (NUMD).
        dwords: u32,
        /// The form with host identifiers of 128 bits (EDS).
        extended: bool,
    },
}

impl IoCommand {
    /// Decodes the command of `entry`.
    ///
    /// # Errors
    /// The status to answer with: an opcode that is not supported, a fused command, or a reserved value. Protection
    /// information is not looked at, since no namespace here has any ([`asks_for_protection`]).
    pub fn decode(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
        if entry.fused() != 0 {
            return Err(INVALID_FIELD);
        }
        Self::decode_alone(entry)
    }

    /// Decodes the command of `entry` and where it stands in a fused operation: a Compare may be the first
    /// command of one, and a Write the second.
    ///
    /// # Errors
    /// As [`IoCommand::decode`], but for those two; every other fused command is an invalid field.
    pub fn decode_fused(entry: &SubmissionEntry) -> Result<(IoCommand, Fused), Status> {
        let fused = match entry.fused() {
            0 => Fused::No,
            1 => Fused::First,
            2 => Fused::Second,
            _ => return Err(INVALID_FIELD),
        };
        let command = Self::decode_alone(entry)?;
        match (fused, &command) {
            (Fused::No, _)
            | (Fused::First, IoCommand::Compare { .. })
            | (Fused::Second, IoCommand::Write { .. }) => Ok((command, fused)),
            _ => Err(INVALID_FIELD),
        }
    }

    /// Decodes the command of `entry` as if it were not fused.
    fn decode_alone(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
        let start = entry.cdw10_11();
        let control = entry.cdw12.get();
        let blocks = (control & 0xffff) + 1;
        let force_unit_access = control & FORCE_UNIT_ACCESS != 0;
        let command = match entry.opcode {
            io_opcode::READ => IoCommand::Read { start, blocks, force_unit_access },
            io_opcode::WRITE => IoCommand::Write { start, blocks, force_unit_access },
            io_opcode::COMPARE => IoCommand::Compare { start, blocks },
            io_opcode::VERIFY => IoCommand::Verify { start, blocks },
            io_opcode::WRITE_ZEROES => {
                let deallocate = control & DEALLOCATE != 0;
                IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate }
            }
            io_opcode::FLUSH => return Ok(IoCommand::Flush),
            io_opcode::WRITE_UNCORRECTABLE => return Ok(IoCommand::WriteUncorrectable { start, blocks }),
            io_opcode::DATASET_MANAGEMENT => {
                let ranges = (entry.cdw10.get() & 0xff) as u16 + 1;
                let deallocate = entry.cdw11.get() & DSM_DEALLOCATE != 0;
                return Ok(IoCommand::DatasetManagement { ranges, deallocate });
            }
            io_opcode::COPY => return decode_copy(entry),
            _ => return reservation::decode(entry),
        };
        Ok(command)
    }

    /// Encodes the command for namespace `nsid`; the data descriptor and the command identifier are left to
    /// the queue.
    ///
    /// # Panics
    /// When a block count is 0 or over 65,536, the number of ranges is not 1 to 256, a report asks for 0
    /// dwords, or a reservation is to be released without its type.
    pub fn encode(&self, nsid: u32) -> SubmissionEntry {
        let (opcode, start, cdw12) = match *self {
            IoCommand::Read { start, blocks, force_unit_access } => {
                (io_opcode::READ, start, zero_based(blocks) | flag(force_unit_access, FORCE_UNIT_ACCESS))
            }
            IoCommand::Write { start, blocks, force_unit_access } => {
                (io_opcode::WRITE, start, zero_based(blocks) | flag(force_unit_access, FORCE_UNIT_ACCESS))
            }
            IoCommand::Compare { start, blocks } => (io_opcode::COMPARE, start, zero_based(blocks)),
            IoCommand::Flush => (io_opcode::FLUSH, 0, 0),
            IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate } => (
                io_opcode::WRITE_ZEROES,
                start,
                zero_based(blocks)
                    | flag(force_unit_access, FORCE_UNIT_ACCESS)
                    | flag(deallocate, DEALLOCATE),
            ),
            IoCommand::DatasetManagement { ranges, deallocate } => {
                let attributes = flag(deallocate, DSM_DEALLOCATE);
                let start = u64::from(zero_based_ranges(ranges)) | u64::from(attributes) << 32;
                (io_opcode::DATASET_MANAGEMENT, start, 0)
            }
            IoCommand::Verify { start, blocks } => (io_opcode::VERIFY, start, zero_based(blocks)),
            IoCommand::WriteUncorrectable { start, blocks } => {
                (io_opcode::WRITE_UNCORRECTABLE, start, zero_based(blocks))
            }
            IoCommand::Copy { start, ranges, format, force_unit_access } => {
                let cdw12 = zero_based_ranges(ranges)
                    | (format as u32) << COPY_FORMAT_SHIFT
                    | flag(force_unit_access, FORCE_UNIT_ACCESS);
                (io_opcode::COPY, start, cdw12)
            }
            IoCommand::ReservationRegister { .. }
            | IoCommand::ReservationAcquire { .. }
            | IoCommand::ReservationRelease { .. }
            | IoCommand::ReservationReport { .. } => {
                let (opcode, dwords) = reservation::encode(self);
                (opcode, dwords, 0)
            }
        };
        let mut entry = SubmissionEntry::new(opcode, nsid);
        entry.cdw10 = U32::new(start as u32);
        entry.cdw11 = U32::new((start >> 32) as u32);
        entry.cdw12 = U32::new(cdw12);
        entry
    }

    /// Encodes the command as [`IoCommand::encode`] does, as part of a fused operation.
    ///
    /// # Panics
    /// As [`IoCommand::encode`], and when the command cannot stand there in a fused operation.
    pub fn encode_fused(&self, nsid: u32, fused: Fused) -> SubmissionEntry {
        let fits = match fused {
            Fused::No => true,
            Fused::First => matches!(self, IoCommand::Compare { .. }),
            Fused::Second => matches!(self, IoCommand::Write { .. }),
        };
        assert!(fits, "only a Compare is fused with a Write");
        let mut entry = self.encode(nsid);
        entry.flags |= fused as u8;
        entry
    }

    /// True if it changes what is stored, which a write protected namespace refuses (Base
    /// 8.1.16).
    pub const fn writes(&self) -> bool {
        matches!(
            self,
            IoCommand::Write { .. }
                | IoCommand::WriteZeroes { .. }
                | IoCommand::WriteUncorrectable { .. }
                | IoCommand::DatasetManagement { deallocate: true, .. }
                | IoCommand::Copy { .. }
        )
    }

    /// True if the host sends data with this command.
    pub const fn sends_data(&self) -> bool {
        matches!(
            self,
            IoCommand::Write { .. }
                | IoCommand::Compare { .. }
                | IoCommand::DatasetManagement { .. }
                | IoCommand::Copy { .. }
                | IoCommand::ReservationRegister { .. }
                | IoCommand::ReservationAcquire { .. }
                | IoCommand::ReservationRelease { .. }
        )
    }
}

/// True if a command asks for protection information to be made or checked (PRINFO, PRINFOR,
/// PRINFOW), which means nothing for a namespace that has none.
#[inline]
pub const fn asks_for_protection(entry: &SubmissionEntry) -> bool {
    let control = entry.cdw12.get();
    match entry.opcode {
        io_opcode::READ
        | io_opcode::WRITE
        | io_opcode::COMPARE
        | io_opcode::VERIFY
        | io_opcode::WRITE_ZEROES => control & PROTECTION_MASK != 0,
        io_opcode::COPY => control & COPY_PROTECTION_MASK != 0,
        _ => false,
    }
}

fn zero_based(blocks: u32) -> u32 {
    assert!((1..=0x1_0000).contains(&blocks), "1 to 65,536 blocks");
    blocks - 1
}

/// Both kinds of command that carry ranges count them in 8 bits.
const _: () = assert!(DATASET_RANGES_MAX == COPY_RANGES_MAX);

fn zero_based_ranges(ranges: u16) -> u32 {
    assert!((1..=DATASET_RANGES_MAX).contains(&usize::from(ranges)), "1 to 256 ranges");
    u32::from(ranges - 1)
}

const fn flag(set: bool, bit: u32) -> u32 {
    if set { bit } else { 0 }
}

fn decode_copy(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
    let control = entry.cdw12.get();
    Ok(IoCommand::Copy {
        start: entry.cdw10_11(),
        ranges: (control & 0xff) as u16 + 1,
        format: CopyFormat::from_wire((control >> COPY_FORMAT_SHIFT) as u8 & 0xf).ok_or(INVALID_FIELD)?,
        force_unit_access: control & FORCE_UNIT_ACCESS != 0,
    })
}

/// Range of a Dataset Management command, 16 bytes (NVM 3.2.3).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DatasetRange {
    /// Context attributes: hints that are not used here.
    pub attributes: U32,
    /// Number of blocks; 0 is an empty range.
    pub blocks: U32,
    /// First block.
    pub start: U64,
}

const _: () = assert!(size_of::<DatasetRange>() == 16);

/// Encodes `(start, blocks)` pairs as the data of a Dataset Management command.
pub fn encode_ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ranges.len() * size_of::<DatasetRange>());
    for &(start, blocks) in ranges {
        let range = DatasetRange { attributes: U32::ZERO, blocks: U32::new(blocks), start: U64::new(start) };
        bytes.extend_from_slice(range.as_bytes());
    }
    bytes
}
