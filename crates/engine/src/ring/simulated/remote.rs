//! Storage that a library reaches: an operation goes out with its buffer, and comes back to the
//! ring it came from. The library belongs to the implementation of `RemoteStorage`.

use std::fmt;
use std::io;

use super::scheduler::{self, World};
use crate::ring::StorageOp;

/// Storage that does operations beside the ring.
pub trait RemoteStorage: Send + Sync + fmt::Debug {
    /// Starts an operation. It never waits; its end is a call of [`RemoteOperation::end`].
    fn start(&self, operation: RemoteOperation);
}

/// An operation that is away, with the buffer lent to it.
#[derive(Debug)]
pub struct RemoteOperation {
    pub(super) ring: usize,
    pub(super) token: u64,
    pub(super) operation: StorageOp,
}

impl RemoteOperation {
    /// The operation.
    pub const fn operation(&mut self) -> &mut StorageOp {
        &mut self.operation
    }

    /// Sends it back with its outcome: bytes moved, or what went wrong.
    pub fn end(self, result: io::Result<usize>) {
        scheduler::with_if(|world| self.end_in(world, result));
    }

    /// Ends it like [`Self::end`], for a caller that has the world.
    pub(super) fn end_in(self, world: &mut World, result: io::Result<usize>) {
        let buffer = match self.operation {
            StorageOp::Read { buffer, .. } | StorageOp::Write { buffer, .. } => Some(buffer),
            StorageOp::Sync | StorageOp::Allocate { .. } => None,
        };
        world.stored_on(self.ring, self.token, result, buffer);
    }
}
