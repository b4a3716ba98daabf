//! The kernel's route to an address, and the addresses of this machine.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Route to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelRoute {
    /// Name of the interface that packets leave by.
    pub interface: String,
    /// The router that they go to first.
    pub gateway: Option<IpAddr>,
    /// The address that they come from, where the kernel chooses one.
    pub source: Option<IpAddr>,
    /// Largest packet, where the route or the learnt path MTU gives one.
    pub mtu_bytes: Option<u32>,
}

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceAddress {
    /// Name of its interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Leading bits that all of its network have.
    pub prefix_length: u8,
    /// True for an IPv6 address that does not last or cannot be used: temporary, tentative,
    /// duplicate, or deprecated and about to expire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_transient: bool,
}

impl InterfaceAddress {
    /// True if another address is of the same network.
    pub fn is_near(&self, other: IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
            IpAddr::V6(address) => (address.to_bits(), false),
        };
        let ((own, is_v4), (others, other_is_v4)) = (bits(self.address), bits(other));
        let length = u32::from(self.prefix_length);
        if is_v4 != other_is_v4 || length == 0 {
            return is_v4 == other_is_v4;
        }
        let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
        own & mask == others & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_near() {
        let near = |own: &str, prefix_length, other: &str| {
            let address = own.parse().unwrap();
            let interface = "eth0".to_owned();
            InterfaceAddress { interface, address, prefix_length, is_transient: false }
                .is_near(other.parse().unwrap())
        };
        assert!(near("10.0.0.1", 24, "10.0.0.9") && !near("10.0.0.1", 24, "10.0.1.9"));
        assert!(near("10.0.0.1", 32, "10.0.0.1") && !near("10.0.0.1", 32, "10.0.0.2"));
        assert!(near("fd00::1", 64, "fd00::2") && !near("fd00::1", 64, "fd00:0:0:1::2"));
        assert!(!near("fd00::1", 64, "10.0.0.1") && near("10.0.0.1", 0, "192.168.0.1"));
    }
}
