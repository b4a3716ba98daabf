//! Differences between two configurations of a fabric, as a list that can be read and carried out.
//! Compares, and opens nothing.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::fabric::{FabricConfig, NamespaceConfig, SubsystemConfig};

/// A difference between two configurations. Names and numbers identify the object; its values are
/// in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// An address to listen on comes.
    PortAdded {
        /// Port number.
        port: u16,
    },
    /// An address goes, and no new connection comes by it.
    PortRemoved {
        /// Port number.
        port: u16,
    },
    /// The discovery log entry of an address changes.
    PortChanged {
        /// Port number.
        port: u16,
    },
    /// The congestion control of connections that come by an address from then on.
    PortCongestionChanged {
        /// Port number.
        port: u16,
    },
    /// The TLS mode of connections accepted at an address from then on changes.
    PortTlsChanged {
        /// Port number.
        port: u16,
    },
    /// A subsystem comes.
    SubsystemAdded {
        /// Name of the subsystem.
        nqn: String,
    },
    /// A subsystem goes, with its controllers.
    SubsystemRemoved {
        /// Name of the subsystem.
        nqn: String,
    },
    /// Serial or model number of a subsystem, which hosts recognize it by; they have to connect again.
    SubsystemReplaced {
        /// Name of the subsystem.
        nqn: String,
    },
    /// The hosts that may use a subsystem, their secrets, or where it is found.
    AccessChanged {
        /// Name of the subsystem.
        nqn: String,
    },
    /// The directory in which hosts may create namespaces changes.
    StorageChanged {
        /// The subsystem's name.
        nqn: String,
    },
    /// For how long after the loss of their hosts commands may still take effect.
    CommandQuiesceChanged {
        /// The subsystem's name.
        nqn: String,
    },
    /// I/O queues of a controller, for hosts that connect from then on.
    QueuesChanged {
        /// Name of the subsystem.
        nqn: String,
    },
    /// The states of an ANA group.
    AnaGroupChanged {
        /// The subsystem's name.
        nqn: String,
        /// The group.
        group: u32,
    },
    /// A namespace comes.
    NamespaceAdded {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// A namespace goes.
    NamespaceRemoved {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// A namespace is another from now on: other blocks, or another identity.
    NamespaceReplaced {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// The file or device of a failed namespace was reopened.
    NamespaceReopened {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// The size of a namespace.
    NamespaceResized {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// Limits, visibility, write protection, owner, ANA group, write delay or standing by of a namespace.
    NamespaceChanged {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// Names of the changed fields in the configuration.
        fields: Vec<&'static str>,
    },
    /// The discovery services that hosts are referred to.
    ReferralsChanged,
    /// The discovery subsystem's own name.
    DiscoveryNqnChanged,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortAdded { port } => write!(f, "port {port} is added"),
            Self::PortRemoved { port } => write!(f, "port {port} is removed"),
            Self::PortChanged { port } => write!(f, "port {port}: its discovery log entry changes"),
            Self::PortCongestionChanged { port } => write!(f, "port {port}: congestion control changes"),
            Self::PortTlsChanged { port } => write!(f, "port {port}: TLS mode changes"),
            Self::SubsystemAdded { nqn } => write!(f, "subsystem {nqn} is added"),
            Self::SubsystemRemoved { nqn } => write!(f, "subsystem {nqn} is removed"),
            Self::SubsystemReplaced { nqn } => {
                write!(f, "subsystem {nqn} gets another serial or model number")
            }
            Self::AccessChanged { nqn } => write!(f, "subsystem {nqn}: access changes"),
            Self::StorageChanged { nqn } => {
                write!(f, "subsystem {nqn}: directory for namespaces of hosts changes")
            }
            Self::CommandQuiesceChanged { nqn } => {
                write!(f, "subsystem {nqn}: the command quiesce time changes")
            }
            Self::QueuesChanged { nqn } => write!(f, "subsystem {nqn}: I/O queues of new controllers change"),
            Self::AnaGroupChanged { nqn, group } => write!(f, "subsystem {nqn}: ANA group {group} changes"),
            Self::NamespaceAdded { nqn, nsid } => write!(f, "subsystem {nqn}: namespace {nsid} is added"),
            Self::NamespaceRemoved { nqn, nsid } => write!(f, "subsystem {nqn}: namespace {nsid} is removed"),
            Self::NamespaceReplaced { nqn, nsid } => {
                write!(f, "subsystem {nqn}: namespace {nsid} is replaced by another")
            }
            Self::NamespaceReopened { nqn, nsid } => {
                write!(f, "subsystem {nqn}: namespace {nsid} is reopened, and takes writes again")
            }
            Self::NamespaceResized { nqn, nsid } => write!(f, "subsystem {nqn}: namespace {nsid} is resized"),
            Self::NamespaceChanged { nqn, nsid, fields } => {
                write!(f, "subsystem {nqn}: namespace {nsid}: {} changes", fields.join(", "))
            }
            Self::ReferralsChanged => write!(f, "the referrals change"),
            Self::DiscoveryNqnChanged => write!(f, "the discovery subsystem's own name changes"),
        }
    }
}

impl Change {
    /// The changed namespace, by its subsystem's name and its identifier.
    fn namespace(&self) -> Option<(&str, u32)> {
        match self {
            Self::NamespaceAdded { nqn, nsid }
            | Self::NamespaceRemoved { nqn, nsid }
            | Self::NamespaceReplaced { nqn, nsid }
            | Self::NamespaceReopened { nqn, nsid }
            | Self::NamespaceResized { nqn, nsid }
            | Self::NamespaceChanged { nqn, nsid, .. } => Some((nqn.as_str(), *nsid)),
            _ => None,
        }
    }
}

/// Namespaces of those changes that are meant, by their subsystems' names and their identifiers: to
/// search the changes for each of thousands takes too long.
pub(crate) fn namespaces_of(changes: &[Change], is_meant: impl Fn(&Change) -> bool) -> BTreeSet<(&str, u32)> {
    changes.iter().filter(|change| is_meant(change)).filter_map(Change::namespace).collect()
}

impl FabricConfig {
    /// Changes that lead from this configuration to `wanted`, in an order in which they can be
    /// carried out.
    pub fn changes_to(&self, wanted: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for port in &self.ports {
            match wanted.ports.iter().find(|other| other.id == port.id) {
                None => changes.push(Change::PortRemoved { port: port.id }),
                Some(other) if other.address != port.address => {
                    changes.push(Change::PortRemoved { port: port.id });
                    changes.push(Change::PortAdded { port: port.id });
                }
                Some(other) => {
                    if other.congestion != port.congestion {
                        changes.push(Change::PortCongestionChanged { port: port.id });
                    }
                    if (&other.advertise, other.discovery_only) != (&port.advertise, port.discovery_only) {
                        changes.push(Change::PortChanged { port: port.id });
                    }
                    // Also where a host's key alone changes it.
                    if (other.tls, wanted.tls_on(other)) != (port.tls, self.tls_on(port)) {
                        changes.push(Change::PortTlsChanged { port: port.id });
                    }
                }
            }
        }
        let is_new = |id| !self.ports.iter().any(|port| port.id == id);
        let added = wanted.ports.iter().filter(|port| is_new(port.id));
        changes.extend(added.map(|port| Change::PortAdded { port: port.id }));
        for subsystem in &self.subsystems {
            match wanted.subsystem(&subsystem.nqn) {
                None => changes.push(Change::SubsystemRemoved { nqn: subsystem.nqn.clone() }),
                Some(other) => subsystem_changes(subsystem, other, &mut changes),
            }
        }
        let added = wanted.subsystems.iter().filter(|subsystem| self.subsystem(&subsystem.nqn).is_none());
        changes.extend(added.map(|subsystem| Change::SubsystemAdded { nqn: subsystem.nqn.clone() }));
        if self.referrals != wanted.referrals {
            changes.push(Change::ReferralsChanged);
        }
        if self.discovery_nqn != wanted.discovery_nqn {
            changes.push(Change::DiscoveryNqnChanged);
        }
        changes
    }
}

fn subsystem_changes(from: &SubsystemConfig, to: &SubsystemConfig, changes: &mut Vec<Change>) {
    let nqn = || from.nqn.clone();
    if (&from.serial, &from.model) != (&to.serial, &to.model) {
        changes.push(Change::SubsystemReplaced { nqn: nqn() });
        return;
    }
    let (before, after) = (from.by_nsid(), to.by_nsid());
    for namespace in &from.namespaces {
        let nsid = namespace.nsid;
        match after.get(&nsid) {
            None => changes.push(Change::NamespaceRemoved { nqn: nqn(), nsid }),
            Some(other) => namespace_changes(&from.nqn, namespace, other, changes),
        }
    }
    let added = to.namespaces.iter().filter(|namespace| !before.contains_key(&namespace.nsid));
    changes.extend(added.map(|namespace| Change::NamespaceAdded { nqn: nqn(), nsid: namespace.nsid }));
    let mut groups: Vec<u32> = from.ana_groups.iter().chain(&to.ana_groups).map(|group| group.id).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let state = |config: &SubsystemConfig| {
            config.ana_groups.iter().find(|known| known.id == group).map(|g| (g.state, g.ports.clone()))
        };
        if state(from) != state(to) {
            changes.push(Change::AnaGroupChanged { nqn: nqn(), group });
        }
    }
    let is_same_access = from.allow_any_host == to.allow_any_host
        && (&from.hosts, &from.kept_hosts) == (&to.hosts, &to.kept_hosts)
        && (&from.ports, &from.networks) == (&to.ports, &to.networks)
        && (&from.host_keys, &from.dhchap_ctrl_secret_sealed, &from.dhchap_dhgroup)
            == (&to.host_keys, &to.dhchap_ctrl_secret_sealed, &to.dhchap_dhgroup);
    if !is_same_access {
        changes.push(Change::AccessChanged { nqn: nqn() });
    }
    if from.storage != to.storage {
        changes.push(Change::StorageChanged { nqn: nqn() });
    }
    if (from.command_quiesce_ms, from.command_quiesce) != (to.command_quiesce_ms, to.command_quiesce) {
        changes.push(Change::CommandQuiesceChanged { nqn: nqn() });
    }
    if from.io_queues_max != to.io_queues_max {
        changes.push(Change::QueuesChanged { nqn: nqn() });
    }
}

fn namespace_changes(nqn: &str, from: &NamespaceConfig, to: &NamespaceConfig, changes: &mut Vec<Change>) {
    let (nqn, nsid) = (nqn.to_owned(), from.nsid);
    let same_blocks = from.backend.is_same_place(&to.backend)
        && (from.block_size, from.shared_storage) == (to.block_size, to.shared_storage);
    if !same_blocks || (from.uuid, from.nguid) != (to.uuid, to.nguid) {
        changes.push(Change::NamespaceReplaced { nqn, nsid });
        return;
    }
    if from.backend != to.backend {
        changes.push(Change::NamespaceResized { nqn: nqn.clone(), nsid });
    }
    let mut fields = Vec::new();
    for (name, same) in [
        ("ana_group", from.ana_group == to.ana_group),
        ("visible", from.visible == to.visible),
        ("qos", from.qos == to.qos),
        ("write_protection", from.write_protection == to.write_protection),
        ("host_write_protection", from.host_write_protection == to.host_write_protection),
        ("protected_by_host", from.protected_by_host == to.protected_by_host),
        ("created_by_host", from.created_by_host == to.created_by_host),
        ("owner", from.owner == to.owner),
        ("write_delay_ms", from.write_delay_ms == to.write_delay_ms),
        ("file_pin", from.file_pin == to.file_pin),
        ("trash_image", from.trash_image == to.trash_image),
        ("disable_auto_resize", from.disable_auto_resize == to.disable_auto_resize),
        ("location", from.location == to.location),
    ] {
        if !same {
            fields.push(name);
        }
    }
    if !fields.is_empty() {
        changes.push(Change::NamespaceChanged { nqn, nsid, fields });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendConfig;
    use crate::target::config::{GroupState, HostKeyConfig, PortConfig, TlsUse, Visibility};

    fn start() -> FabricConfig {
        let memory = |size| BackendConfig::Memory { size };
        let mut fabric = FabricConfig::default();
        fabric.ports.push(PortConfig::new(1, "127.0.0.1:4420".parse().expect("an address")));
        let mut subsystem = SubsystemConfig::new("nqn.2026-01.io.selvedge:a", "A", "Selvedge");
        subsystem.namespaces.push(NamespaceConfig::new(1, memory(1 << 20), 4096));
        subsystem.namespaces.push(NamespaceConfig::new(2, memory(1 << 20), 512));
        fabric.subsystems.push(subsystem);
        fabric
    }

    /// The names of the changes that `change` makes.
    fn after(change: impl FnOnce(&mut FabricConfig)) -> Vec<String> {
        let (from, mut to) = (start(), start());
        change(&mut to);
        from.changes_to(&to).iter().map(|change| format!("{change:?}").replace(" {", "{")).collect()
    }

    #[test]
    fn nothing_is_no_change() {
        assert!(after(|_| {}).is_empty());
    }

    #[test]
    fn each_difference_is_one_change() {
        let named = |changes: Vec<String>, name: &str| {
            assert!(changes.len() == 1 && changes[0].starts_with(name), "{changes:?} is not {name}");
        };
        let other = "127.0.0.1:4421".parse().expect("an address");
        named(after(|fabric| fabric.ports.push(PortConfig::new(2, other))), "PortAdded");
        named(after(|fabric| fabric.ports.clear()), "PortRemoved");
        named(after(|fabric| fabric.ports[0].advertise = Some("10.0.0.1".to_owned())), "PortChanged");
        named(after(|fabric| fabric.ports[0].congestion = Some("reno".to_owned())), "PortCongestionChanged");
        named(after(|fabric| fabric.ports[0].tls = Some(TlsUse::Allowed)), "PortTlsChanged");
        let keyed = after(|fabric| {
            fabric.subsystems[0].host_keys.push(HostKeyConfig::tls("nqn.host", "/key".into()));
        });
        assert!(keyed[0].starts_with("PortTlsChanged") && keyed[1].starts_with("AccessChanged"), "{keyed:?}");
        named(after(|fabric| fabric.subsystems.clear()), "SubsystemRemoved");
        named(after(|fabric| fabric.subsystems[0].serial = "B".to_owned()), "SubsystemReplaced");
        named(after(|fabric| fabric.subsystems[0].allow_any_host = false), "AccessChanged");
        let network = "10.0.0.0/24".parse().expect("a network");
        named(after(|fabric| fabric.subsystems[0].networks.push(network)), "AccessChanged");
        named(after(|fabric| fabric.subsystems[0].kept_hosts.push("nqn.host".to_owned())), "AccessChanged");
        named(after(|fabric| fabric.subsystems[0].command_quiesce_ms = Some(9)), "CommandQuiesceChanged");
        let auto = crate::target::CommandQuiesce::Auto;
        named(after(|fabric| fabric.subsystems[0].command_quiesce = auto), "CommandQuiesceChanged");
        named(after(|fabric| fabric.subsystems[0].io_queues_max = Some(4)), "QueuesChanged");
        let group = authentication::Group::MlKem768;
        named(after(|fabric| fabric.subsystems[0].dhchap_dhgroup.push(group)), "AccessChanged");
        named(after(|fabric| drop(fabric.subsystems[0].namespaces.pop())), "NamespaceRemoved");
        let namespace = |change: fn(&mut NamespaceConfig)| {
            after(|fabric| change(&mut fabric.subsystems[0].namespaces[0]))
        };
        named(namespace(|n| n.backend = BackendConfig::Memory { size: 2 << 20 }), "NamespaceResized");
        named(namespace(|n| n.backend = BackendConfig::Null { size: 1 << 20 }), "NamespaceReplaced");
        named(namespace(|n| n.block_size = 512), "NamespaceReplaced");
        named(namespace(|n| n.uuid = Some(uuid::Uuid::nil())), "NamespaceReplaced");
        named(namespace(|n| n.nguid = "7".repeat(32).parse().ok()), "NamespaceReplaced");
        named(namespace(|n| n.qos.iops = Some(5)), "NamespaceChanged");
        named(namespace(|n| n.write_delay_ms = 5), "NamespaceChanged");
        named(namespace(|n| n.trash_image = true), "NamespaceChanged");
        named(namespace(|n| n.disable_auto_resize = true), "NamespaceChanged");
        named(namespace(|n| n.location = Some("east".to_owned())), "NamespaceChanged");
        named(namespace(|n| n.visible = Visibility::Only(Vec::new())), "NamespaceChanged");
        let group = crate::target::config::AnaGroupConfig {
            id: 1,
            state: GroupState::Inaccessible,
            ports: std::collections::BTreeMap::new(),
        };
        named(after(|fabric| fabric.subsystems[0].ana_groups.push(group)), "AnaGroupChanged");
    }

    #[test]
    fn a_configuration_survives_being_written_down() {
        let text = serde_json::to_string(&start()).expect("serializes");
        assert_eq!(serde_json::from_str::<FabricConfig>(&text).expect("parses"), start());
    }
}
