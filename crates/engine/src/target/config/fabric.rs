//! Configuration of a target, as data: it can be stored, compared, and applied while the target runs.
//! Opens nothing; its effects are in other modules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use authentication::Group;
use nvme::log_page::AnaState;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::command_quiesce::CommandQuiesce;
use super::forgotten::Forgotten;
use super::host_key::HostKeyConfig;
use super::known_host::KnownHost;
use super::network_mask::NetworkMask;
use super::nguid::Nguid;
use super::sealed_secret::SealedSecret;
use super::tls_use::TlsUse;
use super::visibility::Visibility;
use super::write_protection::WriteProtection;
use super::{names, written};
use crate::address::{AddressError, HostAddress, NetAddress};
use crate::backend::{BackendConfig, FilePin};
use crate::limits::{COMMAND_QUIESCE_MS, IO_QUEUES_MAX, WRITE_DELAY_MARGIN_MS};
use crate::transport::Transport;
use crate::units::{self, Size};

/// Configuration that hosts see: addresses, subsystems, and other discovery services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Config")]
pub struct FabricConfig {
    /// Addresses to listen on.
    pub ports: Vec<PortConfig>,
    /// Subsystems to serve.
    pub subsystems: Vec<SubsystemConfig>,
    /// Other discovery services that hosts are referred to.
    #[serde(deserialize_with = "referrals")]
    pub referrals: Vec<ReferralConfig>,
    /// Unique NQN of this target's discovery subsystem, in addition to the well-known one (TP8013).
    #[serde(deserialize_with = "written::optional_nqn")]
    pub discovery_nqn: Option<String>,
}

/// Referrals; one whose address is written with its port is split.
fn referrals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ReferralConfig>, D::Error> {
    let written = Vec::<ReferralConfig>::deserialize(deserializer)?;
    Ok(written.into_iter().map(ReferralConfig::split).collect())
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Port")]
pub struct PortConfig {
    /// Port number, from 1 (PORTID), which changes of other ports do not affect; the lowest free one by default.
    #[serde(default, deserialize_with = "written::port_id")]
    pub id: u16,
    /// Address and port. Port 0 selects a free one. A link-local address needs its interface, as in
    /// `[fe80::1%eth0]:4420`.
    pub address: NetAddress,
    /// Address in the discovery log, if it differs from the one listened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Serves only the discovery subsystem here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub discovery_only: bool,
    /// Transport of the connections. Hosts with plain TCP are served on an MPTCP port too.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
    /// Congestion control by its name in the kernel, `auto` to follow the path of each connection, or `system`
    /// (the default) for the kernel's own.
    #[serde(default, deserialize_with = "written::congestion", skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// TLS mode of the connections. By default, TLS is required once a subsystem on this port has a
    /// TLS key for a host, and off until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsUse>,
}

/// Another discovery service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Referral")]
pub struct ReferralConfig {
    /// Address (TRADDR).
    pub address: String,
    /// Service (TRSVCID).
    #[serde(default = "written::service_default", deserialize_with = "written::service")]
    pub service: String,
    /// NQN of the discovery service; the well-known one by default.
    #[serde(default, deserialize_with = "written::optional_nqn", skip_serializing_if = "Option::is_none")]
    pub nqn: Option<String>,
}

/// A subsystem and its namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Subsystem")]
pub struct SubsystemConfig {
    /// NVMe qualified name.
    #[serde(deserialize_with = "written::subsystem_nqn")]
    pub nqn: String,
    /// Serial number, at most 20 ASCII characters; by default a unique one.
    #[serde(default, deserialize_with = "written::serial", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 20))]
    pub serial: String,
    /// Model number, at most 40 ASCII characters.
    #[serde(default = "written::model_default", deserialize_with = "written::model")]
    #[schemars(length(max = 40))]
    pub model: String,
    /// Allows every host to connect.
    #[serde(default)]
    pub allow_any_host: bool,
    /// NQNs of the hosts that may connect.
    #[serde(default, deserialize_with = "written::nqns")]
    pub hosts: Vec<String>,
    /// Hosts that are no longer among these, and whose connections stay until they end.
    #[serde(default, deserialize_with = "written::nqns", skip_serializing_if = "Vec::is_empty")]
    pub kept_hosts: Vec<String>,
    /// Secrets by which hosts have to authenticate, and keys of their TLS connections, an entry for each such host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_keys: Vec<HostKeyConfig>,
    /// The secret by which it authenticates to hosts that have one and ask for it, where they have none of it in `host_keys`:
    /// sealed with the key of `--encryption-key`, as the target has written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_ctrl_secret_sealed: Option<SealedSecret>,
    /// Diffie-Hellman groups for hosts whose entry in `host_keys` names none, the preferred one first. By default
    /// all but ffdhe6144 and ffdhe8192, whose computation is expensive; null is last. [default: all but
    /// ffdhe6144, ffdhe8192]
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub dhchap_dhgroup: Vec<Group>,
    /// The namespaces.
    #[serde(default)]
    pub namespaces: Vec<NamespaceConfig>,
    /// ANA groups whose state is not "optimized" everywhere. A group that is not here is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ana_groups: Vec<AnaGroupConfig>,
    /// Directory in which hosts may create namespaces; without it they may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageConfig>,
    /// Numbers of the ports that serve the subsystem; empty for all ports, and 0 alone for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Networks, such as `10.0.0.0/24`. If `ports` names any port, the ports at addresses in these networks serve
    /// the subsystem, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub networks: Vec<NetworkMask>,
    /// Command Quiesce Time reported to hosts (CQT), in milliseconds: time after the loss of a host in which
    /// commands of its controller may still take effect. [default: 2000]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_quiesce_ms: Option<u16>,
    /// Source of the Command Quiesce Time: fixed, or measured at the storage.
    #[serde(
        default,
        deserialize_with = "written::or_default",
        skip_serializing_if = "CommandQuiesce::is_fixed"
    )]
    pub command_quiesce: CommandQuiesce,
    /// Maximum number of I/O queues of a controller, for hosts that connect after a change. [default: 128]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub io_queues_max: Option<u16>,
}

