//! The source ranges of a Copy command, in the two descriptor formats that copy within one
//! namespace. The caller checks that they lie in the namespace, and within its limits.

use alloc::vec::Vec;
use core::mem::offset_of;
use core::slice::ChunksExact;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::zero_based;
use crate::Status;
use crate::wire_value::from_wire;

/// The most source ranges one Copy command carries (NR is 0's based and 8 bits wide).
pub const COPY_RANGES_MAX: usize = 256;

/// Format of the source ranges of a Copy command (CDFT, NVM 3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CopyFormat {
    /// 32 bytes each, with room for the tags of a 16-bit guard (0h).
    #[default]
    Format0 = 0,
    /// 40 bytes each, with room for the tags of a 32-bit or 64-bit guard (1h).
    Format1 = 1,
}

from_wire! { CopyFormat: Format0 Format1 }

impl CopyFormat {
    /// Bytes of one source range.
    pub const fn range_bytes(self) -> usize {
        match self {
            Self::Format0 => size_of::<CopyRange>(),
            Self::Format1 => size_of::<CopyRangeFormat1>(),
        }
    }
}

/// Source range of a Copy command in descriptor format 0h, 32 bytes (NVM 3.2.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CopyRange {
    /// Reserved.
    pub reserved_0: [u8; 8],
    /// First block (SLBA).
    pub start: U64,
    /// Number of blocks, 0's based (NLB).
    pub blocks_0s_based: U16,
    /// Reserved.
    pub reserved_18: [u8; 6],
    /// Expected reference and storage tag (ELBT).
    pub expected_tag: U32,
    /// Expected application tag (ELBAT).
    pub expected_application_tag: U16,
    /// Mask of the application tag (ELBATM).
    pub application_tag_mask: U16,
}

const _: () = assert!(size_of::<CopyRange>() == 32);
const _: () = assert!(offset_of!(CopyRange, blocks_0s_based) == 16);
const _: () = assert!(offset_of!(CopyRange, expected_tag) == 24);

/// Source range of a Copy command in descriptor format 1h, 40 bytes (NVM 3.2.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CopyRangeFormat1 {
    /// Reserved.
    pub reserved_0: [u8; 8],
    /// First block (SLBA).
    pub start: U64,
    /// Number of blocks, 0's based (NLB).
    pub blocks_0s_based: U16,
    /// Reserved.
    pub reserved_18: [u8; 8],
    /// Expected reference and storage tag (ELBT).
    pub expected_tag: [u8; 10],
    /// Expected application tag (ELBAT).
    pub expected_application_tag: U16,
    /// Mask of the application tag (ELBATM).
    pub application_tag_mask: U16,
}

const _: () = assert!(size_of::<CopyRangeFormat1>() == 40);
const _: () = assert!(offset_of!(CopyRangeFormat1, blocks_0s_based) == 16);
const _: () = assert!(offset_of!(CopyRangeFormat1, expected_tag) == 26);

/// The source ranges of a Copy command as `(start, blocks)`, with the number of blocks 1's based.
#[derive(Clone, Debug)]
pub struct CopyRanges<'a> {
    format: CopyFormat,
    chunks: ChunksExact<'a, u8>,
}

impl Iterator for CopyRanges<'_> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        let chunk = self.chunks.next()?;
        let (start, blocks_0s_based) = match self.format {
            CopyFormat::Format0 => {
                let range = CopyRange::ref_from_bytes(chunk).ok()?;
                (range.start, range.blocks_0s_based)
            }
            CopyFormat::Format1 => {
                let range = CopyRangeFormat1::ref_from_bytes(chunk).ok()?;
                (range.start, range.blocks_0s_based)
            }
        };
        Some((start.get(), u32::from(blocks_0s_based.get()) + 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl ExactSizeIterator for CopyRanges<'_> {}

/// The first `ranges` source ranges in `data`; bytes behind them are ignored. The expected tags are not
/// read, because no namespace here has protection information.
///
/// # Errors
/// The status to return when the data is too short for `ranges` ranges.
pub fn copy_ranges(format: CopyFormat, ranges: u16, data: &[u8]) -> Result<CopyRanges<'_>, Status> {
    let range_bytes = format.range_bytes();
    let data = data
        .get(..usize::from(ranges) * range_bytes)
        .ok_or(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
    Ok(CopyRanges { format, chunks: data.chunks_exact(range_bytes) })
}

/// Encodes `(start, blocks)` pairs as the data of a Copy command.
///
/// # Panics
/// When a block count is 0 or over 65,536.
pub fn encode_copy_ranges(format: CopyFormat, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ranges.len() * format.range_bytes());
    for &(start, blocks) in ranges {
        let start = U64::new(start);
        let blocks_0s_based = U16::new(zero_based(blocks) as u16);
        match format {
            CopyFormat::Format0 => {
                let range = CopyRange { start, blocks_0s_based, ..CopyRange::default() };
                bytes.extend_from_slice(range.as_bytes());
            }
            CopyFormat::Format1 => {
                let range = CopyRangeFormat1 { start, blocks_0s_based, ..CopyRangeFormat1::default() };
                bytes.extend_from_slice(range.as_bytes());
            }
        }
    }
    bytes
}
