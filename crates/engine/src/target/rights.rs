//! Which host a namespace belongs to, and what one host may take of a subsystem's storage.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::config::{NamespaceConfig, StorageConfig};
use crate::backend::BackendConfig;
use crate::limits::HOST_NAMESPACES;

/// A host by what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownHost {
    /// Its name (HOSTNQN).
    pub nqn: String,
    /// Its identifier (HOSTID), all zeroes for a host that has none.
    pub host_id: Uuid,
}

impl fmt::Display for KnownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HOSTID {})", self.nqn, self.host_id)
    }
}

impl NamespaceConfig {
    /// The bytes that it takes in this storage, `None` for a namespace elsewhere. The size is that of the configuration,
    /// which all that hosts create have.
    pub fn bytes_in(&self, storage: &StorageConfig) -> Option<u64> {
        match &self.backend {
            BackendConfig::File { path, size } if path.starts_with(&storage.directory) => *size,
            _ => None,
        }
    }
}

impl StorageConfig {
    /// So many bytes for hosts in this directory, of which each host has its usual part.
    pub const fn new(directory: PathBuf, bytes_max: u64) -> Self {
        Self { directory, bytes_max, bytes_max_per_host: None, namespaces_max_per_host: None }
    }

    /// Bytes that all namespaces of one host may have together: half of what all may have where nobody says otherwise, so
    /// that no host can take all of it.
    pub fn host_bytes_max(&self) -> u64 {
        self.bytes_max_per_host.unwrap_or(self.bytes_max.div_ceil(2)).min(self.bytes_max)
    }

    /// Namespaces of a subsystem that one host may create.
    pub fn host_namespaces_max(&self) -> u32 {
        self.namespaces_max_per_host.unwrap_or(HOST_NAMESPACES)
    }
}