/// A directory in which hosts may create namespaces as files (Namespace Management).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Storage")]
pub struct StorageConfig {
    /// Directory for the files of namespaces that hosts create.
    pub directory: PathBuf,
    /// Maximum size of all namespaces in the directory together.
    #[serde(deserialize_with = "units::bytes")]
    #[schemars(with = "Size")]
    pub bytes_max: u64,
    /// Maximum size of one host's namespaces together; half of `bytes_max` by default.
    #[serde(default, deserialize_with = "units::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Size>")]
    pub bytes_max_per_host: Option<u64>,
    /// Maximum number of namespaces that one host may create. [default: 64]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_max_per_host: Option<u32>,
    /// Folder of the list of allowed storage by which an administrator has named the directory: files of hosts are opened below
    /// it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_below: Option<PathBuf>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Namespace")]
pub struct NamespaceConfig {
    /// Namespace ID; the lowest free one by default.
    #[serde(default, deserialize_with = "written::nsid")]
    #[schemars(range(min = 1, max = 4096))]
    pub nsid: u32,
    /// Storage of the blocks.
    pub backend: BackendConfig,
    /// Block size in bytes, 512 or 4096; by default the sector size of a block device, and 4096 for all other
    /// backends.
    #[serde(default, deserialize_with = "written::block_size", skip_serializing_if = "is_zero")]
    #[schemars(with = "Size")]
    pub block_size: u32,
    /// UUID; by default derived from the storage, so it stays with the blocks.
    #[serde(default, deserialize_with = "written::uuid", skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// NGUID, 32 hexadecimal digits; by default the bytes of the UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub nguid: Option<Nguid>,
    /// ANA group, from 1, which is the load-balancing group of gateways.
    #[serde(
        default = "first_group",
        alias = "load_balancing_group",
        deserialize_with = "written::ana_group"
    )]
    pub ana_group: u32,
    /// Hosts of the subsystem that see the namespace.
    #[serde(default)]
    pub visible: Visibility,
    /// Limits on use by hosts.
    #[serde(default, skip_serializing_if = "QosConfig::is_unlimited")]
    pub qos: QosConfig,
    /// Write protection.
    #[serde(default, skip_serializing_if = "WriteProtection::is_none")]
    pub write_protection: WriteProtection,
    /// Highest write protection that hosts may set: the owner of the namespace or, without one, all hosts that
    /// see it. Hosts never lift the operator's.
    #[serde(default, skip_serializing_if = "WriteProtection::is_none")]
    pub host_write_protection: WriteProtection,
    /// Set if the write protection was set by a host, which may lift it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protected_by_host: bool,
    /// Set if a host created the namespace: its file is removed when it is deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub created_by_host: bool,
    /// The host that it belongs to, which alone attaches, detaches and deletes it. Without one it is the operator's, also
    /// when a host created it: targets that did not keep owners yet have left such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<KnownHost>,
    /// Delay of each write before it reaches the file or device, in milliseconds or as text with a unit; for
    /// tests of failover only.
    #[serde(default, deserialize_with = "written::write_delay_ms", skip_serializing_if = "is_zero")]
    #[schemars(range(max = 60_000))]
    pub write_delay_ms: u32,
    /// Allows another target to serve the same file or device, as a second path to the namespace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared_storage: bool,
    /// Limit of a file that an administrator with a list of allowed storage has named: another file that is put in its place is
    /// not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_pin: Option<FilePin>,
    /// Moves its image to the trash of the pool when the call `namespace_delete` of ceph-nvmeof removes it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trash_image: bool,
    /// Hides a new size of the image from hosts until the target opens the image again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disable_auto_resize: bool,
    /// Location of the gateways that serve it before others do, in a group of gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// A run-time order that former versions stored here, and that is in
    /// [`Directives`](super::Directives) now.
    #[doc(hidden)]
    #[serde(default, rename = "standby", skip_serializing)]
    pub former_standby: Forgotten,
}

