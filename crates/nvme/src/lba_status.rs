//! Get LBA Status: which blocks of a range are allocated (NVM 4.2.1). Where the answer comes from is not known here.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::command::admin_opcode;
use crate::{Status, SubmissionEntry};

const ACTION_SHIFT: u32 = 24;

/// Bytes of the head of the list.
pub const LIST_HEAD_BYTES: usize = size_of::<LbaStatusList>();
/// Bytes of an entry of the list.
pub const DESCRIPTOR_BYTES: usize = size_of::<LbaStatusDescriptor>();

/// Kinds of lists (ATYPE, CDW13 bits 31:24).
pub mod action {
    /// Blocks that are allocated.
    pub const ALLOCATED: u8 = 0x02;
}

/// Completion condition of a list (CMPC).
pub mod condition {
    /// There are more in the range than the list had room for.
    pub const INCOMPLETE: u8 = 1;
    /// All of the range was looked at.
    pub const COMPLETE: u8 = 2;
}

/// Parameters of a Get LBA Status command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLbaStatus {
    /// First block of the range (SLBA, CDW10 and CDW11).
    pub start: u64,
    /// Bytes that the host has room for (MNDW, CDW12, as dwords and 0's based).
    pub room_bytes: u64,
    /// Blocks of the range; 0 is all to the namespace's end (RL, CDW13 bits 15:00).
    pub blocks: u16,
}

impl GetLbaStatus {
    /// Reads the parameters.
    ///
    /// # Errors
    /// The status for another action than to list what is allocated, and for a list without room for its head.
    pub const fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        let last = entry.cdw13.get();
        let room_bytes = (entry.cdw12.get() as u64 + 1) * 4;
        if (last >> ACTION_SHIFT) as u8 != action::ALLOCATED || room_bytes < LIST_HEAD_BYTES as u64 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let start = entry.cdw10.get() as u64 | (entry.cdw11.get() as u64) << 32;
        Ok(Self { start, room_bytes, blocks: last as u16 })
    }

    /// Encodes the command. The data descriptor and the command identifier are left to the queue.
    pub fn encode(&self, nsid: u32) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(admin_opcode::GET_LBA_STATUS, nsid);
        entry.cdw10 = U32::new(self.start as u32);
        entry.cdw11 = U32::new((self.start >> 32) as u32);
        entry.cdw12 = U32::new((self.room_bytes / 4).saturating_sub(1) as u32);
        entry.cdw13 = U32::new(u32::from(action::ALLOCATED) << ACTION_SHIFT | u32::from(self.blocks));
        entry
    }
}

/// Head of the list.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LbaStatusList {
    /// Number of entries that follow (NLSD).
    pub count: U32,
    /// Completion condition: [`condition`] (CMPC).
    pub condition: u8,
    /// Reserved.
    pub reserved: [u8; 3],
}

/// Entry of the list: contiguous blocks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LbaStatusDescriptor {
    /// First block (DSLBA).
    pub start: U64,
    /// Number of blocks (NLB).
    pub blocks: U32,
    /// Reserved.
    pub reserved: [u8; 4],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        for command in [
            GetLbaStatus { start: 0, room_bytes: 8, blocks: 0 },
            GetLbaStatus { start: 0x1_2345_6789_abcd, room_bytes: 4096, blocks: u16::MAX },
            GetLbaStatus { start: u64::MAX, room_bytes: 1 << 34, blocks: 1 },
        ] {
            let entry = command.encode(3);
            assert_eq!((entry.opcode, entry.nsid.get()), (0x86, 3));
            assert_eq!(GetLbaStatus::decode(&entry), Ok(command));
        }
        let mut other = GetLbaStatus { start: 0, room_bytes: 8, blocks: 0 }.encode(1);
        other.cdw13 = U32::new(0x1000_0000);
        assert!(GetLbaStatus::decode(&other).is_err(), "potentially unrecoverable blocks");
        let short = GetLbaStatus { start: 0, room_bytes: 4, blocks: 0 }.encode(1);
        assert!(GetLbaStatus::decode(&short).is_err(), "no room for the head");
        assert_eq!((LIST_HEAD_BYTES, DESCRIPTOR_BYTES), (8, 16));
    }
}
