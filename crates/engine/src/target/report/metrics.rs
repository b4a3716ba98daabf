//! Counters and gauges of a target, summed over the counters of all reactors on request. Their format
//! for Prometheus is in `exposition`; connected hosts are also in `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::host_key_age::{HostKeyAge, host_key_ages};
use super::queue_shares::reported_queues;
use crate::backend::Backend;
use crate::limits::{METRICS_DETAILED_MAX, METRICS_NAMESPACES_MAX};
use crate::ring;
use crate::target::config::{FabricConfig, GroupState};
use crate::target::fabric::Fabric;
use crate::target::reactor::{Reactor, ReactorMetrics};
use crate::target::served::Subsystem;
use crate::target::telemetry::{
    HandshakeKind, Histogram, NamespaceCounts, Operation, OperationCounts, Peculiarity, QueueMetrics,
    SizeClass, Stage,
};
use crate::transport::congestion;

/// A running target's numbers at one moment. What is counted never falls while its subsystem is configured: queues,
/// controllers and namespaces may come and go.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Start time of the target.
    pub started: SystemTime,
    /// Counters of subsystems, in the order of the configuration.
    pub subsystems: Vec<SubsystemMetrics>,
    /// Connected controllers, in the order of their identifiers, those of discovery services
    /// included.
    pub controllers: Vec<ControllerMetrics>,
    /// Counters of reactors.
    pub reactors: Vec<ReactorMetrics>,
    /// Number of refused controllers and queues, by rule.
    pub refusals: Vec<(&'static str, u64)>,
    /// Controllers whose keep alive timers ran out.
    pub keep_alive_expiries: u64,
    /// Discovery controllers that had to go, since others came.
    pub discovery_ended: u64,
    /// Controllers of unproved hosts that ended for a proved host with the same HOSTID.
    pub displaced: u64,
    /// Changes of hosts that made too many.
    pub changes_refused: u64,
    /// On how many connections hosts did something unusual that was accepted.
    pub peculiarities: Vec<(Peculiarity, u64)>,
    /// TLS handshakes that succeeded, by what they came to.
    pub tls_handshakes: Vec<(HandshakeKind, u64)>,
    /// Modification times of hosts' secrets and TLS keys.
    pub host_keys: Vec<HostKeyAge>,
    /// Number of connections whose congestion control was changed to suit their path, by the new
    /// one.
    pub congestion_changes: Vec<(&'static str, u64)>,
    /// Namespaces beyond `limits::METRICS_NAMESPACES_MAX`, which are left out.
    pub namespaces_omitted: usize,
    /// Queues beyond `limits::METRICS_QUEUES_MAX`, or beyond their host's share of that, which are left out.
    pub queues_omitted: usize,
}

/// Counters of one subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemMetrics {
    /// Name of the subsystem.
    pub nqn: String,
    /// Command Quiesce Time reported to hosts.
    pub command_quiesce: Duration,
    /// The longest that an operation has been at its storage.
    pub longest_operation: Duration,
    /// Namespaces whose disk or image is not available now.
    pub absent: usize,
    /// Namespaces in the order of their identifiers: the present ones, and former ones that hosts
    /// used. Number 0 stands for commands that named no existing namespace, if there were any.
    pub namespaces: Vec<NamespaceMetrics>,
}

impl SubsystemMetrics {
    /// Counters of the namespace with this identifier, unless they are left out.
    pub fn namespace(&self, nsid: u32) -> Option<&NamespaceMetrics> {
        let at = self.namespaces.binary_search_by_key(&nsid, |namespace| namespace.nsid).ok()?;
        self.namespaces.get(at)
    }
}

/// Counters of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceMetrics {
    /// Namespace identifier.
    pub nsid: u32,
    /// Bytes it has, `None` when it is gone.
    pub size_bytes: Option<u64>,
    /// The state of its ANA group on each port it is found on.
    pub access: Vec<(u16, GroupState)>,
    /// Commands that went well: reads and writes always, the others when there were any.
    pub operations: Vec<OperationMetrics>,
    /// Commands that failed.
    pub errors: Vec<ErrorMetrics>,
    /// Errors of the storage, each of which made a command fail.
    pub media_errors: u64,
    /// True if the namespace refuses writes since a sync has failed; `None` if it is absent.
    pub has_failed: Option<bool>,
    /// Operations at its storage; `None` if it is absent, or in memory.
    pub storage: Option<StorageMetrics>,
}

