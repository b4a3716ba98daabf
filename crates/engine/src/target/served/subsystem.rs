//! Subsystems with their namespaces and hosts. Their locks are taken by Connect, admin commands and administration,
//! never by a read or a write.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use authentication::ControllerTerms;
use secure_channel::ConfiguredPsk;

use super::ana::AnaGroups;
use super::host_keys::HostKeys;
use super::namespace::Namespace;
use super::namespace_table::{Attachment, NamespaceTable};
use super::quiesce_time::QuiesceTime;
use crate::ring::{self, Moment};
use crate::target::config::{PortConfig, SubsystemConfig};
use crate::target::telemetry::SubsystemCounters;

/// The open namespaces of a subsystem by their identifiers.
pub(crate) type Opened = BTreeMap<u32, Arc<Namespace>>;

/// A subsystem.
#[derive(Debug)]
pub(crate) struct Subsystem {
    pub(crate) nqn: String,
    pub(crate) serial: String,
    pub(crate) model: String,
    pub(crate) is_discovery: bool,
    pub(crate) started: Moment,
    pub(crate) quiesce: QuiesceTime,
    state: RwLock<State>,
    pub(crate) counters: SubsystemCounters,
}

/// What administration changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: SubsystemConfig,
    pub(crate) namespaces: Opened,
    pub(crate) ana: AnaGroups,
    pub(crate) keys: HostKeys,
}

impl Subsystem {
    /// A subsystem with these namespaces, which are those of its configuration.
    pub(crate) fn new(config: &SubsystemConfig, namespaces: Opened, keys: HostKeys) -> Self {
        Self::of(config, namespaces, keys, false)
    }

    /// The discovery subsystem, which is on every port and open to every host.
    pub(crate) fn discovery(nqn: &str) -> Self {
        Self::of(
            &SubsystemConfig::new(nqn, "discovery", "Selvedge"),
            Opened::new(),
            HostKeys::default(),
            true,
        )
    }

    fn of(config: &SubsystemConfig, namespaces: Opened, keys: HostKeys, is_discovery: bool) -> Self {
        Self {
            nqn: config.nqn.clone(),
            serial: config.serial.clone(),
            model: config.model.clone(),
            is_discovery,
            started: ring::now(),
            quiesce: QuiesceTime::of(config),
            state: RwLock::new(State { config: config.clone(), namespaces, ana: AnaGroups::default(), keys }),
            counters: SubsystemCounters::default(),
        }
    }

    /// What administration changes, to be looked at.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What administration changes, to be changed.
    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the host with this name may connect.
    pub(crate) fn allows(&self, host_nqn: &str) -> bool {
        let State { config, keys, .. } = &*self.state();
        config.lets_in(host_nqn) && !keys.is_locked(host_nqn)
    }

    /// Whether the host with this name may not connect since a key of it cannot be opened.
    pub(crate) fn is_locked(&self, host_nqn: &str) -> bool {
        self.state().keys.is_locked(host_nqn)
    }

    /// Whether the operator has named this host.
    pub(crate) fn names(&self, host_nqn: &str) -> bool {
        self.state().config.hosts.iter().any(|host| host == host_nqn)
    }

    /// Whether the host with this name has to authenticate.
    pub(crate) fn wants_proof(&self, host_nqn: &str) -> bool {
        self.state().keys.has_secret(host_nqn)
    }

    /// What is asked of the host with this name, if it has to authenticate.
    pub(crate) fn terms(&self, host_nqn: &str) -> Option<ControllerTerms> {
        self.state().keys.terms(host_nqn, &self.nqn, ring::now())
    }

    /// Whether the TLS key of the host with this name comes out of its authentication.
    pub(crate) fn concatenates(&self, host_nqn: &str) -> bool {
        self.state().keys.concatenates(host_nqn)
    }

    /// The TLS keys that are accepted of the host with this name, if it may connect.
    pub(crate) fn psks(&self, host_nqn: &str, now: Moment) -> Vec<ConfiguredPsk> {
        if self.allows(host_nqn) { self.state().keys.psks(host_nqn, now) } else { Vec::new() }
    }

    /// Whether it is found on this port.
    pub(crate) fn is_on(&self, port: &PortConfig) -> bool {
        self.is_discovery || self.state().config.is_on(port)
    }

    /// The namespaces that the host with this name sees through the port with this number.
    pub(crate) fn table_for(&self, host_nqn: &str, port: u16) -> NamespaceTable {
        let state = &mut *self.state_mut();
        let mut attachments = Vec::new();
        for config in &state.config.namespaces {
            let Some(namespace) = state.namespaces.get(&config.nsid) else { continue };
            if config.visible.includes(host_nqn) {
                let access = state.ana.cell(config.ana_group, port, &state.config);
                attachments.push(Attachment {
                    namespace: namespace.clone(),
                    group: config.ana_group,
                    access,
                });
            }
        }
        NamespaceTable::new(attachments)
    }

    /// All namespaces, whoever sees them.
    pub(crate) fn namespaces(&self) -> Vec<Arc<Namespace>> {
        self.state().namespaces.values().cloned().collect()
    }
}
