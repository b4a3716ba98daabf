//! Missing MPTCP settings of a machine, for a target and for a host. The module runs no commands.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::machine::{Limits, Machine};
use super::{MptcpPlan, Words};

/// The most that the kernel takes for either limit, and the most addresses that its path manager tells a peer of.
const LIMIT_MAX: u8 = 8;

/// Command of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The kernel's limits as they are to be.
    Limits {
        /// Current limits.
        before: Limits,
    },
    /// An address that is to be used.
    Endpoint { address: IpAddr, interface: Option<String>, role: Role },
}

/// Use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The address is announced to peers, which connect to it.
    Signal,
    /// Connections go out by it.
    Subflow,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Subflow => "subflow",
        }
    }
}

fn limits(add_addr_accepted: u8, subflows: u8) -> Words {
    let values = [add_addr_accepted.to_string(), subflows.to_string()];
    let [accepted, subflows] = values;
    let words = ["mptcp", "limits", "set", "add_addr_accepted", &accepted, "subflows", &subflows];
    words.map(str::to_owned).to_vec()
}

impl Step {
    /// The command, without the program.
    pub(super) fn words(&self) -> Words {
        match self {
            Self::Limits { .. } => limits(LIMIT_MAX, LIMIT_MAX),
            Self::Endpoint { address, interface, role } => {
                let mut words = ["mptcp", "endpoint", "add"].map(str::to_owned).to_vec();
                words.push(address.to_string());
                if let Some(interface) = interface {
                    words.extend(["dev".to_owned(), interface.clone()]);
                }
                words.push(role.word().to_owned());
                words
            }
        }
    }

    /// The command that undoes it. An endpoint that has no number is gone.
    pub(super) fn undoing(&self, endpoint_id: Option<u32>) -> Option<Words> {
        match self {
            Self::Limits { before } => Some(limits(before.add_addr_accepted, before.subflows)),
            Self::Endpoint { .. } => endpoint_id.map(|id| {
                let id = id.to_string();
                ["mptcp", "endpoint", "delete", "id", &id].map(str::to_owned).to_vec()
            }),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip {}", self.words().join(" "))
    }
}

/// Returns the missing settings for hosts of a target that listens on these addresses.
pub(super) fn for_target(machine: &Machine, listening: &[SocketAddr]) -> MptcpPlan {
    let mut signalled: Vec<IpAddr> = Vec::new();
    for (at, address) in listening.iter().enumerate() {
        if address.ip().is_unspecified() {
            // `::` is all addresses, and `0.0.0.0` those of IPv4.
            let global = machine.global_addresses().map(|(ip, _)| ip);
            signalled.extend(global.filter(|ip| ip.is_ipv4() || address.is_ipv6()));
        } else if listening[..at].iter().any(|known| known.port() == address.port()) {
            // A host goes on to another address with the service it knows already.
            signalled.push(address.ip().to_canonical());
        }
    }
    plan(machine, &signalled, Role::Signal)
}

/// Returns the missing settings for connections of this machine.
pub(super) fn for_host(machine: &Machine) -> MptcpPlan {
    let used: Vec<IpAddr> = machine
        .global_addresses()
        .filter(|(ip, interface)| {
            let [own, other] = if ip.is_ipv4() { [0, 1] } else { [1, 0] };
            match (machine.routes[own].first(), machine.routes[other].first()) {
                (Some(route), _) => match route.prefsrc {
                    Some(source) => *ip != source,
                    // The kernel then takes the first address of the interface.
                    None => {
                        route.dev != interface.name || first_address(machine, &route.dev, *ip) != Some(*ip)
                    }
                },
                // Where connections go out by IPv4 alone, the IPv6 address beside it is no other way, and vice versa.
                (None, Some(route)) => route.dev != interface.name,
                (None, None) => true,
            }
        })
        .map(|(ip, _)| ip)
        .collect();
    plan(machine, &used, Role::Subflow)
}

/// The first global address of an interface that is of the family of `like`.
fn first_address(machine: &Machine, interface: &str, like: IpAddr) -> Option<IpAddr> {
    let mut addresses = machine.global_addresses().filter(|(_, known)| known.name == interface);
    addresses.find(|(ip, _)| ip.is_ipv4() == like.is_ipv4()).map(|(ip, _)| ip)
}

fn plan(machine: &Machine, addresses: &[IpAddr], role: Role) -> MptcpPlan {
    let mut plan = MptcpPlan { commands: Vec::new(), remarks: Vec::new() };
    let before = machine.limits;
    if before.add_addr_accepted < LIMIT_MAX || before.subflows < LIMIT_MAX {
        plan.commands.push(Step::Limits { before });
    }
    let has_role = |endpoint: &super::machine::Endpoint| match role {
        Role::Signal => endpoint.signal,
        Role::Subflow => endpoint.subflow,
    };
    let mut count = machine.endpoints.iter().filter(|endpoint| has_role(endpoint)).count();
    for (at, address) in addresses.iter().enumerate() {
        if addresses[..at].contains(address) {
            continue;
        }
        match machine.endpoints.iter().find(|endpoint| endpoint.address == *address) {
            Some(endpoint) if has_role(endpoint) => {}
            Some(endpoint) => plan.remarks.push(format!(
                "{address} is an endpoint already, but not for {}: `ip mptcp endpoint delete id {}` makes room",
                role.word(),
                endpoint.id
            )),
            None if count >= usize::from(LIMIT_MAX) => plan.remarks.push(format!(
                "{address} is one too many: the kernel uses {LIMIT_MAX} endpoints for {}",
                role.word()
            )),
            None => {
                count += 1;
                let interface = machine.interface_of(*address).map(|interface| interface.name.clone());
                plan.commands.push(Step::Endpoint { address: *address, interface, role });
            }
        }
    }
    plan
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
