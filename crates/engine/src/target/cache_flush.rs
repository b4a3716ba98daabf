//! The last step of a controller's shutdown: all volatile caches that its host may have written to are flushed.
//! That nothing of the controller writes to them any more is a fence's to say, before it begins.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::controller::Controller;
use super::namespace_table::NamespaceTable;
use crate::backend::Backend;
use crate::ring::{Ring, StorageOp};

/// The token of a flush names this where others name a connection: no reactor has so many.
pub(super) const FLUSHES: u32 = u32::MAX;

/// The flushes that a reactor has under way.
#[derive(Debug, Default)]
pub(super) struct CacheFlushes {
    next: u32,
    under_way: HashMap<u32, CacheFlush>,
}

/// The flush for one controller.
#[derive(Debug)]
struct CacheFlush {
    controller: Arc<Controller>,
    /// It keeps the namespaces open.
    _table: Arc<NamespaceTable>,
    left: usize,
    has_failed: bool,
}

impl CacheFlushes {
    /// Flushes what the controller's host may have written, and then says that the controller is shut down.
    pub(super) fn begin(&mut self, controller: Arc<Controller>, ring: &mut Ring) {
        let table = controller.table();
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let mut left = 0;
        for attachment in table.attachments() {
            if let Backend::Device(device) = &*attachment.namespace.backend
                && device.has_volatile_cache()
            {
                device.start(ring, StorageOp::Sync, u64::from(FLUSHES) << 32 | u64::from(number));
                left += 1;
            }
        }
        if left == 0 {
            return controller.shut_down(true);
        }
        self.under_way
            .insert(number, CacheFlush { controller, _table: table.clone(), left, has_failed: false });
    }

    /// One of the flushes with this number has ended.
    pub(super) fn ended(&mut self, number: u32, result: io::Result<usize>) {
        let Some(flush) = self.under_way.get_mut(&number) else { return };
        flush.left -= 1;
        if let Err(error) = result {
            flush.has_failed = true;
            tracing::error!(
                controller = flush.controller.id,
                subsystem = flush.controller.subsystem.nqn,
                host = flush.controller.host.nqn,
                %error,
                "cannot flush a namespace for a controller's shutdown; acknowledged writes may be lost"
            );
        }
        if flush.left == 0 {
            flush.controller.shut_down(!flush.has_failed);
            self.under_way.remove(&number);
        }
    }
}
