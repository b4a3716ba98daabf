//! Fused operations: two commands that are done as one. Only Compare and Write is known here.
//! That the two follow one another, and name the same blocks, is checked by whoever has the queue.

use super::{INVALID_FIELD, IoCommand};
use crate::{Status, SubmissionEntry};

/// Where a command stands in a fused operation (FUSE, Base 3.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fused {
    /// It is a command of its own (00b).
    #[default]
    No = 0,
    /// It is the first of two commands (01b).
    First = 1,
    /// It is the second of two commands (10b).
    Second = 2,
}

impl IoCommand {
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
}
