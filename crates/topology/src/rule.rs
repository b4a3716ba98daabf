//! Number of I/O queues that an interface is good for: no more than it has queues and the machine has processors, as the
//! series "NIC topology aware I/O queue scaling" of July 2026 has it, but of the cards that carry the packets. The number
//! of a kernel that counts the interface itself is in `kernel_choice`; which queue goes where is not here.

use super::{Channels, Interface, InterfaceKind, Topology, legs};
use schemars::JsonSchema;

/// Statement about a device whose number of queues has no relation to a card's.
pub(crate) const NOTHING_HERE: &str = "the number of queues says nothing here";

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

/// The least of the processors that run and of the queues of each interface with queues that `interface` stands on: the
/// lesser of its receive and transmit queues that are in use.
pub fn queue_limit(topology: &Topology, interface: &str) -> QueueLimit {
    let cpus = (topology.processors.online.len() as u32).max(1);
    let cpus_text = counted(cpus, "online CPU");
    let without_queues =
        |why: String| QueueLimit { queues: cpus, reason: format!("{cpus_text}: {why}"), hint: None };
    if topology.interface(interface).is_none() {
        return without_queues(format!("there is no interface `{interface}` whose queues could be counted"));
    }
    let legs = legs(topology, interface);
    if let [only] = legs.as_slice()
        && let Some(nature) = without_card(only)
    {
        return without_queues(format!("{NOTHING_HERE}, since {nature}"));
    }
    if legs.is_empty() {
        return without_queues(format!("nothing with queues leads out of {interface}"));
    }
    let mut queues = cpus;
    let mut parts = vec![cpus_text.clone()];
    let mut hints = Vec::new();
    for leg in legs {
        if without_card(leg).is_some() {
            parts.push(format!("not those of {}, which belong to no card", leg.name));
            continue;
        }
        let found = Queues::of(leg);
        let Some(count) = found.count() else {
            parts.push(format!("the queues of {}, which are not known", leg.name));
            continue;
        };
        parts.extend(found.texts(&leg.name));
        hints.extend(hint(leg, count, cpus));
        queues = queues.min(count);
    }
    let hint = (!hints.is_empty()).then(|| hints.join("; "));
    QueueLimit { queues, reason: format!("the least of {}", parts.join(", ")), hint }
}

/// Nature of an interface whose queues belong to no card, and which has none below it that could be counted.
pub(crate) fn without_card(interface: &Interface) -> Option<String> {
    let name = &interface.name;
    match interface.kind {
        InterfaceKind::Loopback => Some(format!("{name} is the machine itself, and no NIC with queues")),
        InterfaceKind::Tunnel => Some(format!(
            "{name} is a tunnel: its packets travel inside others, which cards spread by the outer addresses and ports"
        )),
        InterfaceKind::Virtual => Some(format!("no card stands behind {name}")),
        _ => None,
    }
}

/// Queues of an interface in use, in each direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    receive: u32,
    transmit: u32,
    /// True if each of them does both.
    are_combined: bool,
}

impl Queues {
    /// Counts the folders in sysfs, of which there is one for each real queue of the kernel's; what is not there, by
    /// ethtool's channels.
    pub(crate) fn of(interface: &Interface) -> Self {
        let channels = interface.channels.unwrap_or_default();
        let combined = channels.combined.now;
        let or_reported = |listed: usize, reported: u32| {
            if listed > 0 { listed as u32 } else { combined.saturating_add(reported) }
        };
        let receive = or_reported(interface.receive.len(), channels.receive.now);
        let transmit = or_reported(interface.transmit.len(), channels.transmit.now);
        Self { receive, transmit, are_combined: combined > 0 && receive == combined && transmit == combined }
    }

    /// None where nothing is known of them.
    pub(crate) fn count(self) -> Option<u32> {
        Some(self.receive.min(self.transmit)).filter(|count| *count > 0)
    }

