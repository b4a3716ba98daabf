//! Status of a running target: its ports, its controllers with their queues, its reactors.
//! A snapshot, made on request; counters of commands are in `metrics`.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::host_key_age::HostKeyAge;
use crate::address::NetAddress;
use crate::backend::SyncFailure;
use crate::ring::{self};
use crate::target::config::{CommandQuiesce, Nguid, PortConfig};
use crate::target::controller::ControllerStatus;
use crate::target::fabric::{Fabric, Quotas};
use crate::target::reactor::ReactorStatus;
use crate::target::telemetry::Peculiarity;
use crate::transport::Transport;

/// A running target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TargetStatus {
    /// Addresses the target listens on.
    pub ports: Vec<PortStatus>,
    /// Subsystems, in the order of the configuration.
    pub subsystems: Vec<SubsystemStatus>,
    /// Namespaces, in the order of the configuration.
    pub namespaces: Vec<NamespaceStatus>,
    /// Connected controllers, in the order of their identifiers.
    pub controllers: Vec<ControllerStatus>,
    /// Reactors.
    pub reactors: Vec<ReactorStatus>,
    /// Quotas for one host and one network.
    pub quotas: Quotas,
    /// Number of refused controllers and queues, by rule.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Number of connections whose hosts have shown unusual behaviour that was accepted, by its
    /// name; entries of 0 are omitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peculiarities: BTreeMap<&'static str, u64>,
    /// Modification times of hosts' secrets and TLS keys, by subsystem; omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_keys: Vec<HostKeyAge>,
}

/// Counts of peculiarities by name, without those of 0.
pub(crate) fn counts_by_name(counts: Vec<(Peculiarity, u64)>) -> BTreeMap<&'static str, u64> {
    let seen = counts.into_iter().filter(|(_, connections)| *connections > 0);
    seen.map(|(peculiarity, connections)| (peculiarity.name(), connections)).collect()
}

/// An address the target listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PortStatus {
    /// Port number.
    pub id: u16,
    /// The address with the real service.
    pub address: NetAddress,
    /// Transport of the connections of hosts that support it.
    pub transport: Transport,
}

impl PortStatus {
    pub(crate) const fn of(port: &PortConfig) -> Self {
        Self { id: port.id, address: port.address, transport: port.transport }
    }
}

/// A subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SubsystemStatus {
    /// Name of the subsystem.
    pub nqn: String,
    /// Command Quiesce Time reported to hosts, in milliseconds.
    pub command_quiesce_ms: u16,
    /// Source of that time.
    pub command_quiesce: CommandQuiesce,
    /// The longest that an operation has been at its storage, in milliseconds.
    pub longest_operation_ms: u64,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NamespaceStatus {
    /// The subsystem's name.
    pub subsystem: String,
    /// Namespace identifier.
    pub nsid: u32,
    /// State of the namespace.
    pub state: NamespaceState,
    /// Size in bytes; unknown while the namespace is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The UUID that hosts know it by; one that is absent and was not given any has none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// The NGUID that hosts know it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub nguid: Option<Nguid>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Write protection as hosts find it: set by an operator or a host, or since the storage can only be read.
    pub write_protected: bool,
    /// Remarks on its storage for the operator, a clause each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// True if a power failure may leave a block with parts of two writes.
    pub may_tear: bool,
    /// For how long the oldest operation is at its storage, in milliseconds; 0 without one.
    pub oldest_operation_ms: u64,
    /// Operations that are at its storage now and have outlived the Command Quiesce Time.
    pub late_operations: u64,
}

/// State of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamespaceState {
    /// The namespace can be used.
    Ready,
    /// A sync has failed: the namespace is read-only, and refuses Flush, until it is reopened.
    Failed,
    /// The image is not available now.
    Absent,
}

/// A namespace that refuses writes, since its storage could not be synchronized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFailure {
    /// The subsystem's name.
    pub nqn: String,
    /// The namespace.
    pub nsid: u32,
    /// The failed sync.
    pub failure: SyncFailure,
}

/// All subsystems.
pub(crate) fn subsystems(fabric: &Fabric) -> Vec<SubsystemStatus> {
    let directory = fabric.directory();
    let subsystems = directory.subsystems.iter().map(|subsystem| SubsystemStatus {
        nqn: subsystem.nqn.clone(),
        command_quiesce_ms: subsystem.quiesce.reported_ms(),
        command_quiesce: subsystem.state().config.command_quiesce,
        longest_operation_ms: subsystem.quiesce.longest().as_millis() as u64,
    });
    subsystems.collect()
}

/// All namespaces that are configured.
pub(crate) fn namespaces(fabric: &Fabric) -> Vec<NamespaceStatus> {
    let (directory, absent) = (fabric.directory(), fabric.absent());
    let mut namespaces = Vec::new();
    let now = ring::now();
    for subsystem in &directory.subsystems {
        let (state, counted) = (subsystem.state(), subsystem.counters.by_namespace());
        for config in &state.config.namespaces {
            let missing = absent.iter().find(|known| known.nqn == subsystem.nqn && known.nsid == config.nsid);
            let open = state.namespaces.get(&config.nsid);
            let failure = open
                .filter(|open| open.has_failed())
                .and_then(|open| Some(format!("{} on {}", open.backend.failure()?, open.backend.place())));
            let (state, reason) = match (failure, missing) {
                (Some(failure), _) => (NamespaceState::Failed, Some(failure)),
                (None, Some(missing)) => (NamespaceState::Absent, Some(missing.reason.clone())),
                (None, None) => (NamespaceState::Ready, None),
            };
            let may_tear = open.is_some_and(|open| !open.backend.keeps_blocks_whole(config.block_size));
            let oldest = counted.get(&config.nsid).and_then(|counts| counts.oldest);
            namespaces.push(NamespaceStatus {
                subsystem: subsystem.nqn.clone(),
                nsid: config.nsid,
                state,
                size_bytes: open.map(|open| open.blocks() * u64::from(config.block_size)),
                uuid: open.map(|open| Uuid::from_bytes(open.uuid)).or(config.uuid),
                nguid: open.map(|open| open.nguid).or(config.nguid).or(config.uuid.map(Nguid::from)),
                reason,
                write_protected: open
                    .map_or(!config.write_protection.is_none(), |open| open.is_write_protected()),
                remarks: open.map(|open| open.backend.remarks().to_vec()).unwrap_or_default(),
                may_tear,
                oldest_operation_ms: oldest.map_or(0, |oldest| now.since(oldest).as_millis() as u64),
                late_operations: open.map_or(0, |open| open.lateness.under_way()),
            });
        }
    }
    namespaces
}

/// The namespaces that have failed.
pub(crate) fn failures(fabric: &Fabric) -> Vec<NamespaceFailure> {
    let directory = fabric.directory();
    let all = directory.subsystems.iter().flat_map(|subsystem| subsystem.namespaces());
    let failed = all.filter(|namespace| namespace.has_failed());
    let failures = failed.filter_map(|namespace| {
        let (nqn, nsid, failure) =
            (namespace.nqn.clone(), namespace.nsid, namespace.backend.failure()?.clone());
        Some(NamespaceFailure { nqn, nsid, failure })
    });
    failures.collect()
}
