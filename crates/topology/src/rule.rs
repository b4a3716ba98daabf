//! How many I/O queues an interface is good for: no more than it has queues and the machine has processors, as the RFC
//! "NIC topology aware I/O queue scaling" has it. Which queue goes where is not here.

use super::{Interface, InterfaceKind, Topology, legs};
use schemars::JsonSchema;

/// The most I/O queues that make sense over an interface.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct QueueLimit {
    /// The number, 1 at least.
    pub queues: u32,
    /// Derivation of the number, for people.
    pub reason: String,
    /// Advice to raise the number, where the processors could use more.
    pub hint: Option<String>,
}

/// The least of the processors that run and of the queues of each interface with queues that `interface` stands on: its
/// combined queues where it has any, else the lesser of its receive and transmit queues.
pub fn queue_limit(topology: &Topology, interface: &str) -> QueueLimit {
    let cpus = (topology.processors.online.len() as u32).max(1);
    let cpus_text = counted(cpus, "online CPU");
    let without_queues =
        |why: String| QueueLimit { queues: cpus, reason: format!("{cpus_text}: {why}"), hint: None };
    let Some(asked) = topology.interface(interface) else {
        return without_queues(format!("there is no interface `{interface}` whose queues could be counted"));
    };
    if asked.kind == InterfaceKind::Loopback {
        return without_queues(format!("{interface} is the machine itself, and no NIC with queues"));
    }
    let legs = legs(topology, interface);
    if legs.is_empty() {
        return without_queues(format!("nothing with queues leads out of {interface}"));
    }
    let mut queues = cpus;
    let mut parts = vec![cpus_text.clone()];
    let mut hints = Vec::new();
    for leg in legs {
        let found = Queues::of(leg);
        let Some(count) = found.count() else {
            parts.push(format!("the queues of {}, which are not known", leg.name));
            continue;
        };
        parts.extend(found.texts(&leg.name));
        hints.extend(hint(leg, found, count, cpus));
        queues = queues.min(count);
    }
    let hint = (!hints.is_empty()).then(|| hints.join("; "));
    QueueLimit { queues, reason: format!("the least of {}", parts.join(", ")), hint }
}

/// An interface's queues, counted as the rule wants them.
#[derive(Clone, Copy, Debug)]
enum Queues {
    Combined(u32),
    Apart { receive: u32, transmit: u32 },
}

impl Queues {
    fn of(interface: &Interface) -> Self {
        let channels = interface.channels.unwrap_or_default();
        if channels.combined.now > 0 {
            return Self::Combined(channels.combined.now);
        }
        // What ethtool does not tell is in sysfs, which has a folder for each queue.
        let or_listed = |reported: u32, listed: usize| if reported > 0 { reported } else { listed as u32 };
        Self::Apart {
            receive: or_listed(channels.receive.now, interface.receive.len()),
            transmit: or_listed(channels.transmit.now, interface.transmit.len()),
        }
    }

    /// None where nothing is known of them.
    fn count(self) -> Option<u32> {
        let count = match self {
            Self::Combined(count) => count,
            Self::Apart { receive, transmit } => receive.min(transmit),
        };
        Some(count).filter(|count| *count > 0)
    }

