//! A namespace for threads: each method waits until it is done. What it does is `AsyncVolume`'s.

use std::future::Future;
use std::net::SocketAddr;

use super::replies::block_on;
use super::{AsyncVolume, LocalVolume, NamespaceName, VolumeOptions, VolumeTask};
use crate::initiator::{Controller, InitiatorError, NamespaceInfo, PathStatus};

/// A namespace over all its paths: reads and writes at any block-aligned offset and of any length, from any thread. A command
/// whose path is lost goes another way as soon as this can do no harm; a lost path is connected again. Clones are the same
/// volume; when the last is gone, its connections are closed in order.
#[derive(Clone, Debug)]
pub struct Volume(AsyncVolume);

impl Volume {
    /// Opens a namespace of subsystem `nqn` over all `addresses`, by its number or its UUID. Addresses that cannot be
    /// connected to are tried again later, as long as one can.
    ///
    /// # Errors
    /// When none can be connected to, when they do not lead to the same namespace, or when there is no such namespace.
    pub fn open(
        addresses: &[SocketAddr],
        nqn: &str,
        namespace: impl Into<NamespaceName>,
    ) -> Result<Self, InitiatorError> {
        AsyncVolume::open(addresses, nqn, namespace).map(Self)
    }

    /// The same over all addresses at which a discovery service says that the subsystem is served.
    ///
    /// # Errors
    /// As `open`, and when the discovery service cannot be asked or knows no such subsystem.
    pub fn discover(
        service: SocketAddr,
        nqn: &str,
        namespace: impl Into<NamespaceName>,
    ) -> Result<Self, InitiatorError> {
        AsyncVolume::discover(service, nqn, namespace).map(Self)
    }

    /// Opens a namespace in every particular as asked.
    ///
    /// # Errors
    /// As `open`; and when its blocks cannot be used by this host.
    pub fn connect(options: impl Into<VolumeOptions>) -> Result<Self, InitiatorError> {
        AsyncVolume::connect(options).map(Self)
    }

    /// Opens namespace `nsid` of a controller that the caller has connected, on all its I/O queues. Nothing goes another way,
    /// nothing is connected again, and every status is handed on. No more threads are started than there are queues, and
    /// than this process has processors.
    ///
    /// # Errors
    /// When there is no such namespace, its blocks cannot be used by this host, or the queues cannot be opened.
    pub fn on_controller(controller: &Controller, nsid: u32) -> Result<Self, InitiatorError> {
        AsyncVolume::on_controller(controller, nsid).map(Self)
    }

    /// The same volume, to be awaited.
    pub fn to_async(&self) -> AsyncVolume {
        self.0.clone()
    }

    /// Begins a task on one of the volume's own threads, where I/O costs least: what it awaits of its [`LocalVolume`] wakes
    /// no other thread, and nothing is copied.
    pub fn spawn<T, F>(&self, make: impl FnOnce(LocalVolume) -> F + Send + 'static) -> VolumeTask<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.0.spawn(make)
    }

    /// States of its paths, in the order of the options; none where it stands on one controller.
    pub fn status(&self) -> Vec<PathStatus> {
        self.0.status()
    }

    /// The controllers that it can be reached through now.
    pub fn controllers(&self) -> Vec<Controller> {
        self.0.controllers()
    }

    /// Description of the namespace, as one of its controllers reported it last; on one controller,
    /// as it was when opened.
    pub fn info(&self) -> NamespaceInfo {
        self.0.info()
    }

    /// Bytes of a logical block: offsets and lengths are multiples of it.
    pub fn block_size(&self) -> u32 {
        self.0.block_size()
    }

    /// Size in bytes, which follows the namespace's.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Fills `data` from `offset_bytes` on.
    ///
    /// # Errors
    /// `ApiMisuse` when offset or length are not whole blocks or lie outside; `CommandFailed` with the controller's status;
    /// else why no path is left. `data` is then filled in part.
    pub fn read_at(&self, offset_bytes: u64, data: &mut [u8]) -> Result<(), InitiatorError> {
        block_on(self.0.read_at(offset_bytes, data))
    }

    /// Writes `data` from `offset_bytes` on. It is durable after a `flush`.
    ///
    /// # Errors
    /// As `read_at`; what was written of it is then unknown.
    pub fn write_at(&self, offset_bytes: u64, data: &[u8]) -> Result<(), InitiatorError> {
        block_on(self.0.write_at(offset_bytes, data))
    }

    /// Writes `data` from `offset_bytes` on, and returns when it is durable (FUA).
    ///
    /// # Errors
    /// As `write_at`.
    pub fn write_durable_at(&self, offset_bytes: u64, data: &[u8]) -> Result<(), InitiatorError> {
        block_on(self.0.write_durable_at(offset_bytes, data))
    }

    /// Compares `data` with the blocks from `offset_bytes` on, at the controller; true if they are
    /// equal.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Compare.
    pub fn compare(&self, offset_bytes: u64, data: &[u8]) -> Result<bool, InitiatorError> {
        block_on(self.0.compare(offset_bytes, data))
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// As `read_at`.
    pub fn flush(&self) -> Result<(), InitiatorError> {
        block_on(self.0.flush())
    }

    /// Writes zeroes, without sending them. With `deallocate` the controller may free the blocks.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Write Zeroes.
    pub fn write_zeroes(
        &self,
        offset_bytes: u64,
        length: u64,
        deallocate: bool,
    ) -> Result<(), InitiatorError> {
        block_on(self.0.write_zeroes(offset_bytes, length, deallocate))
    }

    /// Deallocates blocks that are not needed. `NamespaceInfo::deallocate_features` says what they
    /// read as afterwards; it is a hint, and may do nothing.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Dataset Management.
    pub fn deallocate(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        block_on(self.0.deallocate(offset_bytes, length))
    }
}
