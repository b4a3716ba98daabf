//! Whether the connections of a port are TLS.

use std::fmt;

use serde::{Deserialize, Serialize};

/// TLS mode of a port's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsUse {
    /// All connections use TLS: a host without a key cannot connect.
    Required,
    /// Detected from a connection's first bytes: hosts with TLS and hosts without it connect. For
    /// migrations only: a host can connect under any name without the key.
    Allowed,
    /// No connection uses TLS.
    Off,
}

impl TlsUse {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Required, Self::Allowed, Self::Off];

    /// Name in the configuration.
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
