//! The kernel's route to an address, and this machine's addresses (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use super::message::{malformed, u32_at};
use super::{Attributes, NetlinkSocket, Writer};
use crate::kernel_route::{InterfaceAddress, KernelRoute};
use crate::limits::ADDRESSES_MAX;

/// Kinds of messages (`RTM_`).
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// Bytes of `struct rtmsg`.
const ROUTE_LENGTH: usize = 12;

/// Attributes of a route (`RTA_`).
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const OUTPUT_INTERFACE: u16 = 4;
const GATEWAY: u16 = 5;
const PREFERRED_SOURCE: u16 = 7;
const METRICS: u16 = 8;
/// Of the metrics (`RTAX_`), the largest packet.
const METRIC_MTU: u16 = 2;

/// Bytes of `struct ifaddrmsg`, and attributes of an address (`IFA_`): that of a link's other end, the own one, and flags.
const ADDRESS_LENGTH: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const FLAGS: u16 = 8;
/// Flags of IPv6 addresses (`IFA_F_`): temporary, duplicate, tentative. The first is another flag
/// of IPv4 addresses.
const TRANSIENT: u32 = 0x01 | 0x08 | 0x40;
/// Deprecated, which is not a source of new connections, and permanent, which never expires. Both
/// together are an administrator's choice (keepalived's addresses); deprecated alone is an address
/// that a router has withdrawn.
const DEPRECATED: u32 = 0x20;
const PERMANENT: u32 = 0x80;

/// Index of the interface by which packets leave for `destination`, when they come from `source`.
///
/// # Errors
/// What the kernel says: `ENETUNREACH` when there is no route.
pub(crate) fn interface_to(destination: IpAddr, source: Option<IpAddr>) -> io::Result<u32> {
    route_to(destination, source).map(|(index, _)| index)
}

/// Route of packets to `destination`, when they come from `source`, with the index of its interface.
///
/// # Errors
/// What the kernel says: `ENETUNREACH` when there is no route.
pub(crate) fn route_to(destination: IpAddr, source: Option<IpAddr>) -> io::Result<(u32, KernelRoute)> {
    let source = source.filter(|source| source.is_ipv4() == destination.is_ipv4());
    let answers = NetlinkSocket::open(None)?.ask(GET_ROUTE, &question(destination, source))?;
    let route = answers.iter().find(|answer| answer.kind == NEW_ROUTE).ok_or_else(malformed)?;
    kernel_route(&route.payload).ok_or_else(malformed)
}

/// All addresses of this machine, [`ADDRESSES_MAX`] at most, each with the index of its interface.
///
/// # Errors
/// What the kernel says.
pub(crate) fn addresses() -> io::Result<Vec<(u32, InterfaceAddress)>> {
    let answers = NetlinkSocket::open(None)?.dump(GET_ADDRESS, &[0; ADDRESS_LENGTH])?;
    let found = answers.iter().filter(|answer| answer.kind == NEW_ADDRESS);
    Ok(found.filter_map(|answer| address(&answer.payload)).take(ADDRESSES_MAX).collect())
}

