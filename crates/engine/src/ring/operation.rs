//! Operations of a ring on files and block devices. It knows byte offsets only; blocks, namespaces
//! and the use of a file belong to `backend`.

use super::Buffer;

/// An operation, with the buffer lent to it.
#[derive(Debug)]
pub enum StorageOp {
    /// Fills the buffer from `offset`. The result is short only at the end of the file.
    Read {
        /// Buffer for the bytes.
        buffer: Buffer,
        /// First byte within the file.
        offset: u64,
    },
    /// Writes the whole buffer at `offset`.
    Write {
        /// The bytes.
        buffer: Buffer,
        /// First byte within the file.
        offset: u64,
        /// Set if the bytes must be durable when the operation ends.
        durable: bool,
    },
    /// Makes all ended writes durable.
    Sync,
    /// Changes the allocation of a range, with the mode bits of fallocate(2).
    Allocate {
        /// Mode bits.
        mode: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

impl StorageOp {
    /// The buffer that was lent to it.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => Some(buffer),
            Self::Sync | Self::Allocate { .. } => None,
        }
    }
}
