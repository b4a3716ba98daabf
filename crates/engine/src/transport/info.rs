//! Statistics of the kernel about a connection: its actual transport, the distance of the peer,
//! losses, the bytes that wait in the queues of the socket, and the same of each subflow of MPTCP.
//! It costs some system calls and is not for the data path.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::{ipproto, sockopt};
use serde::Serialize;

use super::{Transport, socket_option};
use crate::limits::SUBFLOWS_REPORTED_MAX;

/// Level and options of MPTCP (linux/mptcp.h), which libc does not name.
const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;

/// Length of `struct mptcp_info` as far as its flags, their place, and the one that says that it is MPTCP no more.
const MPTCP_INFO_LENGTH: usize = 12;
const MPTCP_INFO_FLAGS_AT: usize = 8;
const MPTCP_INFO_FLAG_FALLBACK: u32 = 1;

/// Length of `struct mptcp_subflow_data`, which stands before a list of subflows. It begins with its own length; then
/// come the number of subflows, the length of an element in the kernel, and the one that we have room for.
const SUBFLOW_DATA_LENGTH: usize = 16;
const SUBFLOW_DATA_COUNT_AT: usize = 4;
const SUBFLOW_DATA_ELEMENT_AT: usize = 12;
/// Length of `struct mptcp_subflow_addrs`, and where the peer's address begins in it.
const SUBFLOW_ADDRS_LENGTH: usize = 256;
const SUBFLOW_REMOTE_AT: usize = 128;
/// Looks at a list of subflows that changes all the time before the last one is taken as it is.
const LOOKS_MAX: usize = 3;

/// Length of `struct tcp_info` (linux/tcp.h) as far as it is looked at, and places in it.
const TCP_INFO_LENGTH: usize = 216;
const TCP_STATE_AT: usize = 0;
const TCP_RTT_US_AT: usize = 68;
const TCP_RTT_VARIATION_US_AT: usize = 72;
const TCP_CONGESTION_WINDOW_AT: usize = 80;
const TCP_TOTAL_RETRANSMITS_AT: usize = 100;
const TCP_BYTES_ACKNOWLEDGED_AT: usize = 120;
const TCP_BYTES_RECEIVED_AT: usize = 128;
const TCP_RTT_US_MIN_AT: usize = 148;
const TCP_DELIVERY_RATE_AT: usize = 160;
const TCP_BUSY_US_AT: usize = 168;
const TCP_RWND_LIMITED_US_AT: usize = 176;
const TCP_SNDBUF_LIMITED_US_AT: usize = 184;
const TCP_BYTES_SENT_AT: usize = 200;
const TCP_BYTES_RETRANSMITTED_AT: usize = 208;
/// The state of a TCP connection that has ended (TCP_CLOSE).
const TCP_STATE_CLOSED: u8 = 7;

/// A connection as the kernel knows it at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Stream")]
pub struct StreamInfo {
    /// Actual transport: TCP if only one end wanted MPTCP.
    pub transport: Transport,
    /// Congestion control, by its name in the kernel.
    pub congestion: String,
    /// Round trip time in microseconds, smoothed. With MPTCP it is that of the fastest subflow.
    pub rtt_us: u32,
    /// Mean deviation of round trip times from it, in microseconds.
    pub rtt_variation_us: u32,
    /// Segments that were sent again, by all subflows there are.
    pub retransmits: u64,
    /// Segments that may be under way, by all subflows there are.
    pub congestion_window: u32,
    /// Bytes per second that arrived lately, by all subflows there are.
    pub delivery_rate_bytes: u64,
    /// Bytes that were sent and are acknowledged, by all subflows there are: less than before when one has ended.
    pub acknowledged_bytes: u64,
    /// Bytes that have come, by all subflows there are.
    pub received_bytes: u64,
    /// Bytes that have come and were not read yet (Recv-Q).
    pub unread_bytes: u64,
    /// Bytes that were written and are not acknowledged yet (Send-Q).
    pub unsent_bytes: u64,
    /// For how long it has had something to send. With MPTCP it is that of the subflow that had for the longest.
    pub send_times: SendTimes,
    /// TCP connections that it goes over: one with TCP, up to `limits::SUBFLOWS_REPORTED_MAX` with
    /// MPTCP.
    pub subflows: Vec<SubflowInfo>,
}