/// Operations at a namespace's storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageMetrics {
    /// For how long the oldest operation is there; nothing when there is none.
    pub oldest: Duration,
    /// Operations that change blocks or synchronize them and outlived the Command Quiesce Time.
    pub late_changes: u64,
    /// Others that did.
    pub late_others: u64,
}

/// The commands of one operation that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationMetrics {
    /// The operation.
    pub operation: Operation,
    /// Bytes that travelled with the commands in either direction, lists of ranges too.
    pub bytes: u64,
    /// From the round of the reactor in which a command was taken off the socket to the one in which its answer was
    /// queued. What is answered in its own round takes no time here.
    pub latency: Histogram,
    /// Parts of that time by stage; empty if no command took time, and of namespaces beyond
    /// `limits::METRICS_DETAILED_MAX`.
    pub stages: Vec<StageMetrics>,
}

/// Commands of one operation and size that were in one stage, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageMetrics {
    /// The stage.
    pub stage: Stage,
    /// The size of the commands.
    pub size: SizeClass,
    /// Times in the stage.
    pub times: Histogram,
}

impl OperationMetrics {
    /// Number of commands.
    pub fn commands(&self) -> u64 {
        self.latency.count()
    }
}

/// The commands that failed with one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMetrics {
    /// Status type and code, without flags; `None` for all beyond the first `limits::STATUSES_COUNTED_MAX`.
    pub status: Option<nvme::Status>,
    /// Number of commands.
    pub commands: u64,
}

/// Counters of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerMetrics {
    /// Controller identifier (CNTLID).
    pub cntlid: u16,
    /// The subsystem's name.
    pub subsystem: String,
    /// The host's name.
    pub host_nqn: String,
    /// The port it came by.
    pub port: u16,
    /// I/O queues of the controller.
    pub queues: Vec<QueueMetrics>,
}

impl NamespaceMetrics {
    fn memory_bytes(&self) -> usize {
        let operation = |of: &OperationMetrics| size_of_val(of) + size_of_val(of.stages.as_slice());
        let lists = size_of_val(self.access.as_slice()) + size_of_val(self.errors.as_slice());
        size_of_val(self) + lists + self.operations.iter().map(operation).sum::<usize>()
    }
}

impl ControllerMetrics {
    fn memory_bytes(&self) -> usize {
        let names = self.subsystem.len() + self.host_nqn.len();
        size_of_val(self) + names + size_of_val(self.queues.as_slice())
    }
}

impl Metrics {
    /// Bytes of memory that the numbers of all namespaces and controllers take.
    pub fn memory_bytes(&self) -> usize {
        let namespaces = self.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let of_namespaces: usize = namespaces.map(NamespaceMetrics::memory_bytes).sum();
        of_namespaces + self.controllers.iter().map(ControllerMetrics::memory_bytes).sum::<usize>()
    }

    /// The numbers of what serves `fabric` on `reactors` since `started`.
    pub(crate) fn of(fabric: &Fabric, reactors: &[Reactor], started: SystemTime) -> Self {
        let directory = fabric.directory();
        let mut metrics = Self {
            started,
            subsystems: Vec::with_capacity(directory.subsystems.len()),
            controllers: Vec::new(),
            reactors: reactors.iter().map(Reactor::metrics).collect(),
            refusals: fabric.refusals.read(),
            keep_alive_expiries: fabric.refusals.silent_ended(),
            discovery_ended: fabric.refusals.discovery_ended(),
            displaced: fabric.refusals.displaced(),
            changes_refused: fabric.refusals.changes(),
            peculiarities: fabric.peculiarities.counts(),
            tls_handshakes: fabric.tls_handshakes.read(),
            host_keys: host_key_ages(fabric),
            congestion_changes: congestion::changes(),
            namespaces_omitted: 0,
            queues_omitted: 0,
        };
        let absent = fabric.absent();
        let (mut namespaces_left, mut detailed_left) = (METRICS_NAMESPACES_MAX, METRICS_DETAILED_MAX);
        for subsystem in &directory.subsystems {
            let mut namespaces = namespaces_of(subsystem, &directory.config);
            metrics.namespaces_omitted += namespaces.len().saturating_sub(namespaces_left);
            namespaces.truncate(namespaces_left);
            namespaces_left -= namespaces.len();
            let brief = namespaces.iter_mut().skip(detailed_left);
            // Most of what a namespace takes.
            brief.flat_map(|brief| &mut brief.operations).for_each(|of| of.stages = Vec::new());
            detailed_left = detailed_left.saturating_sub(namespaces.len());
            metrics.subsystems.push(SubsystemMetrics {
                nqn: subsystem.nqn.clone(),
                command_quiesce: subsystem.quiesce.reported(),
                longest_operation: subsystem.quiesce.longest(),
                absent: absent.iter().filter(|known| known.nqn == subsystem.nqn).count(),
                namespaces,
            });
        }
        (metrics.controllers, metrics.queues_omitted) = controllers_of(fabric);
        metrics
    }
}

