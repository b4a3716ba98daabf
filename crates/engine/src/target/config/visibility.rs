//! Hosts of a subsystem that see one of its namespaces.

use serde::{Deserialize, Serialize};

use super::written;

/// Hosts that see a namespace, of those that may use its subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Visibility {
    /// Hosts that do not see the namespace; all others do.
    AllExcept(#[serde(deserialize_with = "written::nqns")] Vec<String>),
    /// Hosts that see the namespace; all others do not.
    Only(#[serde(deserialize_with = "written::nqns")] Vec<String>),
}

impl Default for Visibility {
    fn default() -> Self {
        Self::AllExcept(Vec::new())
    }
}

impl Visibility {
    /// True if the host with this name sees the namespace.
    pub fn includes(&self, host_nqn: &str) -> bool {
        let named = |hosts: &[String]| hosts.iter().any(|host| host == host_nqn);
        match self {
            Self::AllExcept(hosts) => !named(hosts),
            Self::Only(hosts) => named(hosts),
        }
    }

    /// True if no host is named, and all see the namespace.
    pub(crate) fn is_of_all(&self) -> bool {
        matches!(self, Self::AllExcept(hosts) if hosts.is_empty())
    }

    /// Lets the host with this name see it.
    pub fn attach(&mut self, host_nqn: &str) {
        match self {
            Self::AllExcept(hosts) => hosts.retain(|host| host != host_nqn),
            Self::Only(hosts) if !hosts.iter().any(|host| host == host_nqn) => {
                hosts.push(host_nqn.to_owned());
            }
            Self::Only(_) => {}
        }
    }

    /// Hides it from the host with this name.
    pub fn detach(&mut self, host_nqn: &str) {
        match self {
            Self::AllExcept(hosts) if !hosts.iter().any(|host| host == host_nqn) => {
                hosts.push(host_nqn.to_owned());
            }
            Self::AllExcept(_) => {}
            Self::Only(hosts) => hosts.retain(|host| host != host_nqn),
        }
    }

    /// The hosts it names.
    pub fn hosts(&self) -> &[String] {
        match self {
            Self::AllExcept(hosts) | Self::Only(hosts) => hosts,
        }
    }
}