    fn texts(self, name: &str) -> Vec<String> {
        match self.are_combined {
            true => vec![format!("{} of {name}", counted(self.receive, "combined queue"))],
            false => vec![
                format!("{} of {name}", counted(self.receive, "receive queue")),
                format!("{} of {name}", counted(self.transmit, "transmit queue")),
            ],
        }
    }
}

pub(crate) fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Advice to give the interface more queues, if it can have them and there are processors for them.
fn hint(interface: &Interface, count: u32, cpus: u32) -> Option<String> {
    let Channels { combined, receive, transmit } = interface.channels?;
    // A card with both kinds gets more of those that do both.
    let most = if combined.now > 0 {
        combined.max.saturating_add(receive.now.min(transmit.now))
    } else {
        receive.max.min(transmit.max)
    };
    let better = most.min(cpus);
    if better <= count {
        return None;
    }
    let name = &interface.name;
    let change = if combined.now > 0 {
        format!("combined {}", better - receive.now.min(transmit.now).min(better))
    } else {
        // A number that is high enough already is left as it is.
        let change = |word: &str, now: u32| (now < better).then(|| format!("{word} {better}"));
        let parts = [change("rx", receive.now), change("tx", transmit.now)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    Some(format!("`ethtool -L {name} {change}` would give it {better} queues"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Processors, QueueCount, ReceiveQueue, TransmitQueue};

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
    fn queues_of_each_direction_are_counted_together() {
        let found = queue_limit(&machine(72, vec![nic("eth0", (32, 63), (0, 0), (0, 0))]), "eth0");
        assert_eq!(found.queues, 32);
        assert_eq!(found.reason, "the least of 72 online CPUs, 32 combined queues of eth0");
        let hint = found.hint.unwrap();
        assert_eq!(hint, "`ethtool -L eth0 combined 63` would give it 63 queues");
        let found = queue_limit(&machine(72, vec![nic("eth0", (72, 72), (0, 0), (0, 0))]), "eth0");
        assert_eq!((found.queues, found.hint), (72, None));
        let found = queue_limit(&machine(4, vec![nic("eth0", (8, 63), (0, 0), (0, 0))]), "eth0");
        assert_eq!((found.queues, found.hint), (4, None));
        // The kernel's real queues are the combined ones and the others.
        let found = queue_limit(&machine(72, vec![nic("eth0", (2, 4), (6, 6), (8, 8))]), "eth0");
        assert_eq!(found.queues, 8);
        assert_eq!(
            found.reason,
            "the least of 72 online CPUs, 8 receive queues of eth0, 10 transmit queues of eth0"
        );
        assert_eq!(found.hint.unwrap(), "`ethtool -L eth0 combined 4` would give it 10 queues");
    }

    #[test]
    fn queues_in_sysfs_count_before_those_of_ethtool() {
        let mut classes = nic("eth0", (8, 8), (0, 0), (0, 0));
        classes.receive = (0..8).map(|index| ReceiveQueue { index, ..ReceiveQueue::default() }).collect();
        // Two traffic classes send by queues of their own.
        classes.transmit = (0..16).map(|index| TransmitQueue { index, ..TransmitQueue::default() }).collect();
        let found = queue_limit(&machine(32, vec![classes.clone()]), "eth0");
        assert_eq!(found.queues, 8);
        assert!(found.reason.ends_with("8 receive queues of eth0, 16 transmit queues of eth0"), "{found:?}");
        classes.receive.truncate(3);
        assert_eq!(queue_limit(&machine(32, vec![classes]), "eth0").queues, 3);
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
        let receive = vec![ReceiveQueue::default()];
        let transmit = vec![TransmitQueue::default()];
        let tunnel = Interface { receive, transmit, ..upper("wg0", InterfaceKind::Tunnel, &[]) };
        let topology = machine(6, vec![lone, bridge, veth, tunnel]);
        for (name, word) in [
            ("lo", "says nothing here, since lo is the machine itself"),
            ("br0", "leads out"),
            ("eth7", "eth7"),
            ("veth0", "not known"),
            ("wg0", "says nothing here, since wg0 is a tunnel"),
        ] {
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
