//! TCP sockets as the kernel tells them (sock_diag(7)).

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rustix::net::netlink::SOCK_DIAG;

use super::message::{u32_at, u64_at};
use super::{Attributes, NetlinkSocket};
use crate::connection::Connection;
use crate::limits::FLOWS_MAX;
use crate::socket::{Socket, SocketState};

/// The kind of question and of answer (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const QUESTION_LENGTH: usize = 56;
/// Bytes of `struct inet_diag_msg`.
const SOCKET_LENGTH: usize = 72;
/// Attributes (`INET_DIAG_`): `struct tcp_info`, the congestion control, and memory.
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
const MEMORY: u16 = 7;
/// States of TCP, as numbers of bits in a question.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// Families of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Version 4.
    Ipv4,
    /// Version 6, which may hold addresses of version 4.
    Ipv6,
}

impl Family {
    fn number(self) -> u8 {
        // Both are small numbers.
        match self {
            Self::Ipv4 => libc::AF_INET as u8,
            Self::Ipv6 => libc::AF_INET6 as u8,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Ipv4 { "IPv4" } else { "IPv6" })
    }
}

/// TCP sockets of a family that listen or are connected, [`FLOWS_MAX`] at most.
///
/// # Errors
/// What the kernel says: `ENOENT` when it was built without this.
pub(crate) fn tcp_sockets(family: Family) -> io::Result<Vec<Socket>> {
    let question = question(family, &[INFO], &[ESTABLISHED, LISTEN]);
    let answers = NetlinkSocket::open(Some(SOCK_DIAG))?.dump(BY_FAMILY, &question)?;
    let sockets = answers.iter().filter_map(|answer| socket(&answer.payload));
    Ok(sockets.take(FLOWS_MAX).collect())
}

/// Connected TCP sockets of a family with all that the kernel counts of them, [`FLOWS_MAX`] at most.
///
/// # Errors
/// What the kernel says: `ENOENT` when it was built without this.
pub(crate) fn connections(family: Family) -> io::Result<Vec<Connection>> {
    let question = question(family, &[INFO, CONGESTION, MEMORY], &[ESTABLISHED]);
    let answers = NetlinkSocket::open(Some(SOCK_DIAG))?.dump(BY_FAMILY, &question)?;
    let connections = answers.iter().filter_map(|answer| connection(&answer.payload));
    Ok(connections.take(FLOWS_MAX).collect())
}

fn question(family: Family, attributes: &[u16], states: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; QUESTION_LENGTH];
    bytes[0] = family.number();
    bytes[1] = libc::IPPROTO_TCP as u8;
    bytes[2] = attributes.iter().fold(0, |bits, attribute| bits | 1 << (attribute - 1));
    let states: u32 = states.iter().fold(0, |bits, state| bits | 1 << state);
    bytes[4..8].copy_from_slice(&states.to_ne_bytes());
    bytes
}

/// Reads `struct inet_diag_msg` and what follows it.
fn socket(payload: &[u8]) -> Option<Socket> {
    let fixed = payload.get(..SOCKET_LENGTH)?;
    let state = match fixed[1] {
        ESTABLISHED => SocketState::Established,
        LISTEN => SocketState::Listen,
        _ => return None,
    };
    let interface_index = u32_at(fixed, 40)?;
    let end = |port_at: usize, address_at: usize| {
        let port = u16::from_be_bytes([fixed[port_at], fixed[port_at + 1]]);
        address(fixed[0], &fixed[address_at..address_at + 16], port, interface_index)
    };
    let (local, peer) = (end(4, 8)?, end(6, 24)?);
    let info = Attributes(&payload[SOCKET_LENGTH..]).value(INFO).unwrap_or_default();
    // Of one that listens, the numbers mean other things.
    let info = if state == SocketState::Established { info } else { &[] };
    Some(Socket {
        state,
        local,
        peer,
        receive_queue_bytes: u32_at(fixed, 56)?,
        send_queue_bytes: u32_at(fixed, 60)?,
        uid: u32_at(fixed, 64)?,
        inode: u32_at(fixed, 68)?,
        interface_index,
        rtt_us: u32_at(info, 68).filter(|rtt_us| *rtt_us != 0),
        retransmissions: u32_at(info, 100),
        received_bytes: u64_at(info, 128),
        pid: None,
    })
}

