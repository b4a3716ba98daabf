//! Storage that a ring works on: a file, a block device, or an image of a Ceph cluster. What they have in common is here;
//! what each of them is, in its own file.

use super::{BackendError, BackendIdentity, Durability, File, Rbd, Sync, SyncKind, ZeroMethod};
use crate::ring::{Hold, Ring, StorageOp};
use crate::time_bound::TimeBound;

/// Open storage that a ring works on.
#[derive(Debug)]
pub enum Device {
    /// A file or block device.
    File(File),
    /// An image of a Ceph cluster.
    Rbd(Rbd),
}

impl Device {
    /// Starts an operation on it. Its end is an `Event::Stored` with `token`, exactly once.
    pub fn start(&self, ring: &mut Ring, operation: StorageOp, token: u64) {
        match self {
            Self::File(file) => ring.store(file.storage(), operation, token),
            Self::Rbd(rbd) => ring.store_remote(&**rbd.image(), operation, token),
        }
    }

    /// Duplicates the descriptor that holds the lock on a file or device, for the new process of an
    /// upgrade.
    pub(crate) fn held(&self) -> Option<std::io::Result<Hold>> {
        match self {
            Self::File(file) => Some(file.held()),
            Self::Rbd(_) => None,
        }
    }

    /// Results of its syncs; `None` if completed writes are durable by themselves.
    pub const fn durability(&self) -> Option<&Durability> {
        match self {
            Self::File(file) => Some(file.durability()),
            Self::Rbd(_) => None,
        }
    }

    /// An operation begins: how it makes something durable, if it does.
    pub fn begin_sync(&self, operation: &StorageOp) -> Option<Sync> {
        match (self, operation) {
            (Self::File(file), StorageOp::Sync) => {
                Some(Sync { kind: SyncKind::Sync, number: file.durability().begin() })
            }
            (Self::File(file), StorageOp::Write { durable: true, .. }) => {
                // Past the page cache, a write has its own errors and no other's.
                let number = if file.is_cached() { file.durability().begin() } else { 0 };
                Some(Sync { kind: SyncKind::DurableWrite, number })
            }
            _ => None,
        }
    }

    /// Bytes of a block that is written whole or not at all when the power is lost; 0 where nothing is promised.
    pub fn whole_bytes(&self) -> u64 {
        match self {
            Self::File(file) => file.whole_bytes(),
            // A write within one of its objects is one transaction of its OSD, and a block lies in one.
            Self::Rbd(_) => u64::MAX,
        }
    }

    /// For how long a command may be there. What is true of an image, its connections know.
    pub fn time_bound(&self) -> TimeBound {
        match self {
            Self::File(file) => file.time_bound().clone(),
            Self::Rbd(_) => TimeBound::Unknown,
        }
    }

    /// Path of a file or device, or name of an image, for the operator.
    pub fn place(&self) -> String {
        match self {
            Self::File(file) => file.path().display().to_string(),
            Self::Rbd(rbd) => rbd.image().name().to_owned(),
        }
    }

    /// An operation took too long.
    pub fn note_late(&self) {
        match self {
            Self::File(_) => {}
            Self::Rbd(rbd) => rbd.note_late(),
        }
    }

    /// An operation was refused, since the connection to the cluster is shut out.
    pub fn note_refused(&self) {
        match self {
            Self::File(_) => {}
            Self::Rbd(rbd) => rbd.note_refused(),
        }
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        match self {
            Self::File(file) => file.length(),
            Self::Rbd(rbd) => rbd.length(),
        }
    }

    /// Identity, independent of the path under which it is found.
    pub(super) fn identity(&self) -> BackendIdentity {
        match self {
            Self::File(file) => file.identity(),
            Self::Rbd(rbd) => rbd.identity(),
        }
    }

    /// Cuts off what is behind the end of a regular file whose size is named.
    pub(crate) fn trim(&self) -> Result<(), BackendError> {
        match self {
            Self::File(file) => file.trim(),
            Self::Rbd(_) => Ok(()),
        }
    }

    pub(super) fn resize(&self, size: u64) -> Result<(), BackendError> {
        match self {
            Self::File(file) => file.resize(size),
            Self::Rbd(_) => {
                let reason =
                    "an image is resized by its own means, and then has its new size here".to_owned();
                Err(BackendError::Size { what: "an image", wanted: size, reason })
            }
        }
    }

    pub(super) fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        match self {
            Self::File(file) => file.rescan(block_size),
            Self::Rbd(rbd) => rbd.rescan(block_size),
        }
    }

    /// Holds each write that begins from now on back, where that is possible.
    pub fn set_write_delay_ms(&self, write_delay_ms: u32) {
        match self {
            Self::File(file) => file.storage().set_write_delay_ms(write_delay_ms),
            Self::Rbd(_) => {}
        }
    }

    /// True if completed writes may be volatile until a flush.
    pub const fn has_volatile_cache(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// True if a deallocated range is certain to read as zeroes.
    pub const fn deallocated_reads_zero(&self) -> bool {
        match self {
            Self::File(file) => file.deallocated_reads_zero(),
            Self::Rbd(_) => false,
        }
    }

    /// Bytes of the smallest piece that deallocating gives back, where the storage tells.
    pub const fn deallocate_granularity(&self) -> Option<u64> {
        match self {
            Self::File(_) => None,
            Self::Rbd(rbd) => Some(rbd.deallocate_granularity()),
        }
    }

    /// True if writes are refused.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::File(file) => file.is_read_only(),
            Self::Rbd(rbd) => rbd.is_read_only(),
        }
    }

    /// Remarks for the operator, a clause each.
    pub(super) fn remarks(&self) -> &[String] {
        match self {
            Self::File(file) => file.remarks(),
            Self::Rbd(_) => &[],
        }
    }

    /// Kind in one word, as in a namespace's specification.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File(file) => file.kind(),
            Self::Rbd(_) => "rbd",
        }
    }

    /// True if ranges can be deallocated; if not, hosts' hints are taken, and nothing is done.
    pub const fn deallocates(&self) -> bool {
        match self {
            Self::File(file) => file.deallocates(),
            Self::Rbd(_) => true,
        }
    }

    /// The mode of fallocate that deallocates a range.
    pub const fn deallocate_mode(&self) -> u32 {
        match self {
            Self::File(file) => file.deallocate_mode(),
            Self::Rbd(rbd) => rbd.deallocate_mode(),
        }
    }

    /// Method that makes a range zeroes; with `deallocate`, the host prefers deallocation.
    pub fn zero_method(&self, deallocate: bool) -> ZeroMethod {
        match self {
            Self::File(file) => file.zero_method(deallocate),
            Self::Rbd(rbd) => rbd.zero_method(),
        }
    }

    /// Records that the storage refused `method`; the next best is used from now on.
    pub fn refuse(&self, method: ZeroMethod) {
        match self {
            Self::File(file) => file.refuse(method),
            Self::Rbd(rbd) => rbd.refuse_zeroes(),
        }
    }
}
