//! Reopening the file or device of a namespace after a failed sync: an operator asserts by it that
//! the storage is in order again. Hosts keep the namespace, its reservations and its marks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::preparation::Reopened;
use crate::limits::REOPEN_PATIENCE_MS;
use crate::ring::{self, thread};
use crate::target::TargetError;
use crate::target::fabric::Fabric;
use crate::target::messaging::{Fenced, Then};
use crate::target::served::Namespace;

impl Fabric {
    /// Reopens the storage of a failed namespace. The namespace continues with it when the request
    /// takes effect.
    pub(super) fn reopen(&self, nqn: &str, nsid: u32) -> Result<Reopened, TargetError> {
        let refused =
            |reason: &str| Err(TargetError::Reopen { nqn: nqn.to_owned(), nsid, reason: reason.to_owned() });
        let namespace = self.find(nqn).and_then(|subsystem| subsystem.state().namespaces.get(&nsid).cloned());
        let Some(namespace) = namespace else { return refused("it is not there") };
        if !namespace.has_failed() {
            return refused("it has not failed");
        }
        // What an old write does must not come after a new one, nor an old sync have the error of what is written from now on.
        if !self.waits_for_changes(&namespace) {
            return refused(
                "commands from before the failure are still under way at its storage; try again later",
            );
        }
        let backend = namespace.backend.reopen(1 << namespace.block_shift());
        let backend =
            backend.map_err(|source| TargetError::Namespace { nqn: nqn.to_owned(), nsid, source })?;
        Ok(Reopened { namespace, backend: Arc::new(backend) })
    }

    /// Waits until no reactor changes a namespace that refuses changes; whether that has come in time.
    fn waits_for_changes(&self, namespace: &Arc<Namespace>) -> bool {
        let has_passed = Arc::new(AtomicBool::new(false));
        let tells = has_passed.clone();
        let then = Then::Tell(Box::new(move || tells.store(true, Ordering::Release)));
        self.mailboxes().raise(Fenced::Changes(namespace.clone()), then);
        let deadline = ring::now().after(Duration::from_millis(REOPEN_PATIENCE_MS));
        while !has_passed.load(Ordering::Acquire) {
            if ring::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}
