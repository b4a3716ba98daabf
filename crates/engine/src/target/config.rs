//! What a target serves, as data: it can be written down, compared, and put into effect while the target runs.
//! It opens nothing; what it means for hosts is the other modules'.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use nvme::discovery::Nqn;
use nvme::log_page::AnaState;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::TargetError;
use super::quiesce_time::{self, CommandQuiesce};
use super::rights::KnownHost;
use super::write_protection::WriteProtection;
use crate::backend::BackendConfig;
use crate::limits::{
    ANA_GROUPS_MAX, COMMAND_QUIESCE_MS, HOSTS_MAX, NAMESPACES_MAX, PORTS_MAX, REFERRALS_MAX, SUBSYSTEMS_MAX,
    WRITE_DELAY_MARGIN_MS, WRITE_DELAY_MS_MAX,
};
use crate::transport::{Transport, congestion};

/// What hosts find: addresses, subsystems, and other discovery services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FabricConfig {
    /// Where the target listens.
    pub ports: Vec<PortConfig>,
    /// What it serves.
    pub subsystems: Vec<SubsystemConfig>,
    /// Other discovery services that hosts are told of.
    pub referrals: Vec<ReferralConfig>,
    /// A name of its own for this target's discovery subsystem, beside the well-known one (TP8013).
    pub discovery_nqn: Option<String>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// Its number, from 1 on (PORTID). It stays when other ports come and go.
    pub id: u16,
    /// Address and service. Service 0 takes a free one.
    pub address: SocketAddr,
    /// The address that discovery tells hosts, where it differs from the one listened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Whether only the discovery subsystem is to be found here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub discovery_only: bool,
    /// What carries its connections. Hosts that only have TCP are served on a port with MPTCP too.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
    /// Congestion control by its name in the kernel, or [`congestion::SYSTEM`] to leave it to the system;
    /// [`congestion::default_choice`] without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
}

/// A discovery service elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferralConfig {
    /// Its address (TRADDR).
    pub address: String,
    /// Its service (TRSVCID).
    pub service: String,
    /// Its name; the well-known one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nqn: Option<String>,
}

/// A subsystem and its namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubsystemConfig {
    /// NVMe qualified name.
    pub nqn: String,
    /// Serial number, at most 20 ASCII characters; while it is empty, the target gives one that no other target has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Model number, at most 40 ASCII characters.
    pub model: String,
    /// Whether every host may connect.
    #[serde(default)]
    pub allow_any_host: bool,
    /// NQNs of the hosts that may connect.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The namespaces.
    #[serde(default)]
    pub namespaces: Vec<NamespaceConfig>,
    /// ANA groups whose state is not "optimized" everywhere. A group that is not here is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ana_groups: Vec<AnaGroupConfig>,
    /// Where hosts may create namespaces; without it they may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageConfig>,
    /// The ports it is found on, by their numbers; on all where this is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// After its host is lost, no command of a controller takes effect later than so many milliseconds (CQT);
    /// [`Self::command_quiesce_ms`] is what hosts are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_quiesce_ms: Option<u16>,
    /// Whether that time is fixed, or follows what the storage takes.
    #[serde(default, skip_serializing_if = "CommandQuiesce::is_fixed")]
    pub command_quiesce: CommandQuiesce,
}

