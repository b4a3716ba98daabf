//! Options of a connection to a cluster: the cluster, the user, and the settings.

use std::path::PathBuf;

use crate::limits::CEPH_CONNECT_TIMEOUT_MS;

/// Cluster, user and settings of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterOptions {
    /// The configuration file; without it, where Ceph's own programs look (`CEPH_CONF`, /etc/ceph/ceph.conf).
    pub conf: Option<PathBuf>,
    /// The user, without `client.`; `admin` without it.
    pub id: Option<String>,
    /// The longest that connecting may take, in milliseconds, and any request to the monitors after that; the library counts
    /// whole seconds.
    pub connect_timeout_ms: u64,
    /// Operations that take longer fail, in milliseconds, which the library counts in whole seconds; 0 lets them wait for as long as it takes.
    pub operation_timeout_ms: u64,
    /// The processors that the library's own threads may use; all that the process may use when it is empty.
    pub cpus: Vec<u32>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            conf: None,
            id: None,
            connect_timeout_ms: CEPH_CONNECT_TIMEOUT_MS,
            operation_timeout_ms: 0,
            cpus: Vec::new(),
        }
    }
}

impl ClusterOptions {
    /// The user, without `client.`.
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or("admin")
    }
}