/// For how long a connection has had something to send, in microseconds since it began: `ss -i` has the same by these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SendTimes {
    /// Something waited in the socket to be sent, or to be acknowledged.
    pub busy_us: u64,
    /// Of that, the other end had no room for more.
    pub rwnd_limited_us: u64,
    /// Of that, this socket had no room for what was to be sent.
    pub sndbuf_limited_us: u64,
}

/// TCP connection, alone or of several that are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Subflow")]
pub struct SubflowInfo {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Round trip time in microseconds, smoothed.
    pub rtt_us: u32,
    /// Mean deviation of round trip times from it, in microseconds.
    pub rtt_variation_us: u32,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Segments that may be under way.
    pub congestion_window: u32,
    /// Bytes per second that arrived lately.
    pub delivery_rate_bytes: u64,
    /// Bytes that were sent and are acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes that have come.
    pub received_bytes: u64,
    /// For how long it has had something to send.
    pub send_times: SendTimes,
}

/// Traffic and losses of a connection since it began, as far as this end sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Bytes that were sent, each time that they were.
    pub(super) sent_bytes: u64,
    /// Of these, bytes that had been sent before.
    pub(super) retransmitted_bytes: u64,
    /// Bytes that are acknowledged.
    pub(super) acknowledged_bytes: u64,
    /// The shortest round trip time there was, in microseconds. With MPTCP it is that of the fastest subflow.
    pub(super) rtt_us_min: u32,
}

/// Traffic of the connection on `socket`. It costs one system call, three with MPTCP.
///
/// # Errors
/// As [`stream_info`].
pub(super) fn traffic(socket: &impl AsFd) -> io::Result<Traffic> {
    let infos = match transport_of(socket)? {
        Transport::Mptcp => subflow_list(socket, MPTCP_TCPINFO, TCP_INFO_LENGTH)?,
        Transport::Tcp => {
            let mut info = vec![0; TCP_INFO_LENGTH];
            socket_option::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
            info
        }
    };
    let mut traffic = Traffic { rtt_us_min: u32::MAX, ..Traffic::default() };
    for info in infos.chunks_exact(TCP_INFO_LENGTH) {
        traffic.sent_bytes += u64_at(info, TCP_BYTES_SENT_AT);
        traffic.retransmitted_bytes += u64_at(info, TCP_BYTES_RETRANSMITTED_AT);
        traffic.acknowledged_bytes += u64_at(info, TCP_BYTES_ACKNOWLEDGED_AT);
        traffic.rtt_us_min = traffic.rtt_us_min.min(u32_at(info, TCP_RTT_US_MIN_AT));
    }
    Ok(traffic)
}

/// Statistics of the kernel about the connection on `socket`.
///
/// # Errors
/// When the connection has ended, or the kernel is older than 5.17 and the socket one of MPTCP.
pub fn stream_info(socket: &impl AsFd) -> io::Result<StreamInfo> {
    let transport = transport_of(socket)?;
    let subflows = match transport {
        Transport::Tcp => vec![only_subflow(socket)?],
        Transport::Mptcp => subflows(socket)?,
    };
    let fastest = subflows.iter().min_by_key(|subflow| subflow.rtt_us);
    let longest = subflows.iter().max_by_key(|subflow| subflow.send_times.busy_us);
    Ok(StreamInfo {
        transport,
        congestion: sockopt::tcp_congestion(socket)?,
        rtt_us: fastest.map_or(0, |subflow| subflow.rtt_us),
        rtt_variation_us: fastest.map_or(0, |subflow| subflow.rtt_variation_us),
        retransmits: subflows.iter().map(|subflow| subflow.retransmits).sum(),
        congestion_window: subflows
            .iter()
            .fold(0, |window, subflow| window.saturating_add(subflow.congestion_window)),
        delivery_rate_bytes: subflows
            .iter()
            .fold(0, |rate, subflow| rate.saturating_add(subflow.delivery_rate_bytes)),
        acknowledged_bytes: subflows
            .iter()
            .fold(0, |bytes, subflow| bytes.saturating_add(subflow.acknowledged_bytes)),
        received_bytes: subflows
            .iter()
            .fold(0, |bytes, subflow| bytes.saturating_add(subflow.received_bytes)),
        unread_bytes: rustix::io::ioctl_fionread(socket)?,
        unsent_bytes: socket_option::unsent_bytes(socket)?,
        send_times: longest.map(|subflow| subflow.send_times).unwrap_or_default(),
        subflows,
    })
}