/// Limits on the use of a namespace by all its hosts together. Unset limits are unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Qos")]
pub struct QosConfig {
    /// Read commands per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Write commands per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// Commands of both kinds together, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes read per second.
    #[serde(deserialize_with = "units::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Size>")]
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    #[serde(deserialize_with = "units::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Size>")]
    pub write_bytes: Option<u64>,
    /// Bytes of both kinds together, per second.
    #[serde(deserialize_with = "units::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Size>")]
    pub bytes: Option<u64>,
}

impl QosConfig {
    /// True if no limit is set.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// The states of one ANA group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnaGroup")]
pub struct AnaGroupConfig {
    /// Group number, from 1 on.
    pub id: u32,
    /// State on all ports that `ports` does not name.
    #[serde(default)]
    pub state: GroupState,
    /// State on single ports, by their numbers.
    #[serde(default, with = "written::by_port", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, GroupState>")]
    pub ports: BTreeMap<u16, GroupState>,
}

/// ANA state of a group on a port, by nvmet's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AnaState")]
pub enum GroupState {
    /// Everything works, as well as it can.
    #[default]
    Optimized,
    /// Everything works, but elsewhere better.
    NonOptimized,
    /// Not to be reached here now.
    Inaccessible,
    /// Not to be reached here again.
    PersistentLoss,
    /// On the way from one state to another.
    Change,
}

impl From<GroupState> for AnaState {
    fn from(state: GroupState) -> Self {
        match state {
            GroupState::Optimized => Self::Optimized,
            GroupState::NonOptimized => Self::NonOptimized,
            GroupState::Inaccessible => Self::Inaccessible,
            GroupState::PersistentLoss => Self::PersistentLoss,
            GroupState::Change => Self::Change,
        }
    }
}

/// The lowest number from `first` on that no port has. With every number taken it is one of them, which the check finds.
pub fn free_port(first: u16, taken: &[u16]) -> u16 {
    (first..u16::MAX).find(|id| !taken.contains(id)).unwrap_or(u16::MAX)
}

/// The lowest identifier that no namespace has.
pub fn free_nsid(taken: &[u32]) -> u32 {
    let taken: BTreeSet<&u32> = taken.iter().collect();
    (1..u32::MAX).find(|nsid| !taken.contains(nsid)).unwrap_or(u32::MAX)
}

const fn first_group() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// The number of no port, for a subsystem that is found nowhere.
pub const NO_PORT: u16 = 0;

impl PortConfig {
    /// Port number `id` at `address`, advertised to hosts unchanged.
    pub fn new(id: u16, address: SocketAddr) -> Self {
        Self::at(id, address.into())
    }

