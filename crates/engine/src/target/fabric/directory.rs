//! A snapshot of the configuration that hosts see.

use std::sync::Arc;

use crate::target::config::{Directives, FabricConfig, PortConfig, TlsUse};
use crate::target::served::Subsystem;

/// A snapshot of the configuration that hosts see.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The configuration, with the real services of all ports.
    pub(crate) config: FabricConfig,
    /// TLS mode of each port, here and at other targets, by port number. Computed once, from all
    /// hosts' keys, to spare reactors the search.
    tls: Vec<(u16, TlsUse)>,
    /// The ports at which a host comes in clear to get a TLS key.
    concatenating: Vec<u16>,
    /// The run-time orders beside it.
    pub(crate) directives: Directives,
    /// The subsystems, in its order.
    pub(crate) subsystems: Vec<Arc<Subsystem>>,
    /// The discovery subsystem under the name of its own, if it has one.
    pub(crate) own_discovery: Option<Arc<Subsystem>>,
    /// Number of changes of the discovery log, from 1 on (GENCTR).
    pub(crate) generation: u64,
}

impl Directory {
    /// Creates the snapshot of a configuration.
    pub(crate) fn new(
        (config, directives): (FabricConfig, Directives),
        subsystems: Vec<Arc<Subsystem>>,
        own_discovery: Option<Arc<Subsystem>>,
        generation: u64,
    ) -> Self {
        let elsewhere = directives.elsewhere.iter().map(|other| &other.port);
        let tls = config.ports.iter().chain(elsewhere).map(|port| (port.id, config.tls_on(port))).collect();
        let concatenates = |port: &&PortConfig| {
            let here = config.subsystems.iter().filter(|subsystem| subsystem.is_on(port));
            here.flat_map(|subsystem| &subsystem.host_keys).any(|key| key.tls_concat)
        };
        let concatenating = config.ports.iter().filter(concatenates).map(|port| port.id).collect();
        Self { config, tls, concatenating, directives, subsystems, own_discovery, generation }
    }

    /// Creates a snapshot without ports and subsystems.
    pub(crate) fn empty() -> Self {
        Self::new((FabricConfig::default(), Directives::default()), Vec::new(), None, 0)
    }

    /// TLS mode of the port with this number, `Off` for a port that was removed, where hosts find
    /// nothing anyway.
    pub(crate) fn tls_on(&self, port: u16) -> TlsUse {
        self.tls.iter().find(|(id, _)| *id == port).map_or(TlsUse::Off, |(_, tls)| *tls)
    }

    /// The ports of other targets at which hosts find the same subsystems.
    pub(crate) fn known_elsewhere(&self) -> impl Iterator<Item = &PortConfig> + Clone {
        self.directives.elsewhere.iter().filter(|other| other.is_known).map(|other| &other.port)
    }

    /// True if hosts may connect to this port without TLS to generate a TLS key.
    pub(crate) fn concatenates_on(&self, port: u16) -> bool {
        self.concatenating.contains(&port)
    }

    /// The port with this number.
    pub(crate) fn port(&self, id: u16) -> Option<&PortConfig> {
        self.config.ports.iter().find(|port| port.id == id)
    }
}
