//! The host of a controller: its name and its identifier.

use uuid::Uuid;

use crate::target::config::KnownHost;

/// The host of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    pub(crate) id: [u8; 16],
}

impl Host {
    /// True without an identifier: such a host cannot be distinguished from others, nor registered.
    pub(crate) fn is_nameless(&self) -> bool {
        self.id == [0; 16]
    }

    /// Name and identifier, for decisions about what the host may change.
    pub(crate) fn known(&self) -> KnownHost {
        KnownHost { nqn: self.nqn.clone(), host_id: Uuid::from_bytes(self.id) }
    }
}