/// Actual transport of the connection on `socket`.
///
/// # Errors
/// When it is not a stream socket.
pub(super) fn transport_of(socket: &impl AsFd) -> io::Result<Transport> {
    // A listener for MPTCP hands out plain sockets for plain peers.
    if sockopt::socket_protocol(socket)? != Some(ipproto::MPTCP) {
        return Ok(Transport::Tcp);
    }
    let mut info = [0; MPTCP_INFO_LENGTH];
    match socket_option::get(socket, SOL_MPTCP, MPTCP_INFO, &mut info) {
        Ok(length) => {
            let flags = u32_at(&info[..length], MPTCP_INFO_FLAGS_AT);
            let fell_back = flags & MPTCP_INFO_FLAG_FALLBACK != 0;
            Ok(if fell_back { Transport::Tcp } else { Transport::Mptcp })
        }
        // A socket that has become one of TCP no longer has options of MPTCP (IPv4 and IPv6 say so differently).
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => {
            Ok(Transport::Tcp)
        }
        Err(error) => Err(error),
    }
}

/// A plain connection as the one subflow that it is.
fn only_subflow(socket: &impl AsFd) -> io::Result<SubflowInfo> {
    let mut info = [0; TCP_INFO_LENGTH];
    // What an older kernel does not tell stays zero.
    socket_option::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let local = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    let remote = rustix::net::getpeername(socket)?.ok_or(io::ErrorKind::NotConnected)?;
    let remote = SocketAddr::try_from(remote)?;
    Ok(SubflowInfo::new((local, remote), &info))
}

/// The living subflows of an MPTCP connection. Their addresses and their numbers are reported
/// separately and may change in between, so the addresses are looked at before and after.
fn subflows(socket: &impl AsFd) -> io::Result<Vec<SubflowInfo>> {
    let addresses = || subflow_list(socket, MPTCP_SUBFLOW_ADDRS, SUBFLOW_ADDRS_LENGTH);
    let mut before = addresses()?;
    let mut looks = 0;
    loop {
        let infos = subflow_list(socket, MPTCP_TCPINFO, TCP_INFO_LENGTH)?;
        let after = addresses()?;
        looks += 1;
        if before == after || looks == LOOKS_MAX {
            let pairs = after.chunks_exact(SUBFLOW_ADDRS_LENGTH).zip(infos.chunks_exact(TCP_INFO_LENGTH));
            let living = pairs.filter(|(_, info)| info[TCP_STATE_AT] != TCP_STATE_CLOSED);
            let subflows = living.filter_map(|(ends, info)| {
                let (local, remote) = ends.split_at(SUBFLOW_REMOTE_AT);
                Some(SubflowInfo::new((address(local)?, address(remote)?), info))
            });
            return Ok(subflows.collect());
        }
        before = after;
    }
}

/// The elements of a list of subflows, one after the other, each `element_length` bytes long.
fn subflow_list(socket: &impl AsFd, option: i32, element_length: usize) -> io::Result<Vec<u8>> {
    let mut list = vec![0; SUBFLOW_DATA_LENGTH + SUBFLOWS_REPORTED_MAX * element_length];
    list[..4].copy_from_slice(&(SUBFLOW_DATA_LENGTH as u32).to_ne_bytes());
    list[SUBFLOW_DATA_ELEMENT_AT..SUBFLOW_DATA_LENGTH]
        .copy_from_slice(&(element_length as u32).to_ne_bytes());
    let length = socket_option::get(socket, SOL_MPTCP, option, &mut list)?;
    let reported = length.saturating_sub(SUBFLOW_DATA_LENGTH) / element_length;
    let count = u32_at(&list, SUBFLOW_DATA_COUNT_AT) as usize;
    list.drain(..SUBFLOW_DATA_LENGTH);
    list.truncate(reported.min(count) * element_length);
    Ok(list)
}

