//! Source of a subsystem's Command Quiesce Time.

use serde::{Deserialize, Serialize};

/// Source of a subsystem's Command Quiesce Time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandQuiesce {
    /// The configured time.
    #[default]
    Fixed,
    /// A measured time, the default one at least.
    Auto,
}

impl CommandQuiesce {
    /// True for the configured time.
    pub const fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed)
    }
}
