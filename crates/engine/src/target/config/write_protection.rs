//! The write protection that a namespace can have, as it is configured. Who may change it is in `rights`.

use serde::{Deserialize, Serialize};

/// Namespace write protection (NWPS, Base 8.1.16), the weakest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WriteProtection {
    /// It may be written.
    #[default]
    #[serde(alias = "off")]
    None,
    /// It may not, until that is changed.
    On,
    /// It may not, until the target starts again.
    #[serde(alias = "until-restart")]
    UntilRestart,
    /// It may not, ever.
    Permanent,
}

impl WriteProtection {
    /// Whether it may be written.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "off",
            Self::On => "on",
            Self::UntilRestart => "until-restart",
            Self::Permanent => "permanent",
        }
    }
}
