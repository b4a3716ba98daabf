//! Modification times of the files of hosts' secrets and TLS keys, which show keys that were not rotated.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::limits::HOST_KEYS_REPORTED_MAX;
use crate::target::fabric::Fabric;

/// A host's secret or TLS key that comes from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct HostKeyAge {
    /// The subsystem's name.
    pub subsystem: String,
    /// The host's name.
    pub host: String,
    /// Kind of key.
    pub kind: HostKeyKind,
    /// Modification time of its file when it was read, in seconds since 1970.
    pub written_s: u64,
}

/// Kind of a host's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostKeyKind {
    /// The secret of its authentication.
    Dhchap,
    /// The TLS key.
    Tls,
}

impl HostKeyKind {
    /// Name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dhchap => "dhchap",
            Self::Tls => "tls",
        }
    }
}

/// Key ages of all subsystems' hosts, in the order of the configuration, at most
/// `HOST_KEYS_REPORTED_MAX`.
pub(crate) fn host_key_ages(fabric: &Fabric) -> Vec<HostKeyAge> {
    let directory = fabric.directory();
    let mut ages = Vec::new();
    for subsystem in &directory.subsystems {
        let state = subsystem.state();
        for host in state.config.host_keys.iter().map(|config| &config.host) {
            let of = |kind, written: Option<SystemTime>| {
                let written_s = written?.duration_since(UNIX_EPOCH).ok()?.as_secs();
                Some(HostKeyAge { subsystem: subsystem.nqn.clone(), host: host.clone(), kind, written_s })
            };
            let (dhchap, tls) = state.keys.written(host);
            ages.extend(of(HostKeyKind::Dhchap, dhchap).into_iter().chain(of(HostKeyKind::Tls, tls)));
            if ages.len() >= HOST_KEYS_REPORTED_MAX {
                return ages;
            }
        }
    }
    ages
}