/// A directory in which hosts may create namespaces as files (Namespace Management).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    /// The directory.
    pub directory: PathBuf,
    /// Bytes that all namespaces in it may have together.
    pub bytes_max: u64,
    /// Bytes that those of one host may have; [`Self::host_bytes_max`] is what counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max_per_host: Option<u64>,
    /// Namespaces that one host may create; [`Self::host_namespaces_max`] is what counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_max_per_host: Option<u32>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceConfig {
    /// Namespace identifier, from 1 on.
    pub nsid: u32,
    /// Where its blocks live.
    pub backend: BackendConfig,
    /// Bytes of a block: 512 or 4096.
    pub block_size: u32,
    /// Its UUID; without one, that of what is behind it: it stays while the blocks do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Its ANA group, from 1 on.
    #[serde(default = "first_group")]
    pub ana_group: u32,
    /// Which of the subsystem's hosts see it.
    #[serde(default)]
    pub visible: Visibility,
    /// How much of it hosts may use in a second.
    #[serde(default, skip_serializing_if = "QosConfig::is_unlimited")]
    pub qos: QosConfig,
    /// Whether it may be written.
    #[serde(default, skip_serializing_if = "WriteProtection::is_none")]
    pub write_protection: WriteProtection,
    /// The highest write protection that hosts may set, those that see it, or its owner alone if it has one; they lift none
    /// that the operator has set.
    #[serde(default, skip_serializing_if = "WriteProtection::is_none")]
    pub host_write_protection: WriteProtection,
    /// Whether its write protection was set by a host, which may lift it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protected_by_host: bool,
    /// Whether a host created it, so that its file goes with it when it is deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub created_by_host: bool,
    /// The host that it belongs to, which alone attaches, detaches and deletes it. Without one it is the operator's, also
    /// when a host created it: targets that did not keep owners yet have left such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<KnownHost>,
    /// Milliseconds for which each write is held back before it reaches the file or device: for trying what happens
    /// when a path fails over slow storage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_delay_ms: u32,
    /// Whether another target over the same file or device may serve it too, as a second way to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared_storage: bool,
    /// Whether another gateway writes to its image for now: it is open here, and nobody reaches its blocks as long as its
    /// ANA group is inaccessible, which is the caller's to see to.
    #[serde(default, skip_serializing_if = "is_false")]
    pub standby: bool,
    /// Which opening of its backend this is: with another number it is opened anew, for instance on a new connection to its
    /// cluster, and hosts keep it meanwhile. It is not kept.
    #[serde(skip)]
    pub opening: u64,
}

/// Which hosts see a namespace, of those that may use its subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Visibility {
    /// All but these.
    AllExcept(Vec<String>),
    /// These and no others.
    Only(Vec<String>),
}

impl Default for Visibility {
    fn default() -> Self {
        Self::AllExcept(Vec::new())
    }
}

impl Visibility {
    /// Whether the host with this name sees the namespace.
    pub fn includes(&self, host_nqn: &str) -> bool {
        let named = |hosts: &[String]| hosts.iter().any(|host| host == host_nqn);
        match self {
            Self::AllExcept(hosts) => !named(hosts),
            Self::Only(hosts) => named(hosts),
        }
    }

    /// Lets the host with this name see it.
    pub fn attach(&mut self, host_nqn: &str) {
        match self {
            Self::AllExcept(hosts) => hosts.retain(|host| host != host_nqn),
            Self::Only(hosts) if !hosts.iter().any(|host| host == host_nqn) => {
                hosts.push(host_nqn.to_owned());
            }
            Self::Only(_) => {}
        }
    }

    /// Hides it from the host with this name.
    pub fn detach(&mut self, host_nqn: &str) {
        match self {
            Self::AllExcept(hosts) if !hosts.iter().any(|host| host == host_nqn) => {
                hosts.push(host_nqn.to_owned());
            }
            Self::AllExcept(_) => {}
            Self::Only(hosts) => hosts.retain(|host| host != host_nqn),
        }
    }

    /// The hosts it names.
    pub fn hosts(&self) -> &[String] {
        match self {
            Self::AllExcept(hosts) | Self::Only(hosts) => hosts,
        }
    }
}

/// How much of a namespace all its hosts together may use in a second. Nothing is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QosConfig {
    /// Commands that read, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Commands that write, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// Commands of both kinds together, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes read, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Bytes of both kinds together, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl QosConfig {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// The states of one ANA group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnaGroupConfig {
    /// Its number, from 1 on.
    pub id: u32,
    /// Its state on all ports that are not named in `ports`.
    #[serde(default)]
    pub state: GroupState,
    /// Its state on single ports, by their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<u16, GroupState>,
}