    /// The same, of an address with its interface.
    pub const fn at(id: u16, address: NetAddress) -> Self {
        let transport = Transport::Tcp;
        Self { id, address, advertise: None, discovery_only: false, transport, congestion: None, tls: None }
    }
}

impl ReferralConfig {
    /// The same, where an address that is written with its port, as in `10.0.0.2:8009`, is split. Earlier versions kept it
    /// whole, and hosts could not read it.
    #[must_use]
    pub fn split(mut self) -> Self {
        if let Ok(written) = self.address.parse::<HostAddress>() {
            self.address = written.host();
            self.service = written.port().map_or(self.service, |port| port.to_string());
        }
        self
    }

    /// Checks that hosts can read it.
    ///
    /// # Errors
    /// When the address is neither an IP address nor a host name, or the service is not a port.
    pub fn check(&self) -> Result<(), AddressError> {
        let service = self.service.parse().ok().filter(|port: &u16| *port > 0);
        let service = service.ok_or_else(|| AddressError::DiscoveryPort(self.service.clone()))?;
        let address: HostAddress = self.address.parse()?;
        address.check_for_hosts(service)
    }
}

impl SubsystemConfig {
    /// A subsystem without namespaces that every host may use.
    pub fn new(nqn: &str, serial: &str, model: &str) -> Self {
        Self {
            nqn: nqn.to_owned(),
            serial: serial.to_owned(),
            model: model.to_owned(),
            allow_any_host: true,
            hosts: Vec::new(),
            kept_hosts: Vec::new(),
            host_keys: Vec::new(),
            dhchap_ctrl_secret_sealed: None,
            dhchap_dhgroup: Vec::new(),
            namespaces: Vec::new(),
            ana_groups: Vec::new(),
            storage: None,
            ports: Vec::new(),
            networks: Vec::new(),
            command_quiesce_ms: None,
            command_quiesce: CommandQuiesce::Fixed,
            io_queues_max: None,
        }
    }

    /// Gives namespaces without an identifier the lowest that are free, in their order.
    pub fn number(&mut self) {
        let taken: BTreeSet<u32> = self.namespaces.iter().map(|namespace| namespace.nsid).collect();
        let mut free = (1..u32::MAX).filter(|nsid| !taken.contains(nsid));
        self.namespaces.iter_mut().for_each(NamespaceConfig::default_block_size);
        for namespace in self.namespaces.iter_mut().filter(|namespace| namespace.nsid == 0) {
            namespace.nsid = free.next().unwrap_or(u32::MAX);
        }
    }

    /// The namespaces by their identifiers: to search the list for each of thousands takes too
    /// long.
    pub fn by_nsid(&self) -> BTreeMap<u32, &NamespaceConfig> {
        self.namespaces.iter().map(|namespace| (namespace.nsid, namespace)).collect()
    }

    /// The same with these namespaces.
    #[must_use]
    pub fn with(mut self, namespaces: Vec<NamespaceConfig>) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// The state of ANA group `group` on the port with number `port`.
    pub fn group_state(&self, group: u32, port: u16) -> GroupState {
        let known = self.ana_groups.iter().find(|known| known.id == group);
        known.map_or(GroupState::Optimized, |known| *known.ports.get(&port).unwrap_or(&known.state))
    }

