//! Where a subsystem's Command Quiesce Time comes from.

use serde::{Deserialize, Serialize};

/// Where a subsystem's Command Quiesce Time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandQuiesce {
    /// It is configured.
    #[default]
    Fixed,
    /// It is measured, from what is usual on.
    Auto,
}

impl CommandQuiesce {
    /// Whether it is configured.
    pub const fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed)
    }
}
