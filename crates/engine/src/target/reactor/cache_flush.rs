//! The last step of a controller's shutdown: all volatile caches that its host may have written to are flushed.
//! That nothing of the controller still writes to them is a fence's to say, before it begins.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::backend::{Backend, Sync};
use crate::ring::{Ring, StorageOp};
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::io::{SyncVerdict, end_on};
use crate::target::served::Namespace;

/// The token of a flush names this where others name a connection: no reactor has that many.
pub(super) const FLUSHES: u32 = u32::MAX;

/// The flushes that a reactor has under way.
#[derive(Debug, Default)]
pub(crate) struct CacheFlushes {
    next: u32,
    flushes: HashMap<u32, CacheFlush>,
    /// By their tokens.
    syncs: HashMap<u32, CacheSync>,
    /// Successful syncs that wait for earlier syncs, which may have received their errors; with the
    /// number below which all have to end.
    awaiting: Vec<(CacheSync, u64)>,
}

/// The flush for one controller.
#[derive(Debug)]
struct CacheFlush {
    controller: Arc<Controller>,
    left: usize,
    has_failed: bool,
}

/// Sync of one namespace, which is kept open, for a flush.
#[derive(Debug)]
struct CacheSync {
    flush: u32,
    namespace: Arc<Namespace>,
    sync: Option<Sync>,
}

impl CacheFlushes {
    /// True if no flush is under way.
    pub(crate) fn are_none(&self) -> bool {
        self.flushes.is_empty() && self.syncs.is_empty() && self.awaiting.is_empty()
    }

    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Flushes what the controller's host may have written, and then says that the controller is shut down.
    pub(crate) fn begin(&mut self, controller: Arc<Controller>, ring: &mut Ring) {
        let table = controller.table();
        let flush = self.number();
        let (mut left, mut has_failed) = (0, false);
        for attachment in table.attachments() {
            let namespace = &attachment.namespace;
            let Backend::Device(device) = &*namespace.backend else { continue };
            if namespace.has_failed() {
                // A sync would go well, though what was written is lost.
                has_failed = true;
            } else if device.has_volatile_cache() {
                let sync = device.begin_sync(&StorageOp::Sync);
                let token = self.number();
                device.start(ring, StorageOp::Sync, u64::from(FLUSHES) << 32 | u64::from(token));
                self.syncs.insert(token, CacheSync { flush, namespace: namespace.clone(), sync });
                left += 1;
            }
        }
        if left == 0 {
            return controller.shut_down(!has_failed);
        }
        self.flushes.insert(flush, CacheFlush { controller, left, has_failed });
    }

    /// The sync with this token has ended.
    pub(crate) fn ended(&mut self, token: u32, result: &io::Result<usize>, fabric: &Fabric) {
        let Some(ended) = self.syncs.remove(&token) else { return };
        let verdict = match ended.sync {
            Some(sync) => end_on(&ended.namespace, sync, result, fabric),
            None => SyncVerdict::Counts,
        };
        if let Err(error) = result {
            let controller = self.flushes.get(&ended.flush).map(|flush| &flush.controller);
            tracing::error!(
                controller = controller.map(|controller| controller.id),
                subsystem = controller.map(|controller| &*controller.subsystem.nqn),
                host = controller.map(|controller| &*controller.host.nqn),
                %error,
                "cannot flush a namespace for a controller's shutdown; acknowledged writes may be lost"
            );
        }
        match verdict {
            SyncVerdict::Awaits(before) if result.is_ok() => self.awaiting.push((ended, before)),
            SyncVerdict::Failed => self.done(&ended, false),
            _ => self.done(&ended, result.is_ok()),
        }
    }

    /// Syncs of others have ended, for which some waited.
    pub(crate) fn resume(&mut self) {
        for (waiting, before) in std::mem::take(&mut self.awaiting) {
            if waiting.namespace.has_failed() {
                self.done(&waiting, false);
            } else if waiting.namespace.is_settled(before) {
                self.done(&waiting, true);
            } else {
                self.awaiting.push((waiting, before));
            }
        }
    }

    fn done(&mut self, sync: &CacheSync, went_well: bool) {
        let Some(flush) = self.flushes.get_mut(&sync.flush) else { return };
        flush.left -= 1;
        flush.has_failed |= !went_well;
        if flush.left == 0 {
            flush.controller.shut_down(!flush.has_failed);
            self.flushes.remove(&sync.flush);
        }
    }
}