    /// Milliseconds after the loss of its host during which a controller's commands may still take
    /// effect, as reported to hosts (CQT): the configured time, but at least the time of a held
    /// back write; the minimum where the time is measured.
    pub fn command_quiesce_ms(&self) -> u16 {
        let longest = u16::try_from(self.longest_delay_ms()).unwrap_or(u16::MAX);
        self.command_quiesce_ms.unwrap_or(COMMAND_QUIESCE_MS).max(longest)
    }

    /// I/O queues that one controller may have.
    pub(crate) fn io_queues_max(&self) -> u16 {
        self.io_queues_max.unwrap_or(IO_QUEUES_MAX).clamp(1, IO_QUEUES_MAX)
    }

    /// Longest time of a write that is held back, in milliseconds.
    pub(crate) fn longest_delay_ms(&self) -> u32 {
        let delayed = self.namespaces.iter().map(|namespace| namespace.write_delay_ms).filter(|ms| *ms > 0);
        delayed.max().map_or(0, |longest| longest.saturating_add(WRITE_DELAY_MARGIN_MS))
    }

    /// True if the subsystem is served on this port.
    pub fn is_on(&self, port: &PortConfig) -> bool {
        let is_named = self.ports.is_empty() || self.ports.contains(&port.id);
        !port.discovery_only && (is_named || self.is_in_networks(port))
    }

    /// True if the address that hosts learn of the port is in a network of the subsystem.
    fn is_in_networks(&self, port: &PortConfig) -> bool {
        let address = match &port.advertise {
            Some(advertised) => advertised.parse().ok(),
            None => Some(port.address.ip()),
        };
        address.is_some_and(|address| self.networks.iter().any(|network| network.contains(address)))
    }
}

impl NamespaceConfig {
    /// Namespace `nsid` on `backend`, without limits, seen by all.
    pub fn new(nsid: u32, backend: BackendConfig, block_size: u32) -> Self {
        Self {
            nsid,
            backend,
            block_size,
            uuid: None,
            nguid: None,
            ana_group: first_group(),
            visible: Visibility::default(),
            qos: QosConfig::default(),
            write_protection: WriteProtection::None,
            host_write_protection: WriteProtection::None,
            protected_by_host: false,
            created_by_host: false,
            owner: None,
            write_delay_ms: 0,
            shared_storage: false,
            file_pin: None,
            trash_image: false,
            disable_auto_resize: false,
            location: None,
            former_standby: Forgotten,
        }
    }

    /// Gives it the size of its blocks where none was said, and no device has to be asked.
    pub const fn default_block_size(&mut self) {
        if self.block_size == 0 && !matches!(self.backend, BackendConfig::Block { .. }) {
            self.block_size = written::BLOCK_SIZE_DEFAULT;
        }
    }
}

impl FabricConfig {
    /// The same, where ports and namespaces without a number have the lowest that are free, in their order.
    #[must_use]
    pub fn numbered(mut self) -> Self {
        let mut taken: Vec<u16> = self.ports.iter().map(|port| port.id).collect();
        for port in self.ports.iter_mut().filter(|port| port.id == 0) {
            port.id = free_port(1, &taken);
            taken.push(port.id);
        }
        for subsystem in &mut self.subsystems {
            subsystem.number();
        }
        self
    }

    /// True if exactly one namespace is configured.
    pub(crate) fn has_one_namespace(&self) -> bool {
        self.subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum::<usize>() == 1
    }

    /// The subsystem with this name.
    pub fn subsystem(&self, nqn: &str) -> Option<&SubsystemConfig> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }

    /// The subsystem with this name, to be changed.
    pub fn subsystem_mut(&mut self, nqn: &str) -> Option<&mut SubsystemConfig> {
        self.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn)
    }
}
