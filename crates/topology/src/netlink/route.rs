//! The kernel's choice of a way to an address (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use super::message::malformed;
use super::{Attributes, NetlinkSocket, Writer};

/// Kinds of messages (`RTM_`).
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// Bytes of `struct rtmsg`.
const ROUTE_LENGTH: usize = 12;

/// Attributes of a route (`RTA_`).
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const OUTPUT_INTERFACE: u16 = 4;

/// Index of the interface by which packets leave for `destination`, when they come from `source`.
///
/// # Errors
/// What the kernel says: `ENETUNREACH` when there is no way.
pub(crate) fn interface_to(destination: IpAddr, source: Option<IpAddr>) -> io::Result<u32> {
    let source = source.filter(|source| source.is_ipv4() == destination.is_ipv4());
    let answers = NetlinkSocket::open(None)?.ask(GET_ROUTE, &question(destination, source))?;
    let route = answers.iter().find(|answer| answer.kind == NEW_ROUTE).ok_or_else(malformed)?;
    output_interface(&route.payload).ok_or_else(malformed)
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

fn output_interface(payload: &[u8]) -> Option<u32> {
    Attributes(payload.get(ROUTE_LENGTH..)?).number(OUTPUT_INTERFACE).filter(|index| *index != 0)
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
    fn questions_name_both_ends() {
        let bytes = question("10.0.0.2".parse().unwrap(), Some("10.0.0.1".parse().unwrap()));
        assert_eq!((bytes[0], bytes[1], bytes[2]), (libc::AF_INET as u8, 32, 32));
        assert_eq!(Attributes(&bytes[ROUTE_LENGTH..]).value(DESTINATION), Some(&[10, 0, 0, 2][..]));
        assert_eq!(Attributes(&bytes[ROUTE_LENGTH..]).value(SOURCE), Some(&[10, 0, 0, 1][..]));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = output_interface(&bytes);
        }
    }
}