impl SubflowInfo {
    /// The connection between two ends, by the kernel's `struct tcp_info`.
    fn new((local, remote): (SocketAddr, SocketAddr), info: &[u8]) -> Self {
        Self {
            local,
            remote,
            rtt_us: u32_at(info, TCP_RTT_US_AT),
            rtt_variation_us: u32_at(info, TCP_RTT_VARIATION_US_AT),
            retransmits: u64::from(u32_at(info, TCP_TOTAL_RETRANSMITS_AT)),
            congestion_window: u32_at(info, TCP_CONGESTION_WINDOW_AT),
            delivery_rate_bytes: u64_at(info, TCP_DELIVERY_RATE_AT),
            acknowledged_bytes: u64_at(info, TCP_BYTES_ACKNOWLEDGED_AT),
            received_bytes: u64_at(info, TCP_BYTES_RECEIVED_AT),
            send_times: SendTimes {
                busy_us: u64_at(info, TCP_BUSY_US_AT),
                rwnd_limited_us: u64_at(info, TCP_RWND_LIMITED_US_AT),
                sndbuf_limited_us: u64_at(info, TCP_SNDBUF_LIMITED_US_AT),
            },
        }
    }
}

/// The bytes from `at` on, if there are that many.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The number at `at`, 0 where the kernel did not tell it.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes_at(bytes, at).map_or(0, u32::from_ne_bytes)
}

/// The number at `at`, 0 where the kernel did not tell it.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes_at(bytes, at).map_or(0, u64::from_ne_bytes)
}

/// An address as the kernel writes it (`struct sockaddr_in` or `sockaddr_in6`), IPv4 as itself also on an IPv6 socket.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes_at(bytes, 0)?));
    let port = u16::from_be_bytes(bytes_at(bytes, 2)?);
    let ip = match family {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(bytes_at::<4>(bytes, 4)?)),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(bytes_at::<16>(bytes, 8)?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use prerequisite::wait_for;

    use super::*;

    #[test]
    fn traffic_is_what_was_sent_and_acknowledged() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let bytes = [7; 100_000];
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).unwrap();
            (all.len(), receiver)
        });
        sender.write_all(&bytes).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        let (received, _receiver) = reader.join().unwrap();
        assert_eq!(received, bytes.len());
        let traffic = wait_for("all is acknowledged", || {
            let traffic = super::traffic(&sender).unwrap();
            (traffic.acknowledged_bytes >= bytes.len() as u64).then_some(traffic)
        });
        assert_eq!(traffic.sent_bytes - traffic.retransmitted_bytes, bytes.len() as u64, "{traffic:?}");
        assert!((1..60_000_000).contains(&traffic.rtt_us_min), "{traffic:?}");
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let mut bytes = [0; SUBFLOW_REMOTE_AT];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..8].copy_from_slice(&[0x11, 0x44, 10, 0, 0, 1]);
        assert_eq!(address(&bytes), Some("10.0.0.1:4420".parse().unwrap()));
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address(&bytes), Some("[::1]:4420".parse().unwrap()));
        bytes[8..24].copy_from_slice(&Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert_eq!(address(&bytes), Some("127.0.0.1:4420".parse().unwrap()));
        bytes[0] = 99;
        assert_eq!(address(&bytes), None);
    }

    #[test]
    fn nothing_is_read_where_the_kernel_wrote_nothing() {
        assert_eq!(address(&[]), None);
        assert_eq!(address(&(libc::AF_INET6 as u16).to_ne_bytes()), None);
        assert_eq!(u32_at(&[1, 2, 3], 0), 0);
        let ends = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let info = SubflowInfo::new(ends, &[0; TCP_RTT_US_AT + 4]);
        assert_eq!((info.rtt_us, info.congestion_window, info.delivery_rate_bytes), (0, 0, 0));
        assert_eq!((info.acknowledged_bytes, info.received_bytes), (0, 0));
    }
}
