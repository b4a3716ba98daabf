//! What commands work with: storage, buffers, what all reactors share, and the time.

use std::sync::Arc;

use crate::backend::Device;
use crate::ring::{BufferPool, Moment, Ring, StorageOp};
use crate::target::fabric::Fabric;
use crate::target::telemetry::Seen;

/// Does operations on devices. The end of each comes back with its token, later.
pub(crate) trait Storage {
    /// Starts an operation.
    fn start(&mut self, device: &Device, operation: StorageOp, token: u64);
}

impl Storage for Ring {
    fn start(&mut self, device: &Device, operation: StorageOp, token: u64) {
        device.start(self, operation, token);
    }
}

/// Resources that commands use during one turn of the queue.
pub(crate) struct Context<'a> {
    pub(crate) storage: &'a mut dyn Storage,
    pub(crate) pool: &'a mut BufferPool,
    pub(crate) fabric: &'a Arc<Fabric>,
    /// Peculiarities of the host's behaviour.
    pub(crate) seen: &'a mut Seen,
    pub(crate) now: Moment,
}

/// The data of a command's capsule.
#[derive(Clone, Copy)]
pub(crate) struct Capsule<'a> {
    /// Bytes of it.
    pub(crate) length: usize,
    /// All of it, if it has come.
    pub(crate) whole: Option<&'a [u8]>,
}