    fn texts(self, name: &str) -> Vec<String> {
        match self {
            Self::Combined(count) => vec![format!("{} of {name}", counted(count, "combined queue"))],
            Self::Apart { receive, transmit } => vec![
                format!("{} of {name}", counted(receive, "receive queue")),
                format!("{} of {name}", counted(transmit, "transmit queue")),
            ],
        }
    }
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Advice to give the interface more queues, if it can have them and there are processors for them.
fn hint(interface: &Interface, found: Queues, count: u32, cpus: u32) -> Option<String> {
    let channels = interface.channels?;
    let most = match found {
        Queues::Combined(_) => channels.combined.max,
        Queues::Apart { .. } => channels.receive.max.min(channels.transmit.max),
    };
    let better = most.min(cpus);
    if better <= count {
        return None;
    }
    let name = &interface.name;
    let change = match found {
        Queues::Combined(_) => format!("combined {better}"),
        // A number that is high enough already is left as it is.
        Queues::Apart { .. } => {
            let change = |word: &str, now: u32| (now < better).then(|| format!("{word} {better}"));
            let parts = [change("rx", channels.receive.now), change("tx", channels.transmit.now)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
    };
    Some(format!("`ethtool -L {name} {change}` would give it {better} queues"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channels, Processors, QueueCount, ReceiveQueue, TransmitQueue};

    fn machine(cpus: u32, interfaces: Vec<Interface>) -> Topology {
        let processors = Processors { online: (0..cpus).collect(), ..Processors::default() };
        Topology { processors, interfaces, ..Topology::default() }
    }

    fn nic(name: &str, combined: (u32, u32), receive: (u32, u32), transmit: (u32, u32)) -> Interface {
        let count = |(now, max)| QueueCount { now, max };
        let channels =
            Channels { combined: count(combined), receive: count(receive), transmit: count(transmit) };
        Interface {
            name: name.to_owned(),
            kind: InterfaceKind::Device,
            channels: Some(channels),
            ..Interface::default()
        }
    }

    fn upper(name: &str, kind: InterfaceKind, lower: &[&str]) -> Interface {
        let lower = lower.iter().map(ToString::to_string).collect();
        Interface { name: name.to_owned(), kind, lower, ..Interface::default() }
    }

    #[test]
    fn combined_queues_count_before_others() {
        let found = queue_limit(&machine(72, vec![nic("eth0", (32, 63), (2, 2), (2, 2))]), "eth0");
        assert_eq!(found.queues, 32);
        assert_eq!(found.reason, "the least of 72 online CPUs, 32 combined queues of eth0");
        let hint = found.hint.unwrap();
        assert_eq!(hint, "`ethtool -L eth0 combined 63` would give it 63 queues");
        let found = queue_limit(&machine(72, vec![nic("eth0", (72, 72), (0, 0), (0, 0))]), "eth0");
        assert_eq!((found.queues, found.hint), (72, None));
        let found = queue_limit(&machine(4, vec![nic("eth0", (8, 63), (0, 0), (0, 0))]), "eth0");
        assert_eq!((found.queues, found.hint), (4, None));
    }

    #[test]
    fn else_the_lesser_of_receive_and_transmit_queues() {
        let found = queue_limit(&machine(16, vec![nic("eth0", (0, 0), (8, 8), (4, 8))]), "eth0");
        assert_eq!(found.queues, 4);
        assert_eq!(found.hint.unwrap(), "`ethtool -L eth0 tx 8` would give it 8 queues");
        let mut bare = nic("eth0", (0, 0), (0, 0), (0, 0));
        bare.channels = None;
        bare.receive = (0..3).map(|index| ReceiveQueue { index, ..ReceiveQueue::default() }).collect();
        bare.transmit = (0..5).map(|index| TransmitQueue { index, ..TransmitQueue::default() }).collect();
        let found = queue_limit(&machine(16, vec![bare]), "eth0");
        let reason = "the least of 16 online CPUs, 3 receive queues of eth0, 5 transmit queues of eth0";
        assert_eq!((found.queues, found.reason.as_str(), found.hint), (3, reason, None));
    }

    #[test]
    fn what_stands_on_others_has_the_least_of_them() {
        let nics = [nic("eth0", (8, 8), (0, 0), (0, 0)), nic("eth1", (6, 16), (0, 0), (0, 0))];
        let bond = upper("bond0", InterfaceKind::Bond, &["eth0", "eth1"]);
        let vlan = upper("bond0.5", InterfaceKind::Vlan, &["bond0"]);
        let topology = machine(12, nics.into_iter().chain([bond, vlan]).collect());
        let found = queue_limit(&topology, "bond0.5");
        assert_eq!(found.queues, 6);
        assert!(found.reason.contains("eth0") && found.reason.contains("eth1"), "{}", found.reason);
        assert_eq!(found.hint.unwrap(), "`ethtool -L eth1 combined 12` would give it 12 queues");
    }

    #[test]
    fn without_queues_the_processors_are_the_limit() {
        let lone = upper("lo", InterfaceKind::Loopback, &[]);
        let bridge = upper("br0", InterfaceKind::Bridge, &["veth0"]);
        let veth = upper("veth0", InterfaceKind::Veth, &[]);
        let topology = machine(6, vec![lone, bridge, veth]);
        for (name, word) in [("lo", "itself"), ("br0", "leads out"), ("eth7", "eth7"), ("veth0", "not known")]
        {
            let found = queue_limit(&topology, name);
            assert_eq!((found.queues, found.hint), (6, None), "{name}");
            assert!(
                found.reason.contains("6 online CPUs") && found.reason.contains(word),
                "{}",
                found.reason
            );
        }
        assert_eq!(queue_limit(&Topology::default(), "lo").queues, 1);
    }
}