/// The same of one that is connected, with all counters. Older kernels tell fewer, which are 0 then.
fn connection(payload: &[u8]) -> Option<Connection> {
    let Socket { local, peer, state: SocketState::Established, .. } = socket(payload)? else { return None };
    let attributes = Attributes(payload.get(SOCKET_LENGTH..)?);
    let info = attributes.value(INFO)?;
    let memory = attributes.value(MEMORY).unwrap_or_default();
    let number = |at: usize| u32_at(info, at).unwrap_or(0);
    let count = |at: usize| u64_at(info, at).unwrap_or(0);
    // All ones where none was seen yet.
    let rtt_us_min = Some(number(148)).filter(|rtt_us| *rtt_us != u32::MAX).unwrap_or(0);
    Some(Connection {
        local,
        peer,
        congestion: attributes.text(CONGESTION).unwrap_or_default(),
        rtt_us: number(68),
        rtt_us_min,
        segment_bytes: number(16),
        advertised_bytes: number(84),
        path_mtu_bytes: number(60),
        window_segments: number(80),
        unacknowledged_segments: number(24),
        backoff: info.get(4).copied().map_or(0, u32::from),
        sent_bytes: count(200),
        retransmitted_bytes: count(208),
        acknowledged_bytes: count(120),
        received_bytes: count(128),
        busy_us: count(168),
        peer_limited_us: count(176),
        buffer_limited_us: count(184),
        out_of_order: number(224),
        receive_buffer_bytes: u32_at(memory, 4).unwrap_or(0),
        send_buffer_bytes: u32_at(memory, 12).unwrap_or(0),
    })
}

fn address(family: u8, octets: &[u8], port: u16, interface_index: u32) -> Option<SocketAddr> {
    if family == Family::Ipv4.number() {
        let octets: [u8; 4] = octets.get(..4)?.try_into().ok()?;
        return Some(SocketAddr::new(IpAddr::from(octets), port));
    }
    let octets: [u8; 16] = octets.try_into().ok()?;
    let address = Ipv6Addr::from(octets);
    Some(match address.to_canonical() {
        IpAddr::V4(address) => SocketAddr::new(address.into(), port),
        IpAddr::V6(address) => {
            // Only addresses of one link need to say on which.
            let scope = if address.is_unicast_link_local() { interface_index } else { 0 };
            SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_connection_of_this_process_is_found_at_both_ends() {
        for (loopback, family) in [("127.0.0.1:0", Family::Ipv4), ("[::1]:0", Family::Ipv6)] {
            let Ok(listener) = TcpListener::bind(loopback) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut &accepted, b"five!").unwrap();
            let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            let sockets = tcp_sockets(family).unwrap();
            let found = sockets.iter().find(|socket| socket.local == local && socket.peer == peer).unwrap();
            assert_eq!(found.state, SocketState::Established);
            assert_eq!(found.receive_queue_bytes, 5);
            assert!(found.rtt_us.is_some() && found.retransmissions == Some(0));
            assert_eq!(found.received_bytes, Some(5));
            let inode = rustix::fs::fstat(stream.as_fd()).unwrap().st_ino;
            assert_eq!(u64::from(found.inode), inode);
            let other = sockets.iter().find(|socket| socket.local == peer && socket.peer == local).unwrap();
            assert_eq!(other.state, SocketState::Established);
            let listens = |socket: &&Socket| socket.state == SocketState::Listen && socket.local == peer;
            assert!(sockets.iter().any(|socket| listens(&socket)));
        }
    }

    #[test]
    fn mapped_addresses_are_reported_as_ipv4() {
        let mapped = "::ffff:10.0.0.2".parse::<Ipv6Addr>().unwrap().octets();
        let found = address(Family::Ipv6.number(), &mapped, 4420, 3).unwrap();
        assert_eq!(found, "10.0.0.2:4420".parse().unwrap());
        let link = "fe80::1".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(address(Family::Ipv6.number(), &link, 1, 3).unwrap(), "[fe80::1%3]:1".parse().unwrap());
    }

    #[test]
    fn a_connection_tells_what_it_has_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut &stream, &[7; 1000]).unwrap();
        std::io::Read::read_exact(&mut &accepted, &mut [0; 1000]).unwrap();
        let ends = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let all = connections(Family::Ipv4).unwrap();
        let found = all.iter().find(|connection| connection.ends() == ends).unwrap();
        assert_eq!((found.sent_bytes, found.retransmitted_bytes), (1000, 0), "{found:?}");
        assert!(!found.congestion.is_empty() && found.segment_bytes > 500, "{found:?}");
        assert!(found.path_mtu_bytes > found.segment_bytes && found.window_segments > 0, "{found:?}");
        assert!(found.receive_buffer_bytes > 1000 && found.send_buffer_bytes > 1000, "{found:?}");
        let other = all.iter().find(|connection| connection.ends() == (ends.1, ends.0)).unwrap();
        assert_eq!(other.received_bytes, 1000, "{other:?}");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (socket(&bytes), connection(&bytes));
            if bytes.len() > 1 {
                bytes[1] = ESTABLISHED;
                let _ = (socket(&bytes), connection(&bytes));
            }
        }
    }
}
