//! What an I/O command comes to on its namespace: ranges of bytes, checked, and what is left to do of them.

use nvme::io::{CopyFormat, IoCommand};

use crate::backend::ZeroMethod;
use crate::target::served::ByteRange;
use crate::target::telemetry::Operation;

/// What a command comes to on its namespace, or what is left of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Data for the host.
    Read { range: ByteRange },
    /// The host's data, to be kept.
    Write { range: ByteRange, durable: bool },
    /// The host's data, to be compared.
    Compare { range: ByteRange },
    /// Blocks to be read for nothing but the errors that shows, in what is left of `range`.
    Verify { range: ByteRange },
    /// Make everything durable.
    Flush,
    /// Blocks that cannot be read from now on.
    MarkUncorrectable { range: ByteRange },
    /// Ranges to be copied, from `done` bytes of number `next` on, to the byte `to` and what follows.
    Copy { next: u16, ranges: u16, format: CopyFormat, durable: bool, done: u64, to: u64 },
    /// A reservation command, which is the reservation worker's to do.
    Reservation { command: IoCommand },
    /// Zeroes in what is left of `range`.
    Zero { range: ByteRange, method: ZeroMethod, deallocate: bool, durable: bool },
    /// Ranges the host no longer needs, from number `next` on.
    Deallocate { next: u16, ranges: u16 },
}

impl Work {
    /// Whether it stands in the command's data which blocks it reaches.
    pub(crate) const fn is_told_by_data(&self) -> bool {
        matches!(self, Self::Deallocate { .. } | Self::Copy { .. })
    }

    /// What it counts as.
    pub(crate) const fn operation(&self) -> Operation {
        match self {
            Self::Read { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::Compare { .. } => Operation::Compare,
            Self::Zero { .. } => Operation::WriteZeroes,
            Self::Deallocate { .. } => Operation::DatasetManagement,
            Self::Flush => Operation::Flush,
            Self::Verify { .. } => Operation::Verify,
            Self::Copy { .. } => Operation::Copy,
            Self::MarkUncorrectable { .. } => Operation::WriteUncorrectable,
            Self::Reservation { .. } => Operation::Reservation,
        }
    }

    /// Its command in a word.
    pub(crate) const fn name(&self) -> &'static str {
        self.operation().name()
    }

    /// Whether it changes blocks, or promises that they stay.
    pub(crate) const fn is_refused_after_failure(&self) -> bool {
        match self {
            Self::Write { .. }
            | Self::Flush
            | Self::MarkUncorrectable { .. }
            | Self::Copy { .. }
            | Self::Zero { .. }
            | Self::Deallocate { .. } => true,
            Self::Read { .. } | Self::Compare { .. } | Self::Verify { .. } | Self::Reservation { .. } => {
                false
            }
        }
    }

    /// Whether it changes blocks in `range`, as far as can be told.
    pub(crate) const fn may_write(&self, range: &ByteRange) -> bool {
        match self {
            Self::Write { range: own, .. }
            | Self::Zero { range: own, .. }
            | Self::MarkUncorrectable { range: own } => own.overlaps(range),
            // Which blocks these reach stands in data that nobody looks through for this.
            Self::Deallocate { .. } | Self::Copy { .. } => true,
            _ => false,
        }
    }
}
