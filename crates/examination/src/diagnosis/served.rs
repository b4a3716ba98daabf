//! A target as the rules see it: what it served between two moments, what stands in the way of its hosts, and its group of
//! gateways. Who asked it is not known here.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::target_rates::rates::{Flow, Rates};

/// A target.
#[derive(Debug, Default)]
pub struct Served {
    /// Name of the target in a sentence.
    pub name: String,
    /// Argument of --control; empty if commands find the target by themselves.
    pub(crate) asked_at: String,
    /// Rates between the two moments.
    pub rates: Rates,
    pub namespaces: Vec<ServedNamespace>,
    /// Part of the time that each reactor worked, without its waiting for something to do.
    pub reactors_busy: BTreeMap<usize, f64>,
    /// Connect commands that were refused, by the rule in their way.
    pub refused: BTreeMap<String, Grown>,
    /// Controllers that ended since their host was silent.
    pub(crate) silent_hosts: Grown,
    /// I/O commands that failed.
    pub errors: Vec<CommandErrors>,
    /// Queues that were there at both moments.
    pub queues: Vec<ServedQueue>,
    /// Hosts that had other controllers at the second moment than at the first, and how many.
    pub(crate) reconnected: BTreeMap<String, u64>,
    /// Connections that are encrypted.
    pub tls_queues: u64,
    /// Hosts that derive their TLS keys as nvme-cli did before 2025, with how many queues.
    pub old_tls_hosts: BTreeMap<String, u64>,
    /// Gateway group, if the target is a gateway.
    pub group: Option<Group>,
}

/// A counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grown {
    /// Between the two moments.
    pub by: u64,
    /// Since the target started.
    pub to: u64,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedNamespace {
    pub subsystem: String,
    pub nsid: u32,
    /// `ready`, `failed` or `absent`.
    pub state: String,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// For how long the oldest operation is at its storage, in milliseconds.
    pub oldest_operation_ms: u64,
    /// Operations that have outlived the Command Quiesce Time.
    pub late_operations: u64,
    /// Storage by the name of its setting: `file`, `block`, `memory`, `rbd`.
    pub backend: String,
    /// Limits, by the name of their setting.
    pub limits: BTreeMap<String, u64>,
}

/// Commands that failed with one status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandErrors {
    pub subsystem: String,
    pub nsid: u32,
    pub status: String,
    pub count: Grown,
}

/// A queue at both moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedQueue {
    pub host: String,
    pub subsystem: String,
    pub cntlid: u16,
    /// The port by which its controller came.
    pub port: u16,
    pub queue_id: u16,
    pub peer: String,
    /// Round trip time, smoothed, in microseconds. It has in it what the host waits before it acknowledges.
    pub rtt_us: u64,
    /// I/O commands that it took in between.
    pub commands: u64,
    /// Bytes that the host has not acknowledged, at the first moment and at the second.
    pub unsent_bytes: (u64, u64),
    /// Bytes that it acknowledged in between; absent where the target does not tell.
    pub acknowledged_bytes: Option<u64>,
    /// Segments that were sent again in between.
    pub retransmits: u64,
}

/// A group of gateways, as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Group {
    pub group: String,
    pub gateway: String,
    pub has_lease: bool,
    pub gateways: Vec<Gateway>,
    pub load_balancing_groups: Vec<BalancingGroup>,
}

/// A gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Gateway {
    pub name: String,
    /// `alive`, `dead` or `left`.
    pub life: String,
    pub is_well: bool,
}

/// A load-balancing group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BalancingGroup {
    pub id: u32,
    pub(crate) preferred: String,
    pub owner: Option<String>,
    /// `serving`, `fencing` or `handing_over`.
    pub state: String,
    pub namespaces: u64,
}

impl Served {
    /// A command that asks this target.
    pub fn command(&self, words: &str) -> String {
        match self.asked_at.as_str() {
            "" => words.to_owned(),
            place => format!("{words} --control {place}"),
        }
    }

    /// Seconds from the first moment to the second.
    pub fn interval_s(&self) -> f64 {
        self.rates.interval_s.unwrap_or(0.0)
    }

    /// Returns the load of a namespace between the two moments, of all commands and of each kind.
    pub fn load(&self, namespace: &ServedNamespace) -> Option<(&Flow, &BTreeMap<String, Flow>)> {
        let subsystem = self.rates.subsystem(&namespace.subsystem)?;
        let found = subsystem.namespaces.iter().find(|found| found.nsid == namespace.nsid)?;
        Some((&found.load.total, &found.operations))
    }
}

impl ServedNamespace {
    /// Name of the namespace in a sentence.
    pub fn name(&self) -> String {
        format!("namespace {} of {}", self.nsid, self.subsystem)
    }
}
