//! What hosts find, at one moment.

use std::sync::Arc;

use crate::target::config::{Directives, FabricConfig, PortConfig};
use crate::target::served::Subsystem;

/// What hosts find, at one moment.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The configuration, with the real services of all ports.
    pub(crate) config: FabricConfig,
    /// The run-time orders beside it.
    pub(crate) directives: Directives,
    /// The subsystems, in its order.
    pub(crate) subsystems: Vec<Arc<Subsystem>>,
    /// The discovery subsystem under the name of its own, if it has one.
    pub(crate) own_discovery: Option<Arc<Subsystem>>,
    /// How often the discovery log has changed, from 1 on (GENCTR).
    pub(crate) generation: u64,
}

impl Directory {
    /// Nothing to be found.
    pub(crate) fn empty() -> Self {
        let config = FabricConfig::default();
        Self {
            config,
            directives: Directives::default(),
            subsystems: Vec::new(),
            own_discovery: None,
            generation: 0,
        }
    }

    /// The port with this number.
    pub(crate) fn port(&self, id: u16) -> Option<&PortConfig> {
        self.config.ports.iter().find(|port| port.id == id)
    }
}
