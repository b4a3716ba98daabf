//! A host by what it says of itself: its name and its identifier.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A host by what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NamespaceOwner")]
pub struct KnownHost {
    /// Name of the host (HOSTNQN).
    pub nqn: String,
    /// Host identifier (HOSTID), all zeroes for a host that has none.
    pub host_id: Uuid,
}

impl fmt::Display for KnownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HOSTID {})", self.nqn, self.host_id)
    }
}
