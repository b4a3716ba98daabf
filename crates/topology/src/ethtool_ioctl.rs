//! What ethtool has as an ioctl only (`SIOCETHTOOL`): a driver's name, hashed fields, rules for single flows, the table of
//! receive side scaling; and the one option of netlink sockets that no safe call sets. What is wanted of it is not here.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::netlink::message::{u32_at, u64_at};
use super::{MaskedEnd, NtupleRule, RuleScope};
use crate::limits::{NTUPLE_RULES_MAX, RSS_ENTRIES_MAX};

/// The option of a socket that tells its network namespace's number.
const SO_NETNS_COOKIE: libc::c_int = 71;
/// The request, and what it asks for (`ETHTOOL_`).
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const DRIVER: u32 = 0x03;
const HASHED_FIELDS: u32 = 0x29;
const RULE_COUNT: u32 = 0x2e;
const RULE: u32 = 0x2f;
const RULE_LOCATIONS: u32 = 0x30;
const RULE_DELETE: u32 = 0x31;
const RULE_INSERT: u32 = 0x32;
const TABLE_SET: u32 = 0x39;

/// Bytes of `struct ethtool_drvinfo`, and where its driver's name is.
const DRIVER_LENGTH: usize = 196;
const DRIVER_NAME: std::ops::Range<usize> = 4..36;

/// Bytes of `struct ethtool_rxnfc`, and where its parts are. The layout is that of every machine on which numbers of 64
/// bits begin at multiples of eight bytes.
const RULE_LENGTH: usize = 192;
const FLOW_TYPE: usize = 4;
const DATA: usize = 8;
const SPECIFICATION: usize = 16;
const COUNT: usize = 184;
const LOCATIONS: usize = 188;
/// In a rule (`struct ethtool_rx_flow_spec`, from [`SPECIFICATION`]): what is compared, which bits of it, where it goes.
const FIELDS: usize = SPECIFICATION + 4;
const MASKS: usize = SPECIFICATION + 76;
const COOKIE: usize = SPECIFICATION + 152;
const LOCATION: usize = SPECIFICATION + 160;
/// Bytes of the fields and of what may follow them for other kinds of rules.
const FIELDS_LENGTH: usize = 72;

/// Kinds of flows.
const TCP_OVER_IPV4: u32 = 0x01;
const TCP_OVER_IPV6: u32 = 0x05;
/// UDP, SCTP, AH and ESP over either.
const OTHER_PROTOCOLS: [u32; 10] = [0x02, 0x03, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c];
/// The bits of a kind that tell the protocol.
const KIND: u32 = 0xff;
/// The flag of a number of places that says that a driver may choose one itself.
const PLACE_IS_CHOSEN: u64 = 0x8000_0000;

/// Asks one question. The buffer has the question in its first four bytes, and takes the answer.
#[allow(unsafe_code)]
fn call(interface: &str, buffer: &mut [u8]) -> io::Result<()> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
        return Err(Errno::NODEV.into());
    }
    if needed(buffer).is_none_or(|needed| buffer.len() < needed) {
        return Err(Errno::INVAL.into());
    }
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zeros are a valid value of each part of it: numbers and a pointer.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
    // SAFETY: the kernel reads and writes `request`, which lives for the call and whose name ends with a zero, and of
    // what it points to as many bytes as `needed` says for this question: the buffer has them, is borrowed alone for
    // the call, and any bytes are valid bytes in it.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes that the kernel may read or write for a question; absent for one that is not ours.
fn needed(buffer: &[u8]) -> Option<usize> {
    let counted = |first: usize, count_at: usize, most: usize| {
        let count = u32_at(buffer, count_at)? as usize;
        (count <= most).then_some(first + 4 * count)
    };
    match u32_at(buffer, 0)? {
        DRIVER => Some(DRIVER_LENGTH),
        HASHED_FIELDS | RULE_COUNT | RULE | RULE_DELETE | RULE_INSERT => Some(RULE_LENGTH),
        RULE_LOCATIONS => counted(LOCATIONS, COUNT, NTUPLE_RULES_MAX).map(|length| length.max(RULE_LENGTH)),
        TABLE_SET => counted(8, 4, RSS_ENTRIES_MAX),
        _ => None,
    }
}

