//! Who uses a controller: a host by its name and its identifier.

use uuid::Uuid;

use crate::target::config::KnownHost;
use crate::target::reservation::{HostDigest, HostId};

/// Who uses a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    pub(crate) id: HostId,
    /// Digest of both, for reservations.
    pub(crate) digest: HostDigest,
}

impl Host {
    /// The host with this NQN and this HOSTID.
    pub(crate) fn new(nqn: String, id: HostId) -> Self {
        Self { digest: HostDigest::of(&nqn, &id), nqn, id }
    }

    /// Whether it has no identifier: it is nobody who could be told from others, or could be registered.
    pub(crate) fn is_nameless(&self) -> bool {
        self.id == [0; 16]
    }

    /// The same for whoever decides what it may change.
    pub(crate) fn known(&self) -> KnownHost {
        KnownHost { nqn: self.nqn.clone(), host_id: Uuid::from_bytes(self.id) }
    }
}
