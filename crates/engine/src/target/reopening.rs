//! Opening the file or device of a namespace anew, after it could not be synchronized: an operator says by it that the storage
//! is in order again. Hosts keep the namespace, its reservations and its marks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::TargetError;
use super::change::Change;
use super::fabric::Fabric;
use super::fence::{Fence, Fenced, Then};
use super::listener::Listener;
use super::namespace::Namespace;
use super::preparation::{Absence, Reopened};
use crate::limits::REOPEN_PATIENCE_MS;
use crate::ring::{self, thread};

impl Fabric {
    /// Opens a namespace anew. Only one caller at a time.
    pub(super) fn reopen(
        &self,
        nqn: &str,
        nsid: u32,
        listener: &Listener,
    ) -> Result<Vec<Change>, TargetError> {
        let refused =
            |reason: &str| Err(TargetError::Reopen { nqn: nqn.to_owned(), nsid, reason: reason.to_owned() });
        let namespace = self.find(nqn).and_then(|subsystem| subsystem.state().namespaces.get(&nsid).cloned());
        let Some(namespace) = namespace else { return refused("it is not there") };
        if !namespace.has_failed() {
            return refused("it has not failed, so that there is nothing to reopen");
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
        let reopened = Reopened { namespace, backend: Arc::new(backend) };
        let config = self.directory().config.clone();
        self.apply_on(&config, listener, Absence::Refused, &[], Some(&reopened), None)
    }

    /// Waits until no reactor changes a namespace that refuses changes; whether that has come in time.
    fn waits_for_changes(&self, namespace: &Arc<Namespace>) -> bool {
        let has_passed = Arc::new(AtomicBool::new(false));
        let tells = has_passed.clone();
        let then = Then::Tell(Box::new(move || tells.store(true, Ordering::Release)));
        Fence::raise(self, Fenced::Changes(namespace.clone()), then);
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
