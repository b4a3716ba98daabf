//! The completion queue entry: how a controller answers a command.
//! It does not know what the result field means for each command.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Status;

/// A completion queue entry, 16 bytes (CQE, Base 4.2). On NVMe/TCP there is no phase tag, and submission queue
/// identifier is reserved.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CompletionEntry {
    /// Command specific result, low half (DW0).
    pub result: U32,
    /// Command specific result, high half (DW1).
    pub result_high: U32,
    /// Entry up to which the controller has consumed the submission queue (SQHD).
    pub submission_queue_head: U16,
    /// Reserved over fabrics (SQID).
    pub submission_queue_id: U16,
    /// The command this answers (CID).
    pub command_id: U16,
    /// Status field and phase tag (SF and P).
    pub status: U16,
}

const _: () = assert!(size_of::<CompletionEntry>() == 16);

impl CompletionEntry {
    /// The answer to command `command_id`, with `status` and the 64-bit `result`.
    pub const fn new(command_id: u16, status: Status, result: u64, submission_queue_head: u16) -> Self {
        Self {
            result: U32::new(result as u32),
            result_high: U32::new((result >> 32) as u32),
            submission_queue_head: U16::new(submission_queue_head),
            submission_queue_id: U16::ZERO,
            command_id: U16::new(command_id),
            status: U16::new(status.bits() << 1),
        }
    }

    /// The status, without the phase tag.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.status.get() >> 1)
    }

    /// The command specific result as one number.
    pub const fn result(&self) -> u64 {
        self.result.get() as u64 | (self.result_high.get() as u64) << 32
    }
}