/// ANA state of a group on a port, by nvmet's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl PortConfig {
    /// Port number `id` at `address`, told to hosts as it is.
    pub const fn new(id: u16, address: SocketAddr) -> Self {
        let transport = Transport::Tcp;
        Self { id, address, advertise: None, discovery_only: false, transport, congestion: None }
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
            namespaces: Vec::new(),
            ana_groups: Vec::new(),
            storage: None,
            ports: Vec::new(),
            command_quiesce_ms: None,
            command_quiesce: CommandQuiesce::Fixed,
        }
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

    /// How many milliseconds after the loss of its host a controller's commands may still take effect, as hosts are
    /// told (CQT): what is configured, or as long as a write that is held back may take; the least of it where it is measured.
    pub fn command_quiesce_ms(&self) -> u16 {
        let longest = u16::try_from(self.longest_delay_ms()).unwrap_or(u16::MAX);
        self.command_quiesce_ms.unwrap_or(COMMAND_QUIESCE_MS).max(longest)
    }

    /// How long a write that is held back may take.
    pub(super) fn longest_delay_ms(&self) -> u32 {
        let delayed = self.namespaces.iter().map(|namespace| namespace.write_delay_ms).filter(|ms| *ms > 0);
        delayed.max().map_or(0, |longest| longest.saturating_add(WRITE_DELAY_MARGIN_MS))
    }

    /// Whether it is found on the port with this number.
    pub fn is_on(&self, port: &PortConfig) -> bool {
        !port.discovery_only && (self.ports.is_empty() || self.ports.contains(&port.id))
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
            standby: false,
            opening: 0,
        }
    }
}

impl FabricConfig {
    /// The subsystem with this name.
    pub fn subsystem(&self, nqn: &str) -> Option<&SubsystemConfig> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }

    /// The subsystem with this name, to be changed.
    pub fn subsystem_mut(&mut self, nqn: &str) -> Option<&mut SubsystemConfig> {
        self.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn)
    }

    /// Checks all that needs nothing opened.
    ///
    /// # Errors
    /// `TargetError::Config`, which says what is wrong and where.
    pub fn check(&self) -> Result<(), TargetError> {
        if self.ports.len() > PORTS_MAX {
            return wrong(format!("a target listens on at most {PORTS_MAX} addresses"));
        }
        if self.subsystems.len() > SUBSYSTEMS_MAX {
            return wrong(format!("a target serves at most {SUBSYSTEMS_MAX} subsystems"));
        }
        if self.referrals.len() > REFERRALS_MAX {
            return wrong(format!("a target refers to at most {REFERRALS_MAX} discovery services"));
        }
        for (at, port) in self.ports.iter().enumerate() {
            if port.id == 0 {
                return wrong(format!("port {}: numbers begin at 1", port.address));
            }
            if self.ports[..at].iter().any(|other| other.id == port.id) {
                return wrong(format!("port number {} is there twice", port.id));
            }
            let same = |other: &PortConfig| other.address == port.address && port.address.port() != 0;
            if self.ports[..at].iter().any(same) {
                return wrong(format!("port {} is there twice", port.address));
            }
            if let Some(name) = &port.congestion
                && !congestion::is_name(name)
            {
                return wrong(format!("port {}: `{name}` is no name of a congestion control", port.address));
            }
        }
        for referral in &self.referrals {
            check_referral(referral)?;
        }
        if let Some(nqn) = &self.discovery_nqn
            && let Err(error) = Nqn::new(nqn)
        {
            return wrong(format!("discovery name {nqn}: {error}"));
        }
        for (at, subsystem) in self.subsystems.iter().enumerate() {
            let same = |other: &SubsystemConfig| other.nqn == subsystem.nqn;
            if self.subsystems[..at].iter().any(same) || self.discovery_nqn.as_ref() == Some(&subsystem.nqn) {
                return wrong(format!("subsystem {} is there twice", subsystem.nqn));
            }
            check_subsystem(subsystem)?;
            if let Some(port) = subsystem.ports.iter().find(|id| !self.ports.iter().any(|p| p.id == **id)) {
                return wrong(format!("subsystem {}: there is no port number {port}", subsystem.nqn));
            }
        }
        Ok(())
    }
}

fn wrong(message: String) -> Result<(), TargetError> {
    Err(TargetError::Config(message))
}

fn check_referral(referral: &ReferralConfig) -> Result<(), TargetError> {
    let name = format!("referral {}:{}", referral.address, referral.service);
    if referral.address.is_empty() || referral.address.len() > 255 || !referral.address.is_ascii() {
        return wrong(format!("{name}: the address is not 1 to 255 ASCII characters"));
    }
    if referral.service.parse::<u16>().is_err() {
        return wrong(format!("{name}: the service is not a number up to 65535"));
    }
    match referral.nqn.as_deref().map(Nqn::new) {
        Some(Err(error)) => wrong(format!("{name}: {error}")),
        _ => Ok(()),
    }
}

