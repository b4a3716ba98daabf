//! Whether the connections of a port are TLS.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether the connections of a port are TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsUse {
    /// All of them are: a host without a key cannot connect.
    Required,
    /// A connection's first bytes decide: hosts with TLS and hosts without connect. For a migration alone: whoever has a
    /// host's name comes in without its key.
    Allowed,
    /// None is.
    Off,
}

impl TlsUse {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Required, Self::Allowed, Self::Off];

    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Allowed => "allowed",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for TlsUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
