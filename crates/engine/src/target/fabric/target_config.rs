//! How a target runs, and what it serves at first, as data. What it serves is `config`'s.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use super::admission::Quotas;
use secure_channel::{RecordLimit, SealingKey};

use crate::limits::{CONTROLLER_IDS, POLL_US_MAX};
use crate::ring::{Engine, tcp};
use crate::target::config::{Directives, FabricConfig};
use crate::target::identity::MachineId;
use crate::target::messaging::PeerResets;

/// Configuration of a target.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Subsystems, ports and hosts. Can be changed while the target runs.
    pub fabric: FabricConfig,
    /// Run-time orders beside it. They can be changed while the target runs, too.
    pub directives: Directives,
    /// Number of reactors, or their processors.
    pub reactors: Reactors,
    /// Interface to the kernel below the reactors.
    pub engine: Engine,
    /// Longest time a reactor polls before it sleeps, in microseconds; 0 never polls.
    pub poll_us_max: u64,
    /// Directory of reservations that outlive the target; without it, none do.
    pub state_dir: Option<PathBuf>,
    /// The machine, by which serial numbers and UUIDs that are not configured differ from other targets'; random without it,
    /// and then hosts see other disks after each start.
    pub machine: Option<MachineId>,
    /// Starts even if files or devices cannot be opened. Their namespaces are absent at first, and
    /// appear when they can.
    pub may_disks_be_absent: bool,
    /// Sockets opened by another process, such as a service manager. A port with the same address uses them.
    pub inherited: Vec<Arc<tcp::Opened>>,
    /// Accepts no connection until it is resumed, because it takes over from another process.
    pub is_held: bool,
    /// Access to images of Ceph clusters.
    pub ceph: crate::ceph::CephConfig,
    /// The identifiers that controllers get, from 1 to FFEFh. Targets that serve a subsystem together have each their own.
    pub controller_ids: RangeInclusive<u16>,
    /// Allows hosts to reserve namespaces. Where gateways serve images together, the directives
    /// have to allow it too.
    pub reservations: bool,
    /// Number, from 1 on, that distinguishes the target's controllers from those of all other
    /// targets; random by default. It is the upper half of their instances' random numbers.
    pub tag: Option<u32>,
    /// Receiver of hosts' requests to reset controllers of other targets; without it they are
    /// refused.
    pub peer_resets: Option<PeerResets>,
    /// Quotas for one host and one network.
    pub quotas: Quotas,
    /// Records of TLS after which a queue ends whose host has not replaced its keys.
    pub tls_record_limit: RecordLimit,
    /// Key with which secrets in the configuration are encrypted; without it, hosts with such
    /// secrets cannot connect.
    pub sealing_key: Option<Arc<SealingKey>>,
}

impl Default for TargetConfig {
    /// A single reactor, which serves nothing.
    fn default() -> Self {
        Self {
            fabric: FabricConfig::default(),
            directives: Directives::default(),
            reactors: Reactors::Count(1),
            engine: Engine::Automatic,
            poll_us_max: POLL_US_MAX,
            state_dir: None,
            machine: None,
            may_disks_be_absent: false,
            inherited: Vec::new(),
            is_held: false,
            ceph: crate::ceph::CephConfig::default(),
            controller_ids: CONTROLLER_IDS,
            reservations: true,
            tag: None,
            peer_resets: None,
            quotas: Quotas::default(),
            tls_record_limit: RecordLimit::default(),
            sealing_key: None,
        }
    }
}

impl Reactors {
    /// Number of reactors.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::Cpus(cpus) => cpus.len(),
        }
    }
}

/// Number of reactors, or their processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reactors {
    /// This number, wherever the system's scheduler puts them.
    Count(usize),
    /// A reactor on each of these processors.
    Cpus(Vec<usize>),
}