fn check_subsystem(config: &SubsystemConfig) -> Result<(), TargetError> {
    let wrong = |message: String| wrong(format!("subsystem {}: {message}", config.nqn));
    match Nqn::new(&config.nqn) {
        Err(error) => return wrong(error.to_string()),
        Ok(name) if name.is_discovery() => return wrong("this name is the discovery service's".to_owned()),
        Ok(_) => {}
    }
    if !config.serial.is_ascii() || config.serial.len() > 20 {
        return wrong(format!("serial number {:?} is not at most 20 ASCII characters", config.serial));
    }
    if !config.model.is_ascii() || config.model.len() > 40 {
        return wrong(format!("model {:?} is not at most 40 ASCII characters", config.model));
    }
    let hosts = config.namespaces.iter().flat_map(|namespace| namespace.visible.hosts());
    for host in config.hosts.iter().chain(hosts) {
        if let Err(error) = Nqn::new(host) {
            return wrong(format!("host {host}: {error}"));
        }
    }
    if config.hosts.len() > HOSTS_MAX {
        return wrong(format!("at most {HOSTS_MAX} hosts can be named"));
    }
    quiesce_time::check(config).or_else(wrong)?;
    for (at, group) in config.ana_groups.iter().enumerate() {
        if group.id == 0 || group.id > ANA_GROUPS_MAX {
            return wrong(format!("ANA group {}: groups go from 1 to {ANA_GROUPS_MAX}", group.id));
        }
        if config.ana_groups[..at].iter().any(|other| other.id == group.id) {
            return wrong(format!("ANA group {} is there twice", group.id));
        }
    }
    for (at, namespace) in config.namespaces.iter().enumerate() {
        if config.namespaces[..at].iter().any(|other| other.nsid == namespace.nsid) {
            return wrong(format!("namespace {} is there twice", namespace.nsid));
        }
        let same = |other: &NamespaceConfig| other.uuid.is_some() && other.uuid == namespace.uuid;
        if config.namespaces[..at].iter().any(same) {
            return wrong(format!("namespace {}: another has the same UUID", namespace.nsid));
        }
        check_namespace(namespace)
            .or_else(|message| wrong(format!("namespace {}: {message}", namespace.nsid)))?;
    }
    Ok(())
}

fn check_namespace(namespace: &NamespaceConfig) -> Result<(), String> {
    if namespace.nsid == 0 || namespace.nsid > NAMESPACES_MAX {
        return Err(format!("identifiers go from 1 to {NAMESPACES_MAX}"));
    }
    if !matches!(namespace.block_size, 512 | 4096) {
        return Err(format!("block={} is neither 512 nor 4096", namespace.block_size));
    }
    if namespace.ana_group == 0 || namespace.ana_group > ANA_GROUPS_MAX {
        return Err(format!("ANA groups go from 1 to {ANA_GROUPS_MAX}"));
    }
    if namespace.visible.hosts().len() > HOSTS_MAX {
        return Err(format!("at most {HOSTS_MAX} hosts can be named"));
    }
    if namespace.write_delay_ms > WRITE_DELAY_MS_MAX {
        return Err(format!("writes can be held back for at most {WRITE_DELAY_MS_MAX} ms"));
    }
    if (namespace.write_delay_ms > 0 || namespace.shared_storage)
        && !matches!(namespace.backend, BackendConfig::File { .. } | BackendConfig::Block { .. })
    {
        return Err("only a file or block device can be shared, or have its writes held back".to_owned());
    }
    if let Some(owner) = &namespace.owner {
        Nqn::new(&owner.nqn).map_err(|error| format!("owner {}: {error}", owner.nqn))?;
        if owner.host_id.is_nil() {
            return Err(format!("owner {}: a HOSTID of zeroes is no host's", owner.nqn));
        }
    }
    if namespace.standby && !matches!(namespace.backend, BackendConfig::Rbd(_)) {
        return Err("only an image of a Ceph cluster can stand by".to_owned());
    }
    let qos = &namespace.qos;
    let limits = [qos.read_iops, qos.write_iops, qos.iops, qos.read_bytes, qos.write_bytes, qos.bytes];
    if limits.contains(&Some(0)) {
        return Err("a limit of 0 lets nothing through; leave it out for none".to_owned());
    }
    Ok(())
}
