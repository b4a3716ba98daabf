//! The write protection that a namespace can have, as it is configured. Who may change it is in `rights`.

use serde::{Deserialize, Serialize};

/// Namespace write protection (NWPS, Base 8.1.16), the weakest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WriteProtection {
    /// Writes are allowed.
    #[default]
    #[serde(alias = "off")]
    None,
    /// Writes are refused until the setting changes.
    On,
    /// Writes are refused until the target restarts.
    #[serde(alias = "until-restart")]
    UntilRestart,
    /// Writes are refused forever.
    Permanent,
}

impl WriteProtection {
    /// True if writes are allowed.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "off",
            Self::On => "on",
            Self::UntilRestart => "until-restart",
            Self::Permanent => "permanent",
        }
    }
}
