//! What goes from one process to the other of Ceph clusters, beside a target.

use std::collections::BTreeSet;

use engine::ceph::ClusterConnection;
use gateway::{HandedMember, OfferedMember};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the former process has of Ceph clusters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct OfferedCeph {
    /// The namespaces whose images it has the locks of.
    pub(super) locked: BTreeSet<(String, u32)>,
    /// Its connections.
    pub(super) connections: Vec<ClusterConnection>,
    /// Which gateway of a group it is, if it is one.
    pub(super) member: Option<OfferedMember>,
}

impl OfferedCeph {
    /// Whether there is something of it.
    pub(super) fn is_empty(&self) -> bool {
        self.locked.is_empty() && self.connections.is_empty() && self.member.is_none()
    }
}

/// What the former process has let go of in Ceph clusters.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct HandedCeph {
    /// How the gateway was, if it is one.
    pub(super) member: Option<HandedMember>,
}

/// What was said of it; nothing where there was nothing to say.
pub(super) fn read<T: Default + DeserializeOwned>(said: &Value) -> Result<T, String> {
    if said.is_null() {
        return Ok(T::default());
    }
    T::deserialize(said).map_err(|error| format!("what is handed over of Ceph cannot be read: {error}"))
}
