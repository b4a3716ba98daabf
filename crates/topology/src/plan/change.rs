//! One change of a machine's settings, and how a person would make it by hand.

use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rule::counted;
use crate::{Channels, CpuSet, NtupleRule};

/// A change, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// Why it is made.
    pub why: String,
}

/// A change of one setting. What it was is found out when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    /// The number of an interface's queues.
    Channels {
        /// The interface.
        interface: String,
        /// New numbers of queues.
        channels: Channels,
    },
    /// Rules for single flows are switched on.
    NtupleOn {
        /// The interface.
        interface: String,
    },
    /// A rule that sends a flow to a queue.
    Rule {
        /// The interface.
        interface: String,
        /// The rule.
        rule: NtupleRule,
    },
    /// The table of receive side scaling.
    RssTable {
        /// The interface.
        interface: String,
        /// All its entries.
        table: Vec<u32>,
    },
    /// The processors that may serve an interrupt.
    Affinity {
        /// Number of the interrupt.
        irq: u32,
        /// Name of the interrupt, for people.
        name: String,
        /// The processors.
        cpus: CpuSet,
    },
    /// The processors that send by a transmit queue.
    Xps {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The processors; none is off.
        cpus: CpuSet,
    },
    /// The processors that packets of a receive queue are spread over.
    Rps {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The processors; none is off.
        cpus: CpuSet,
    },
    /// The processors that a thread may run on.
    Thread {
        /// Process of the thread.
        pid: u32,
        /// The thread.
        thread: u32,
        /// The processors.
        cpus: CpuSet,
    },
}

impl Change {
    /// The file that is written, below the root, where the change is a file's.
    pub fn file(&self) -> Option<String> {
        match self {
            Self::Affinity { irq, .. } => Some(format!("proc/irq/{irq}/smp_affinity_list")),
            Self::Xps { interface, queue, .. } => {
                Some(format!("sys/class/net/{interface}/queues/tx-{queue}/xps_cpus"))
            }
            Self::Rps { interface, queue, .. } => {
                Some(format!("sys/class/net/{interface}/queues/rx-{queue}/rps_cpus"))
            }
            _ => None,
        }
    }

    /// New content of that file.
    pub fn content(&self) -> Option<String> {
        match self {
            Self::Affinity { cpus, .. } => Some(cpus.to_string()),
            Self::Xps { cpus, .. } | Self::Rps { cpus, .. } => Some(cpus.mask()),
            _ => None,
        }
    }

