//! Whose places a controller and its queues take: a host, and the network that it comes from.

use std::net::IpAddr;

/// Where a host comes from, as one party: an IPv4 address, or the 64 bits of an IPv6 address that one party has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u64);

impl Network {
    /// The one that an address is in.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(u32::from(address))),
            IpAddr::V6(address) => Self((u128::from(address) >> 64) as u64),
        }
    }
}

/// Whose a controller is, as far as places go.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    pub(crate) nqn: String,
    pub(crate) network: Network,
    /// Whether it is on a subsystem's list.
    pub(crate) is_named: bool,
}
