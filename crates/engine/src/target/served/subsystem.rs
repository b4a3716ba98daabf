//! Subsystems with their namespaces and hosts. Their locks are taken by Connect, admin commands and administration,
//! never by a read or a write.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use authentication::ControllerTerms;
use secure_channel::ConfiguredPsk;

use super::ana::AnaGroups;
use super::host_keys::HostKeys;
use super::namespace::Namespace;
use super::namespace_table::{Attachment, NamespaceTable};
use super::quiesce_time::QuiesceTime;
use crate::ring::{self, Moment};
use crate::target::config::{NamespaceConfig, PortConfig, SubsystemConfig};
use crate::target::handed_target::HandedFormerKey;
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

/// State that administration changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: SubsystemConfig,
    pub(crate) namespaces: Opened,
    /// Places of the namespaces in the configuration, by their identifiers.
    places: BTreeMap<u32, usize>,
    pub(crate) ana: AnaGroups,
    pub(crate) keys: HostKeys,
    /// Tables of hosts from which nothing is hidden, by their ports, as long as any host has them.
    /// A change of the namespaces clears them.
    pub(crate) tables: BTreeMap<u16, Weak<NamespaceTable>>,
}

impl State {
    /// Replaces the configuration, and the namespaces, which are those of it.
    pub(crate) fn reconfigure(&mut self, config: &SubsystemConfig, namespaces: Opened) {
        self.config = config.clone();
        self.namespaces = namespaces;
        self.places = places(config);
        self.tables.clear();
    }

    /// Configuration of the namespace with this identifier.
    pub(crate) fn configured(&self, nsid: u32) -> Option<&NamespaceConfig> {
        self.config.namespaces.get(*self.places.get(&nsid)?)
    }
}

