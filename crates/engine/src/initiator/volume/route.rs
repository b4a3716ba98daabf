//! Route to a namespace of a volume, and the limits of requests on it: their length, and their
//! alignment.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::initiator::path::Paths;
use crate::initiator::{Controller, InitiatorError, NamespaceInfo};
use crate::limits::BUFFER_LENGTH_MIN;

/// Blocks of one command (NLB is 0's based and 16 bits wide).
const BLOCKS_MAX: u64 = 1 << 16;

#[derive(Debug)]
pub(super) enum Route {
    Paths(Arc<Paths>),
    Controller(Controller, Box<NamespaceInfo>),
}

/// A namespace, and the route to it.
#[derive(Debug)]
pub(super) struct Reachable {
    pub(super) route: Route,
    pub(super) address: SocketAddr,
    pub(super) nsid: u32,
    pub(super) block_size: u32,
}

impl Reachable {
    /// A namespace that all these controllers have.
    ///
    /// # Errors
    /// When this host can do nothing with its blocks.
    pub(super) fn new(
        route: Route,
        address: SocketAddr,
        info: &NamespaceInfo,
        controllers: &[Controller],
    ) -> Result<Self, InitiatorError> {
        let (nsid, block_size) = (info.nsid, info.block_size);
        let transfer_max = controllers.iter().map(Controller::transfer_length_max).min();
        let transfer_max = transfer_max.unwrap_or(BUFFER_LENGTH_MIN) as u64;
        if info.metadata_bytes > 0 || u64::from(block_size) > transfer_max {
            return Err(InitiatorError::ApiMisuse(format!(
                "namespace {nsid} has blocks of {block_size} bytes and {} of metadata; only those without metadata and of at \
                 most {transfer_max} bytes can be used",
                info.metadata_bytes
            )));
        }
        Ok(Self { route, address, nsid, block_size })
    }

    pub(super) fn info(&self) -> NamespaceInfo {
        match &self.route {
            Route::Paths(paths) => paths.namespace(),
            Route::Controller(_, info) => (**info).clone(),
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        match &self.route {
            Route::Paths(paths) => paths.size_bytes(),
            Route::Controller(_, info) => info.size_bytes(),
        }
    }

    /// Checks that a request is of whole blocks, and lies in the namespace.
    pub(super) fn check(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        let (block, size) = (u64::from(self.block_size), self.size_bytes());
        if !offset_bytes.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Err(InitiatorError::ApiMisuse(format!(
                "offset {offset_bytes} and length {length} have to be multiples of the block size, {block}"
            )));
        }
        match offset_bytes.checked_add(length) {
            Some(end) if end <= size => Ok(()),
            _ => Err(InitiatorError::ApiMisuse(format!(
                "{length} bytes at {offset_bytes} go past the namespace's end at {size}"
            ))),
        }
    }

    /// The most bytes of one command with data: what every path takes that is there by now.
    pub(super) fn transfer_length_max(&self) -> u64 {
        let transfer_max = match &self.route {
            Route::Paths(paths) => paths.transfer_length_max(),
            Route::Controller(controller, _) => controller.transfer_length_max(),
        };
        self.whole_blocks(transfer_max as u64)
    }

    /// The most bytes of one Write Zeroes.
    pub(super) fn zeroes_length_max(&self) -> u64 {
        self.whole_blocks(match &self.route {
            Route::Paths(paths) => paths.write_zeroes_length_max(),
            Route::Controller(controller, _) => controller.write_zeroes_length_max().unwrap_or(u64::MAX),
        })
    }

    /// The most bytes of one range that is deallocated.
    pub(super) fn range_length_max(&self) -> u64 {
        let limits = match &self.route {
            Route::Paths(paths) => paths.deallocate_limits(),
            Route::Controller(controller, _) => controller.deallocate_limits(),
        };
        u64::from(limits.range_blocks) * u64::from(self.block_size)
    }

    /// The most bytes of one command up to `length`, in whole blocks.
    pub(super) fn whole_blocks(&self, length: u64) -> u64 {
        let block = u64::from(self.block_size);
        let length = length.min(BLOCKS_MAX * block);
        (length - length % block).max(block)
    }
}
