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

/// What a target serves, and how.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// What hosts find. It can be changed while the target runs.
    pub fabric: FabricConfig,
    /// Run-time orders beside it. They can be changed while the target runs, too.
    pub directives: Directives,
    /// How many reactors, or where.
    pub reactors: Reactors,
    /// What is below the reactors.
    pub engine: Engine,
    /// Longest time a reactor polls before it sleeps, in microseconds; 0 never polls.
    pub poll_us_max: u64,
    /// Where reservations that outlive the target are kept; without it, none do.
    pub state_dir: Option<PathBuf>,
    /// The machine, by which serial numbers and UUIDs that are not configured differ from other targets'; random without it,
    /// and then hosts see other disks after each start.
    pub machine: Option<MachineId>,
    /// Whether it starts although files or devices cannot be opened. Their namespaces are absent then, and come when they can.
    pub may_disks_be_absent: bool,
    /// Sockets that somebody else has opened, a service manager for one. A port with such an address uses it.
    pub inherited: Vec<Arc<tcp::Opened>>,
    /// Whether it accepts nothing before it is told to go on, since it takes over from another process.
    pub is_held: bool,
    /// How images of Ceph clusters are reached.
    pub ceph: crate::ceph::CephConfig,
    /// The identifiers that controllers get, from 1 to FFEFh. Targets that serve a subsystem together have each their own.
    pub controller_ids: RangeInclusive<u16>,
    /// Whether hosts may reserve namespaces. Where gateways serve images together, the directives say so, too.
    pub reservations: bool,
    /// What tells its controllers from those of all other targets, from 1 on; random without it. It is the upper half of
    /// their instances' random numbers.
    pub tag: Option<u32>,
    /// Who takes hosts' wishes to reset controllers of other targets; without anybody they are refused.
    pub peer_resets: Option<PeerResets>,
    /// How much one host may take, and one network.
    pub quotas: Quotas,
    /// Records of TLS after which a queue ends whose host has not replaced its keys.
    pub tls_record_limit: RecordLimit,
    /// What keys in the configuration are sealed with; without it, hosts with such keys cannot connect.
    pub sealing_key: Option<Arc<SealingKey>>,
}

impl Default for TargetConfig {
    /// One reactor, which serves nothing.
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
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::Cpus(cpus) => cpus.len(),
        }
    }
}

/// How many reactors serve, or on which processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reactors {
    /// This number, wherever the system's scheduler puts them.
    Count(usize),
    /// One on each of these processors.
    Cpus(Vec<usize>),
}