fn question(destination: IpAddr, source: Option<IpAddr>) -> Vec<u8> {
    let family = if destination.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let mut fixed = [0; ROUTE_LENGTH];
    // Families that have routes are small numbers.
    fixed[0] = family as u8;
    fixed[1] = bits(destination);
    fixed[2] = source.map_or(0, bits);
    let writer = Writer::new(&fixed).value(DESTINATION, &octets(destination));
    match source {
        Some(source) => writer.value(SOURCE, &octets(source)).finish(),
        None => writer.finish(),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn kernel_route(payload: &[u8]) -> Option<(u32, KernelRoute)> {
    let attributes = Attributes(payload.get(ROUTE_LENGTH..)?);
    let read = |number: u16| attributes.value(number).and_then(ip_address);
    let index = attributes.number(OUTPUT_INTERFACE).filter(|index| *index != 0)?;
    let kernel_route = KernelRoute {
        interface: String::new(),
        gateway: read(GATEWAY),
        source: read(PREFERRED_SOURCE),
        mtu_bytes: attributes.nested(METRICS).and_then(|metrics| metrics.number(METRIC_MTU)),
    };
    Some((index, kernel_route))
}

fn address(payload: &[u8]) -> Option<(u32, InterfaceAddress)> {
    let fixed = payload.get(..ADDRESS_LENGTH)?;
    let attributes = Attributes(&payload[ADDRESS_LENGTH..]);
    let own = attributes.value(LOCAL).or_else(|| attributes.value(ADDRESS))?;
    let index = u32_at(fixed, 4).filter(|index| *index != 0)?;
    let address = ip_address(own)?;
    // Kernels before 3.14 have the flags in the fixed part alone.
    let flags = attributes.number(FLAGS).unwrap_or_else(|| u32::from(fixed[2]));
    let expires = flags & (DEPRECATED | PERMANENT) == DEPRECATED;
    let is_transient = address.is_ipv6() && (flags & TRANSIENT != 0 || expires);
    Some((
        index,
        InterfaceAddress { interface: String::new(), address, prefix_length: fixed[1], is_transient },
    ))
}

fn ip_address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_way_to_this_machine_is_the_loopback() {
        let loopback: u32 =
            std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap().trim().parse().unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(interface_to(address("127.0.0.1"), None).unwrap(), loopback);
        let from = Some(address("127.0.0.1"));
        assert_eq!(interface_to(address("127.0.0.2"), from).unwrap(), loopback);
    }

    #[test]
    fn the_loopback_has_its_address() {
        let found = addresses().unwrap();
        assert!(
            found.iter().any(|(_, own)| own.address.is_loopback() && own.prefix_length == 8),
            "{found:?}"
        );
    }

    #[test]
    fn a_way_has_a_router_and_a_largest_packet() {
        let metrics = Writer::default().number(METRIC_MTU, 1400);
        let bytes = Writer::new(&[0; ROUTE_LENGTH])
            .number(OUTPUT_INTERFACE, 7)
            .value(GATEWAY, &[10, 0, 0, 254])
            .value(PREFERRED_SOURCE, &[10, 0, 0, 1])
            .nested(METRICS, &metrics)
            .finish();
        let (index, found) = kernel_route(&bytes).unwrap();
        assert_eq!((index, found.mtu_bytes), (7, Some(1400)));
        assert_eq!(found.gateway, Some("10.0.0.254".parse().unwrap()));
        assert_eq!(found.source, Some("10.0.0.1".parse().unwrap()));
        assert_eq!(kernel_route(&[0; ROUTE_LENGTH]), None);
    }

    #[test]
    fn questions_name_both_ends() {
        let bytes = question("10.0.0.2".parse().unwrap(), Some("10.0.0.1".parse().unwrap()));
        assert_eq!((bytes[0], bytes[1], bytes[2]), (libc::AF_INET as u8, 32, 32));
        assert_eq!(Attributes(&bytes[ROUTE_LENGTH..]).value(DESTINATION), Some(&[10, 0, 0, 2][..]));
        assert_eq!(Attributes(&bytes[ROUTE_LENGTH..]).value(SOURCE), Some(&[10, 0, 0, 1][..]));
    }

    #[test]
    fn an_address_that_does_not_last_is_marked() {
        let is_transient = |own: &str, flags: u32| {
            let fixed = [0, 64, flags as u8, 0, 7, 0, 0, 0];
            let read = |bytes: Vec<u8>| address(&bytes).unwrap().1.is_transient;
            let own = octets(own.parse().unwrap());
            let short = read(Writer::new(&fixed).value(LOCAL, &own).finish());
            let long = read(
                Writer::new(&[0, 64, 0, 0, 7, 0, 0, 0]).value(LOCAL, &own).number(FLAGS, flags).finish(),
            );
            assert_eq!(short, long, "{flags:#x}");
            long
        };
        // Permanent (80h), without a test for duplicates (02h), with temporary ones beside it
        // (100h), deprecated by an administrator (A0h).
        for lasting in [0, 0x80, 0x82, 0x100, 0xa0] {
            assert!(!is_transient("2001:db8::1", lasting), "{lasting:#x}");
        }
        assert!(is_transient("2001:db8::1", 0x20), "withdrawn by a router");
        for flag in [0x01, 0x08, 0x40, 0x21] {
            assert!(
                is_transient("2001:db8::1", flag) && is_transient("2001:db8::1", 0x80 | flag),
                "{flag:#x}"
            );
        }
        assert!(!is_transient("192.0.2.1", 0x81), "a further IPv4 address of an interface");
    }

    /// Linux 6.18 after `ip address add ADDRESS/64 dev lo nodad preferred_lft 0`, and the same with
    /// `valid_lft 3600`.
    #[test]
    fn a_deprecated_address_lasts_if_it_never_expires() {
        let own = |flags: &str, last: &str, valid: &str| {
            let hex = format!(
                "0a40{flags}0001000000 14000100 20010db80000000000000000000000{last} 14000600 00000000 {valid} \
                 40dd0000 40dd0000 08000800 {flags}000000"
            );
            let digits: Vec<u8> = hex.bytes().filter(|digit| *digit != b' ').collect();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            let (_, own) = address(&digits.chunks(2).map(byte).collect::<Vec<u8>>()).unwrap();
            (own.address.to_string(), own.is_transient)
        };
        assert_eq!(own("a2", "07", "ffffffff"), ("2001:db8::7".to_owned(), false));
        assert_eq!(own("22", "08", "100e0000"), ("2001:db8::8".to_owned(), true));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = kernel_route(&bytes);
            let _ = address(&bytes);
        }
    }
}
