//! A question which blocks are allocated, on its way to the worker that asks the file system.

use std::sync::Arc;

use nvme::lba_status::GetLbaStatus;

use super::asker::Asker;
use super::shares::Share;
use crate::target::served::Namespace;

/// A Get LBA Status command.
#[derive(Debug)]
pub(crate) struct AllocationJob {
    pub(crate) asker: Asker,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) command: GetLbaStatus,
    /// Bytes of the list, with its head.
    pub(crate) length: usize,
    /// Place of its host among the worker's jobs.
    pub(crate) _share: Share,
}
