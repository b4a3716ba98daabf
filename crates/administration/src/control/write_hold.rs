//! Hold of writes while snapshots of several images are made at one point in time.

use std::sync::MutexGuard;
use std::time::Duration;

use engine::limits::SNAPSHOT_HOLD_MS;
use engine::ring::{Moment, now};
use engine::target::Target;
use gateway::HeldWrites;

use super::config_store::ConfigStore;
use super::refusal::Refusal;

/// Held writes, until this is dropped.
pub(super) enum WriteHold<'a> {
    Own(OwnHold<'a>),
    Group(HeldWrites<'a>),
}

/// Held writes of a target that is in no group.
pub(super) struct OwnHold<'a> {
    /// While this is locked, no new process takes over, and no namespace is reopened.
    _store: MutexGuard<'a, ConfigStore>,
    target: &'a Target,
    namespaces: Vec<(String, u32)>,
    until: Moment,
}

impl WriteHold<'_> {
    /// Confirms that the writes have been held until now.
    pub(super) fn confirm(&self) -> Result<(), Refusal> {
        match self {
            Self::Group(held) => Ok(held.confirm()?),
            Self::Own(own) if own.target.holds_writes(&own.namespaces, own.until) => Ok(()),
            Self::Own(_) => {
                let what = format!(
                    "the cluster took longer than the {} s for which writes are held",
                    SNAPSHOT_HOLD_MS / 1000
                );
                Err(Refusal::new(503, what)
                    .hint("name fewer images, or see whether the cluster is well: ceph -s"))
            }
        }
    }
}

impl<'a> OwnHold<'a> {
    /// Holds the writes to these namespaces.
    ///
    /// # Errors
    /// One of them is no longer served.
    pub(super) fn take(
        store: MutexGuard<'a, ConfigStore>,
        target: &'a Target,
        namespaces: &[(String, u32)],
    ) -> Result<Self, Refusal> {
        let until = now().after(Duration::from_millis(SNAPSHOT_HOLD_MS));
        let hold = Self { _store: store, target, namespaces: namespaces.to_vec(), until };
        if target.hold_writes(namespaces, until) {
            Ok(hold)
        } else {
            Err(Refusal::conflict("the served namespaces have changed at the same moment"))
        }
    }
}

impl Drop for OwnHold<'_> {
    fn drop(&mut self) {
        self.target.release_writes(&self.namespaces);
    }
}
