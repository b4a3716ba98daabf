//! The roles of those who administer a target, as they are written.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// From least to most: each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See the metrics.
    Metrics,
    /// See everything.
    Read,
    /// Change hosts, namespaces and ANA states of certain subsystems.
    Operate,
    /// Change everything.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metrics => "metrics",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        })
    }
}