/// Places of the namespaces in a configuration, by their identifiers.
fn places(config: &SubsystemConfig) -> BTreeMap<u32, usize> {
    config.namespaces.iter().enumerate().map(|(place, namespace)| (namespace.nsid, place)).collect()
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
            state: RwLock::new(State {
                config: config.clone(),
                namespaces,
                places: places(config),
                ana: AnaGroups::default(),
                keys,
                tables: BTreeMap::new(),
            }),
            counters: SubsystemCounters::default(),
        }
    }

    /// State that administration changes, locked for reading.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// State that administration changes, locked for writing.
    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the host with this name may connect.
    pub(crate) fn allows(&self, host_nqn: &str) -> bool {
        let State { config, keys, .. } = &*self.state();
        config.lets_in(host_nqn) && !keys.is_locked(host_nqn)
    }

    /// True if the connections of the host with this name stay, although it may no longer connect.
    pub(crate) fn keeps(&self, host_nqn: &str) -> bool {
        self.state().config.kept_hosts.iter().any(|host| host == host_nqn)
    }

    /// True if the host with this name is locked out, because a key of it cannot be opened.
    pub(crate) fn is_locked(&self, host_nqn: &str) -> bool {
        self.state().keys.is_locked(host_nqn)
    }

    /// True if the operator has named this host.
    pub(crate) fn names(&self, host_nqn: &str) -> bool {
        self.state().config.hosts.iter().any(|host| host == host_nqn)
    }

    /// True if the host with this name has to authenticate.
    pub(crate) fn wants_proof(&self, host_nqn: &str) -> bool {
        self.state().keys.has_secret(host_nqn)
    }

    /// Terms of the authentication of the host with this name, if it has to authenticate.
    pub(crate) fn terms(&self, host_nqn: &str) -> Option<ControllerTerms> {
        self.state().keys.terms(host_nqn, &self.nqn, ring::now())
    }

    /// True if the TLS key of the host with this name is generated by its authentication.
    pub(crate) fn concatenates(&self, host_nqn: &str) -> bool {
        self.state().keys.concatenates(host_nqn)
    }

    /// The TLS keys that are accepted of the host with this name, if it may connect.
    pub(crate) fn psks(&self, host_nqn: &str, now: Moment) -> Vec<ConfiguredPsk> {
        if self.allows(host_nqn) { self.state().keys.psks(host_nqn, now) } else { Vec::new() }
    }

    /// Replaced keys of hosts that are still accepted, for the new process.
    pub(crate) fn former_keys(&self, now: Moment) -> Vec<HandedFormerKey> {
        self.state().keys.handed(&self.nqn, now)
    }

    /// Accepts a replaced key of the old process, too.
    pub(crate) fn take_former_key(&self, handed: &HandedFormerKey, now: Moment) {
        self.state_mut().keys.go_on(handed, now);
    }

    /// True if the subsystem is served on this port.
    pub(crate) fn is_on(&self, port: &PortConfig) -> bool {
        self.is_discovery || self.state().config.is_on(port)
    }

    /// The namespaces that the host with this name sees through the port with this number. Where
    /// none is hidden from any host, all hosts of a port share one table: with thousands of
    /// namespaces and hundreds of hosts, tables take time and memory.
    pub(crate) fn table_for(&self, host_nqn: &str, port: u16) -> Arc<NamespaceTable> {
        let state = &mut *self.state_mut();
        let is_shared = state.config.namespaces.iter().all(|config| config.visible.is_of_all());
        if let Some(table) = state.tables.get(&port).and_then(Weak::upgrade).filter(|_| is_shared) {
            return table;
        }
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
        let table = Arc::new(NamespaceTable::new(attachments));
        if is_shared {
            state.tables.insert(port, Arc::downgrade(&table));
        }
        table
    }

    /// All namespaces, whether or not a host sees them.
    pub(crate) fn namespaces(&self) -> Vec<Arc<Namespace>> {
        self.state().namespaces.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, BackendConfig, Clusters, Opening};
    use crate::target::config::Visibility;

    /// A subsystem with a namespace that these hosts see.
    fn subsystem(visible: Visibility) -> Subsystem {
        let backend = BackendConfig::Null { size: 1 << 20 };
        let config = NamespaceConfig { visible, ..NamespaceConfig::new(1, backend, 4096) };
        let clusters = Clusters::default();
        let backend = Backend::open(&config.backend, Opening::alone(4096, &clusters)).expect("opens");
        let namespace = Namespace::on("nqn.test:a", &config, uuid::Uuid::nil(), Arc::new(backend));
        let config = SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(vec![config]);
        Subsystem::new(&config, Opened::from([(1, Arc::new(namespace))]), HostKeys::default())
    }

    #[test]
    fn hosts_that_see_all_namespaces_share_a_table_until_these_change() {
        let all = subsystem(Visibility::default());
        let first = all.table_for("nqn.test:one", 1);
        assert!(Arc::ptr_eq(&first, &all.table_for("nqn.test:two", 1)));
        assert!(!Arc::ptr_eq(&first, &all.table_for("nqn.test:one", 2)), "ANA states are those of a port");
        all.state_mut().tables.clear();
        assert!(!Arc::ptr_eq(&first, &all.table_for("nqn.test:one", 1)));
        let some = subsystem(Visibility::Only(vec!["nqn.test:one".to_owned()]));
        let seen = ["nqn.test:one", "nqn.test:two"].map(|host| some.table_for(host, 1).iter().count());
        assert_eq!(seen, [1, 0]);
    }

    #[test]
    fn the_configuration_of_a_namespace_is_found_wherever_it_stands() {
        let subsystem = subsystem(Visibility::default());
        let numbered = |nsid: u32| NamespaceConfig {
            ana_group: nsid + 100,
            ..NamespaceConfig::new(nsid, BackendConfig::Null { size: 1 << 20 }, 4096)
        };
        for nsids in [vec![4096, 1, 7], vec![7, 4096], vec![]] {
            let config = SubsystemConfig::new("nqn.test:a", "A", "Selvedge")
                .with(nsids.iter().copied().map(numbered).collect());
            subsystem.state_mut().reconfigure(&config, Opened::new());
            let state = subsystem.state();
            for nsid in [0, 1, 2, 7, 4096] {
                let group = state.configured(nsid).map(|config| config.ana_group);
                assert_eq!(group, nsids.contains(&nsid).then_some(nsid + 100), "{nsid} of {nsids:?}");
            }
        }
    }
}
