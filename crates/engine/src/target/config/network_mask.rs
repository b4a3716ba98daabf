//! A range of addresses by the bits that they begin with, such as `10.0.0.0/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::SettingError;

/// Bits of IPv6 before an IPv4 address that is mapped into it.
const MAPPED_BITS: u8 = 96;

/// Network of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkMask {
    /// The lowest address.
    first: IpAddr,
    prefix_bits: u8,
}

impl NetworkMask {
    /// True if the address is in the network. An IPv4 address that is mapped into IPv6 is one of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && lowest(address, self.prefix_bits) == self.first
    }
}

/// The lowest address whose first bits are those of `address`.
fn lowest(address: IpAddr, prefix_bits: u8) -> IpAddr {
    let bits = u32::from(prefix_bits);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or_default();
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or_default();
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

impl FromStr for NetworkMask {
    type Err = SettingError;

    /// Reads an address with the number of its first bits that count; without the number all count.
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let wrong = || SettingError::Network(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all: u8 = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let prefix_bits: u8 = match bits {
            None => all,
            Some(bits) => {
                Some(bits).filter(is_number).and_then(|bits| bits.parse().ok()).ok_or_else(wrong)?
            }
        };
        if prefix_bits > all {
            return Err(wrong());
        }
        // Addresses of IPv4 that are mapped into IPv6 are those of IPv4, and so is a network of them.
        let mapped = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => address.to_ipv4_mapped(),
        };
        let (address, prefix_bits) = match mapped {
            Some(mapped) => (IpAddr::V4(mapped), prefix_bits.checked_sub(MAPPED_BITS).ok_or_else(wrong)?),
            None => (address, prefix_bits),
        };
        Ok(Self { first: lowest(address, prefix_bits), prefix_bits })
    }
}

impl fmt::Display for NetworkMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

impl fmt::Debug for NetworkMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for NetworkMask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NetworkMask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::config::{NO_PORT, PortConfig, SubsystemConfig};

    fn contains(network: &str, address: &str) -> bool {
        network.parse::<NetworkMask>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn addresses_are_in_the_network_whose_first_bits_they_have() {
        for (network, inside, outside) in [
            ("10.0.0.0/24", "10.0.0.255", "10.0.1.0"),
            ("10.0.0.128/25", "10.0.0.128", "10.0.0.127"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.6"),
            ("10.0.0.0/24", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("::ffff:10.0.0.0/120", "10.0.0.1", "10.0.1.1"),
            ("::ffff:10.0.0.7", "::ffff:10.0.0.7", "10.0.0.6"),
            ("0.0.0.0/0", "192.0.2.1", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            assert!(contains(network, inside), "{inside} in {network}");
            assert!(!contains(network, outside), "{outside} in {network}");
        }
        let written: NetworkMask = "10.0.0.7/24".parse().unwrap();
        assert_eq!(serde_json::to_string(&written).unwrap(), "\"10.0.0.0/24\"");
        assert_eq!(serde_json::from_str::<NetworkMask>("\"10.0.0.0/24\"").unwrap(), written);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "/24",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/24/1",
            "::/129",
            "a/8",
            "*",
            "::ffff:10.0.0.0/24",
        ] {
            assert_eq!(text.parse::<NetworkMask>(), Err(SettingError::Network(text.to_owned())));
        }
    }

    #[test]
    fn a_subsystem_is_on_the_ports_in_its_networks_beside_those_that_it_names() {
        let mut subsystem = SubsystemConfig::new("nqn.a", "A", "Selvedge");
        subsystem.networks = vec!["10.0.0.0/24".parse().unwrap()];
        let port = |id: u16, advertise: Option<&str>| PortConfig {
            advertise: advertise.map(str::to_owned),
            ..PortConfig::new(id, ([192, 0, 2, 1], 4420).into())
        };
        assert!(subsystem.is_on(&port(1, None)), "without a list it is on all");
        subsystem.ports = vec![NO_PORT, 2];
        let found = |port: PortConfig| subsystem.is_on(&port);
        assert!(found(port(2, None)) && !found(port(1, None)));
        assert!(found(port(1, Some("10.0.0.9"))) && !found(port(1, Some("10.0.1.9"))));
        assert!(!found(port(1, Some("gateway.example"))), "a name is in no network");
        assert!(found(PortConfig::new(1, ([10, 0, 0, 3], 4420).into())));
        assert!(!found(PortConfig { discovery_only: true, ..port(1, Some("10.0.0.9")) }));
    }
}
