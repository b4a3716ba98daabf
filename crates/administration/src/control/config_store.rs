//! Store of a target's configuration.

use std::sync::Arc;

use gateway::Membership;

use crate::state::StateFile;

/// Store of the configuration.
#[derive(Debug)]
pub(super) enum ConfigStore {
    /// Changes are lost when the process ends.
    Nowhere,
    File(StateFile),
    /// The shared state of a group of gateways.
    Group(Arc<Membership>),
}
