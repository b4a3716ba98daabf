//! Host and network that a controller and its queues count against.

use std::net::{IpAddr, Ipv4Addr};

/// Network of a host, for quotas: an IPv4 address, or the first 64 bits of an IPv6 address, which
/// one site has for itself. All loopback addresses are one network: any process of this machine has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u64);

impl Network {
    /// The one that an address is in.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self(u64::from(u32::from(Ipv4Addr::LOCALHOST))),
            IpAddr::V4(address) => Self(u64::from(u32::from(address))),
            IpAddr::V6(address) => Self((u128::from(address) >> 64) as u64),
        }
    }
}

/// Host and network whose quotas a controller counts against.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    pub(crate) nqn: String,
    pub(crate) network: Network,
    /// True if the host is on a subsystem's list of hosts, or proves its name by a key that its operator has given it.
    pub(crate) is_named: bool,
    /// True if the host has proved its name. What others take that claim it is not this host's.
    pub(crate) is_proved: bool,
}