    /// The interface that is changed, where it is one's.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Channels { interface, .. }
            | Self::NtupleOn { interface }
            | Self::Rule { interface, .. }
            | Self::RssTable { interface, .. }
            | Self::Xps { interface, .. }
            | Self::Rps { interface, .. } => Some(interface),
            Self::Affinity { .. } | Self::Thread { .. } => None,
        }
    }

    pub(super) fn is_affinity(&self) -> bool {
        matches!(self, Self::Affinity { .. })
    }

    pub(super) fn is_channels_of(&self, name: &str) -> bool {
        matches!(self, Self::Channels { interface, .. } if interface == name)
    }

    /// The command a person would type; a comment where there is none.
    pub fn shell(&self) -> String {
        match self {
            Self::Channels { interface, channels } => {
                let mut text = format!("ethtool -L {interface}");
                let parts =
                    [("combined", channels.combined), ("rx", channels.receive), ("tx", channels.transmit)];
                for (name, count) in parts.iter().filter(|(_, count)| count.max > 0) {
                    let _ = write!(text, " {name} {}", count.now);
                }
                text
            }
            Self::NtupleOn { interface } => format!("ethtool -K {interface} ntuple on"),
            Self::Rule { interface, rule } => rule_shell(interface, rule),
            Self::RssTable { interface, .. } => format!(
                "# {interface}: single entries of the table of receive side scaling; ethtool has no words for them, \
                 `selvedge tune apply` sets them"
            ),
            Self::Affinity { .. } | Self::Xps { .. } | Self::Rps { .. } => {
                let (file, content) = (self.file().unwrap_or_default(), self.content().unwrap_or_default());
                format!("echo {content} > /{file}")
            }
            Self::Thread { thread, cpus, .. } => format!("taskset -pc {cpus} {thread}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = |cpus: &CpuSet| if cpus.is_empty() { "off".to_owned() } else { format!("CPU {cpus}") };
        match self {
            Self::Channels { interface, channels } => {
                let count = channels.combined.now.max(channels.receive.now.min(channels.transmit.now));
                write!(f, "{interface}: {}", counted(count, "queue"))
            }
            Self::NtupleOn { interface } => write!(f, "{interface}: rules for single flows on"),
            Self::Rule { interface, rule } => match rule.flow.zip(rule.queue) {
                Some(((source, destination), queue)) => {
                    write!(f, "{interface}: {source} -> {destination} to queue {queue}")
                }
                None => write!(f, "{interface}: rule {}", rule.location),
            },
            Self::RssTable { interface, table } => {
                write!(f, "{interface}: RSS table of {} entries", table.len())
            }
            Self::Affinity { irq, name, cpus } => write!(f, "IRQ {irq} ({name}) to CPU {cpus}"),
            Self::Xps { interface, queue, cpus } => write!(f, "{interface} tx-{queue}: XPS {}", off(cpus)),
            Self::Rps { interface, queue, cpus } => write!(f, "{interface} rx-{queue}: RPS {}", off(cpus)),
            Self::Thread { pid, thread, cpus } => write!(f, "thread {thread} of process {pid} to CPU {cpus}"),
        }
    }
}

fn rule_shell(interface: &str, rule: &NtupleRule) -> String {
    let Some(((source, destination), queue)) = rule.flow.zip(rule.queue) else {
        return format!("# {interface}: rule {} is none of a single flow", rule.location);
    };
    let family = if source.is_ipv4() { "tcp4" } else { "tcp6" };
    format!(
        "ethtool -N {interface} flow-type {family} src-ip {} dst-ip {} src-port {} dst-port {} action {queue} loc {}",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port(),
        rule.location
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueCount;

    #[test]
    fn a_person_could_type_it() {
        let interface = || "eth0".to_owned();
        let count = |now, max| QueueCount { now, max };
        let combined = Channels { combined: count(4, 8), ..Channels::default() };
        let apart = Channels { receive: count(4, 4), transmit: count(2, 4), ..Channels::default() };
        let flow = Some(("[fe80::1]:4420".parse().unwrap(), "[fe80::2]:1025".parse().unwrap()));
        let rule = NtupleRule { location: 7, flow, queue: Some(3), scope: crate::RuleScope::Unknown };
        let cpus: CpuSet = "1,33".parse().unwrap();
        let shells = [
            (Change::Channels { interface: interface(), channels: combined }, "ethtool -L eth0 combined 4"),
            (Change::Channels { interface: interface(), channels: apart }, "ethtool -L eth0 rx 4 tx 2"),
            (Change::NtupleOn { interface: interface() }, "ethtool -K eth0 ntuple on"),
            (
                Change::Rule { interface: interface(), rule },
                "ethtool -N eth0 flow-type tcp6 src-ip fe80::1 dst-ip fe80::2 src-port 4420 dst-port 1025 action 3 \
                 loc 7",
            ),
            (
                Change::Affinity { irq: 40, name: "x".to_owned(), cpus: cpus.clone() },
                "echo 1,33 > /proc/irq/40/smp_affinity_list",
            ),
            (
                Change::Xps { interface: interface(), queue: 2, cpus: cpus.clone() },
                "echo 2,00000002 > /sys/class/net/eth0/queues/tx-2/xps_cpus",
            ),
            (
                Change::Rps { interface: interface(), queue: 2, cpus: CpuSet::default() },
                "echo 0 > /sys/class/net/eth0/queues/rx-2/rps_cpus",
            ),
            (Change::Thread { pid: 1, thread: 2, cpus }, "taskset -pc 1,33 2"),
        ];
        for (change, shell) in shells {
            assert_eq!(change.shell(), shell);
        }
    }
}
