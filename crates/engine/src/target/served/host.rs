//! The host of a controller: its name and its identifier.

use uuid::Uuid;

use crate::target::config::KnownHost;
use crate::target::reservation::{HostDigest, HostId};

/// The host of a controller.
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

    /// True without an identifier: such a host cannot be distinguished from others, nor registered.
    pub(crate) fn is_nameless(&self) -> bool {
        self.id == [0; 16]
    }

    /// Name and identifier, for decisions about what the host may change.
    pub(crate) fn known(&self) -> KnownHost {
        KnownHost { nqn: self.nqn.clone(), host_id: Uuid::from_bytes(self.id) }
    }
}