/// All controllers, and the number of queues that are left out.
fn controllers_of(fabric: &Fabric) -> (Vec<ControllerMetrics>, usize) {
    let mut all: Vec<ControllerMetrics> = fabric
        .controllers()
        .iter()
        .map(|controller| ControllerMetrics {
            cntlid: controller.id,
            subsystem: controller.subsystem.nqn.clone(),
            host_nqn: controller.host.nqn.clone(),
            port: controller.port,
            queues: controller.meters.living(),
        })
        .collect();
    let counts: Vec<_> = all.iter().map(|one| (one.host_nqn.as_str(), one.queues.len())).collect();
    let (reported, mut omitted) = (reported_queues(&counts), 0);
    for (controller, reported) in all.iter_mut().zip(reported) {
        omitted += controller.queues.len() - reported;
        controller.queues.truncate(reported);
    }
    (all, omitted)
}

/// The namespaces a subsystem has, and those of which something was counted.
fn namespaces_of(subsystem: &Arc<Subsystem>, fabric: &FabricConfig) -> Vec<NamespaceMetrics> {
    let now = ring::now();
    let mut counted = subsystem.counters.by_namespace();
    let state = subsystem.state();
    let ports: Vec<u16> =
        fabric.ports.iter().filter(|port| state.config.is_on(port)).map(|port| port.id).collect();
    let groups: BTreeMap<u32, u32> =
        state.config.namespaces.iter().map(|config| (config.nsid, config.ana_group)).collect();
    let nsids: BTreeSet<u32> = counted.keys().chain(state.namespaces.keys()).copied().collect();
    let namespaces = nsids.into_iter().map(|nsid| {
        let open = state.namespaces.get(&nsid);
        let group = open.and_then(|_| groups.get(&nsid));
        let access = group
            .map(|group| ports.iter().map(|port| (*port, state.config.group_state(*group, *port))).collect());
        let counts = counted.remove(&nsid).unwrap_or_default();
        NamespaceMetrics {
            nsid,
            size_bytes: open.map(|namespace| namespace.blocks() << namespace.block_shift()),
            access: access.unwrap_or_default(),
            operations: operations_of(nsid, &counts),
            errors: errors_of(&counts),
            media_errors: counts.media_errors,
            has_failed: open.map(|namespace| namespace.has_failed()),
            storage: open.filter(|open| matches!(*open.backend, Backend::Device(_))).map(|_| {
                StorageMetrics {
                    oldest: counts.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest)),
                    late_changes: counts.late_changes,
                    late_others: counts.late_others,
                }
            }),
        }
    });
    namespaces.collect()
}

fn operations_of(nsid: u32, counts: &NamespaceCounts) -> Vec<OperationMetrics> {
    let operations = Operation::ALL.into_iter().zip(&counts.operations);
    let all = operations.map(|(operation, counts)| OperationMetrics {
        operation,
        bytes: counts.bytes,
        latency: counts.latency,
        stages: stages_of(counts),
    });
    // A rate needs the number from before the first command; nearly every namespace is read and written some day.
    let is_usual = |operation| nsid > 0 && matches!(operation, Operation::Read | Operation::Write);
    all.filter(|metrics| is_usual(metrics.operation) || metrics.commands() > 0).collect()
}

fn stages_of(counts: &OperationCounts) -> Vec<StageMetrics> {
    let Some(by_size) = &counts.stages else { return Vec::new() };
    let all = SizeClass::ALL.into_iter().zip(by_size.iter()).flat_map(|(size, stages)| {
        let of_size = Stage::ALL.into_iter().zip(stages);
        of_size.map(move |(stage, times)| StageMetrics { stage, size, times: *times })
    });
    all.filter(|metrics| metrics.times.sum_ns > 0).collect()
}

fn errors_of(counts: &NamespaceCounts) -> Vec<ErrorMetrics> {
    let known = counts.statuses.iter().map(|(status, commands)| ErrorMetrics {
        status: Some(nvme::Status::from_bits(*status)),
        commands: *commands,
    });
    let other = ErrorMetrics { status: None, commands: counts.other_statuses };
    known.chain((other.commands > 0).then_some(other)).collect()
}
