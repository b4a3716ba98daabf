//! A namespace that is offered: its paths, and what clients learn about it.

use std::sync::Arc;

use engine::initiator::Paths;
use nbd::Export;
use nbd::limits::{BLOCK_BYTES_MAX, STRING_BYTES_MAX};
use nvme::identify::bits::optional_nvm_commands::{DATASET_MANAGEMENT, WRITE_ZEROES};
use thiserror::Error;

/// Preferred size of requests: pages, whatever the block size.
const PREFERRED_BYTES: u32 = 4096;

/// A namespace, and the name by which clients ask for it.
#[derive(Clone, Debug)]
pub struct Disk {
    /// By which clients ask for it; no name is the first disk's.
    pub name: String,
    /// For people.
    pub description: String,
    /// The way to it.
    pub paths: Arc<Paths>,
    /// Set to refuse writes, whatever the namespace permits.
    pub is_read_only: bool,
}

/// Why a namespace cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiskError {
    /// The namespace's block format is not possible for a disk.
    #[error(
        "namespace {nsid} has blocks of {block_bytes} bytes and {metadata_bytes} of metadata; a disk can have those without \
             metadata and of at most {BLOCK_BYTES_MAX} bytes"
    )]
    Blocks {
        /// Namespace identifier (NSID).
        nsid: u32,
        /// Bytes of a block.
        block_bytes: u32,
        /// Bytes of its metadata.
        metadata_bytes: u16,
    },
    /// The name or description is too long for the protocol.
    #[error("a name or description has more than {STRING_BYTES_MAX} bytes")]
    Name,
}

impl Disk {
    /// Export that new clients get.
    ///
    /// # Errors
    /// When it cannot be a disk.
    pub fn export(&self) -> Result<Export, DiskError> {
        let info = self.paths.namespace();
        let (nsid, block_bytes, metadata_bytes) = (info.nsid, info.block_size, info.metadata_bytes);
        if metadata_bytes > 0 || block_bytes > BLOCK_BYTES_MAX || !block_bytes.is_power_of_two() {
            return Err(DiskError::Blocks { nsid, block_bytes, metadata_bytes });
        }
        if self.name.len() > STRING_BYTES_MAX || self.description.len() > STRING_BYTES_MAX {
            return Err(DiskError::Name);
        }
        // While there is no path, those of the last ones; a command that the next one does not have is refused then.
        let commands = self.paths.optional_nvm_commands();
        Ok(Export {
            name: self.name.clone(),
            description: self.description.clone(),
            size: self.paths.size_bytes(),
            block_bytes,
            preferred_block_bytes: block_bytes.max(PREFERRED_BYTES),
            is_read_only: self.is_read_only || info.is_write_protected,
            can_trim: commands & DATASET_MANAGEMENT != 0,
            can_write_zeroes: commands & WRITE_ZEROES != 0,
        })
    }
}
