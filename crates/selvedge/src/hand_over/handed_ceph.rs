//! State of Ceph clusters that one process hands over to the other, beside a target.

use std::collections::BTreeSet;

use engine::ceph::ClusterConnection;
use gateway::{HandedMember, OfferedMember};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Locks, connections and group membership of the old process in Ceph clusters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct OfferedCeph {
    /// Namespaces whose images it has locked.
    pub(super) locked: BTreeSet<(String, u32)>,
    /// Connections of the process.
    pub(super) connections: Vec<ClusterConnection>,
    /// The gateway that it is, if it is one.
    pub(super) member: Option<OfferedMember>,
}

impl OfferedCeph {
    /// True if there is nothing to hand over.
    pub(super) fn is_empty(&self) -> bool {
        self.locked.is_empty() && self.connections.is_empty() && self.member.is_none()
    }
}

/// State that the old process has released in Ceph clusters.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct HandedCeph {
    /// State of the gateway, if it is one.
    pub(super) member: Option<HandedMember>,
}

/// Reads a part of a message; null reads as the default.
pub(super) fn read<T: Default + DeserializeOwned>(said: &Value) -> Result<T, String> {
    if said.is_null() {
        return Ok(T::default());
    }
    T::deserialize(said).map_err(|error| format!("what is handed over of Ceph cannot be read: {error}"))
}