/// Asks a netlink socket's kernel for its words when it refuses something (`NETLINK_EXT_ACK`).
#[allow(unsafe_code)]
pub(super) fn ask_for_words(socket: &impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(mem::size_of_val(&on)).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel reads `length` bytes of `on`, which lives for the call and is that long.
    let result = unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, value, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A number that this network namespace has and no other since the machine was started (`SO_NETNS_COOKIE`): its inode may be
/// another's when it is gone.
#[allow(unsafe_code)]
pub(super) fn network_cookie() -> io::Result<u64> {
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut cookie: u64 = 0;
    let mut length =
        libc::socklen_t::try_from(mem::size_of_val(&cookie)).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, which is that long and lives for the call.
    let result = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, value, &raw mut length)
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

fn put(buffer: &mut [u8], at: usize, value: u32) {
    buffer[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn rule_question(command: u32) -> Vec<u8> {
    let mut buffer = vec![0; RULE_LENGTH];
    put(&mut buffer, 0, command);
    buffer
}

/// Name of an interface's driver, as it tells itself.
pub(super) fn driver(interface: &str) -> io::Result<String> {
    let mut buffer = vec![0; DRIVER_LENGTH];
    put(&mut buffer, 0, DRIVER);
    call(interface, &mut buffer)?;
    let name = buffer[DRIVER_NAME].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The bits of the fields that are hashed of TCP over IPv4 or IPv6 (`RXH_`).
pub(super) fn hashed_fields(interface: &str, is_ipv6: bool) -> io::Result<u64> {
    let mut buffer = rule_question(HASHED_FIELDS);
    put(&mut buffer, FLOW_TYPE, if is_ipv6 { TCP_OVER_IPV6 } else { TCP_OVER_IPV4 });
    call(interface, &mut buffer)?;
    u64_at(&buffer, DATA).ok_or_else(|| Errno::BADMSG.into())
}

/// Number of rules, and number of locations where the driver reports it.
pub(super) fn rule_count(interface: &str) -> io::Result<(u32, Option<u32>)> {
    let mut buffer = rule_question(RULE_COUNT);
    call(interface, &mut buffer)?;
    let places = u64_at(&buffer, DATA).unwrap_or(0) & !PLACE_IS_CHOSEN;
    let places = u32::try_from(places).ok().filter(|places| *places != 0);
    Ok((u32_at(&buffer, COUNT).unwrap_or(0), places))
}

/// Places of the rules, and how many there could be where the driver tells. `count` is how many there are.
pub(super) fn rule_locations(interface: &str, count: u32) -> io::Result<(Vec<u32>, Option<u32>)> {
    let count = (count as usize).min(NTUPLE_RULES_MAX);
    let mut buffer = vec![0; (LOCATIONS + 4 * count).max(RULE_LENGTH)];
    put(&mut buffer, 0, RULE_LOCATIONS);
    // Not more than the limit, which 32 bits hold.
    put(&mut buffer, COUNT, count as u32);
    call(interface, &mut buffer)?;
    let found = (u32_at(&buffer, COUNT).unwrap_or(0) as usize).min(count);
    let locations = (0..found).filter_map(|at| u32_at(&buffer, LOCATIONS + 4 * at)).collect();
    let places = u64_at(&buffer, DATA).unwrap_or(0) & !PLACE_IS_CHOSEN;
    Ok((locations, u32::try_from(places).ok().filter(|places| *places != 0)))
}

/// The rule at a place.
pub(super) fn rule(interface: &str, location: u32) -> io::Result<NtupleRule> {
    let mut buffer = rule_question(RULE);
    put(&mut buffer, LOCATION, location);
    call(interface, &mut buffer)?;
    Ok(read_rule(&buffer, location))
}

/// Sets a rule at its place.
pub(super) fn insert_rule(interface: &str, rule: &NtupleRule) -> io::Result<()> {
    let mut buffer = rule_question(RULE_INSERT);
    write_rule(&mut buffer, rule)?;
    call(interface, &mut buffer)
}

/// Takes the rule at a place away.
pub(super) fn delete_rule(interface: &str, location: u32) -> io::Result<()> {
    let mut buffer = rule_question(RULE_DELETE);
    put(&mut buffer, LOCATION, location);
    call(interface, &mut buffer)
}

/// Sets the table of receive side scaling, which has as many entries as the device's.
pub(super) fn set_table(interface: &str, table: &[u32]) -> io::Result<()> {
    if table.is_empty() || table.len() > RSS_ENTRIES_MAX {
        return Err(Errno::INVAL.into());
    }
    let mut buffer = vec![0; 8];
    put(&mut buffer, 0, TABLE_SET);
    put(&mut buffer, 4, table.len() as u32);
    buffer.extend(table.iter().flat_map(|queue| queue.to_ne_bytes()));
    call(interface, &mut buffer)
}

/// Offsets of a rule's two addresses and two ports, and the length of an address.
fn field_length(is_ipv6: bool) -> usize {
    if is_ipv6 { 16 } else { 4 }
}

fn write_rule(buffer: &mut [u8], rule: &NtupleRule) -> io::Result<()> {
    let (Some((source, destination)), Some(queue)) = (rule.flow, rule.queue) else {
        return Err(Errno::INVAL.into());
    };
    let is_ipv6 = source.is_ipv6();
    if destination.is_ipv6() != is_ipv6 {
        return Err(Errno::INVAL.into());
    }
    put(buffer, SPECIFICATION, if is_ipv6 { TCP_OVER_IPV6 } else { TCP_OVER_IPV4 });
    let mut fields = Vec::new();
    for end in [source, destination] {
        match end.ip() {
            IpAddr::V4(address) => fields.extend(address.octets()),
            IpAddr::V6(address) => fields.extend(address.octets()),
        }
    }
    fields.extend(source.port().to_be_bytes());
    fields.extend(destination.port().to_be_bytes());
    buffer[FIELDS..FIELDS + fields.len()].copy_from_slice(&fields);
    buffer[MASKS..MASKS + fields.len()].fill(0xff);
    buffer[COOKIE..COOKIE + 8].copy_from_slice(&u64::from(queue).to_ne_bytes());
    put(buffer, LOCATION, rule.location);
    Ok(())
}

fn read_rule(buffer: &[u8], location: u32) -> NtupleRule {
    let kind = u32_at(buffer, SPECIFICATION).unwrap_or(0);
    // The kind's upper bits say that more is compared, or that the queue is one of another table's.
    let is_tcp = matches!(kind, TCP_OVER_IPV4 | TCP_OVER_IPV6);
    let (flow, scope) = match kind & KIND {
        _ if is_tcp => match read_ends(buffer, kind == TCP_OVER_IPV6) {
            Some(ends) if ends.iter().all(is_one) => {
                let [source, destination] = ends.map(|end| SocketAddr::new(end.address, end.port));
                (Some((source, destination)), RuleScope::Unknown)
            }
            Some([source, destination]) => (None, RuleScope::Masked { source, destination }),
            None => (None, RuleScope::Unknown),
        },
        kind if OTHER_PROTOCOLS.contains(&kind) => (None, RuleScope::OtherProtocol),
        _ => (None, RuleScope::Unknown),
    };
    const OTHER_TABLE: u32 = 0x2000_0000;
    // A cookie with more than a queue names a virtual function, or says that the packet is dropped.
    let cookie = u64_at(buffer, COOKIE).and_then(|cookie| u32::try_from(cookie).ok());
    NtupleRule { location, flow, queue: cookie.filter(|_| kind & OTHER_TABLE == 0), scope }
}

/// True if all bits are compared.
fn is_one(end: &MaskedEnd) -> bool {
    let is_whole = match end.address_mask {
        IpAddr::V4(mask) => mask == Ipv4Addr::BROADCAST,
        IpAddr::V6(mask) => mask.to_bits() == u128::MAX,
    };
    is_whole && end.port_mask == u16::MAX
}

/// Sender and receiver, where nothing else is compared.
fn read_ends(buffer: &[u8], is_ipv6: bool) -> Option<[MaskedEnd; 2]> {
    let length = field_length(is_ipv6);
    let ports = 2 * length;
    let masks = buffer.get(MASKS..MASKS + FIELDS_LENGTH)?;
    if masks[ports + 4..].iter().any(|byte| *byte != 0) {
        return None;
    }
    let fields = buffer.get(FIELDS..FIELDS + FIELDS_LENGTH)?;
    let address = |of: &[u8], at: usize| -> Option<IpAddr> {
        let octets = &of[at..at + length];
        Some(if is_ipv6 {
            IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)
        } else {
            IpAddr::from(<[u8; 4]>::try_from(octets).ok()?)
        })
    };
    let port = |of: &[u8], at: usize| u16::from_be_bytes([of[at], of[at + 1]]);
    let end = |at: usize, port_at: usize| {
        Some(MaskedEnd {
            address: address(fields, at)?,
            address_mask: address(masks, at)?,
            port: port(fields, port_at),
            port_mask: port(masks, port_at),
        })
    };
    Some([end(0, ports)?, end(length, ports + 2)?])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule_of(source: &str, destination: &str, queue: u32, location: u32) -> NtupleRule {
        let flow = Some((source.parse().unwrap(), destination.parse().unwrap()));
        NtupleRule { location, flow, queue: Some(queue), scope: RuleScope::Unknown }
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        for rule in [
            rule_of("10.0.0.2:4420", "10.0.0.1:50001", 7, 1000),
            rule_of("[fd00::2]:4420", "[fd00::1]:50001", 0, 0),
        ] {
            let mut buffer = rule_question(RULE_INSERT);
            write_rule(&mut buffer, &rule).unwrap();
            assert_eq!(u32_at(&buffer, LOCATION), Some(rule.location));
            assert_eq!(read_rule(&buffer, rule.location), rule);
            // One bit that is not compared makes it a rule for several flows.
            buffer[MASKS] = 0xfe;
            let several = read_rule(&buffer, rule.location);
            assert_eq!(several.flow, None);
            let RuleScope::Masked { source, destination } = several.scope else { panic!("{several:?}") };
            assert!(is_one(&destination) && source.port_mask == 0xffff);
            assert_eq!(Some(SocketAddr::new(source.address, source.port)), rule.flow.map(|flow| flow.0));
            // So does a protocol that it is not for; and nothing is known of one that compares a type of service, too.
            buffer[MASKS + FIELDS_LENGTH - 1] = 1;
            assert_eq!(read_rule(&buffer, rule.location).scope, RuleScope::Unknown);
            put(&mut buffer, SPECIFICATION, 0x02);
            assert_eq!(read_rule(&buffer, rule.location).scope, RuleScope::OtherProtocol);
            put(&mut buffer, SPECIFICATION, 0x8000_0000 | TCP_OVER_IPV4);
            assert_eq!(read_rule(&buffer, rule.location).scope, RuleScope::Unknown);
        }
    }

    #[test]
    fn rules_that_drop_have_no_queue() {
        let mut buffer = rule_question(RULE);
        write_rule(&mut buffer, &rule_of("10.0.0.2:1", "10.0.0.1:2", 0, 3)).unwrap();
        buffer[COOKIE..COOKIE + 8].fill(0xff);
        assert_eq!(read_rule(&buffer, 3).queue, None);
    }

    #[test]
    fn a_rule_without_a_flow_is_not_written() {
        let mut buffer = rule_question(RULE_INSERT);
        let rule = NtupleRule { location: 0, flow: None, queue: Some(1), scope: RuleScope::Unknown };
        assert!(write_rule(&mut buffer, &rule).is_err());
        assert!(write_rule(&mut buffer, &rule_of("10.0.0.1:1", "[::1]:2", 0, 0)).is_err());
    }

    #[test]
    fn a_buffer_that_is_too_short_never_reaches_the_kernel() {
        let mut short = rule_question(RULE_LOCATIONS);
        put(&mut short, COUNT, 100);
        assert_eq!(needed(&short), Some(LOCATIONS + 400));
        let error = call("lo", &mut short).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        put(&mut short, COUNT, u32::MAX);
        assert_eq!(needed(&short), None);
        assert!(call("lo", &mut [0xff; 8]).is_err());
    }

    #[test]
    fn an_interface_that_is_not_there_is_said_to_be_so() {
        let error = driver("no-such-nic0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(driver("a-name-that-is-too-long").is_err());
    }

    proptest! {
        #[test]
        fn random_rules_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_rule(&bytes, 0);
            let _ = needed(&bytes);
        }
    }
}
