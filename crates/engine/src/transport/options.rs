//! Options for making or taking a connection. Making and taking it is the machine's.

use std::net::IpAddr;

use super::Transport;

/// Options of a new connection, beyond its address.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionOptions<'a> {
    /// Transport of the connection.
    pub transport: Transport,
    /// Congestion control by its name in the kernel; the system decides when absent.
    pub congestion: Option<&'a str>,
    /// Local address to connect from.
    pub host_traddr: Option<IpAddr>,
    /// Local interface to connect through.
    pub host_iface: Option<&'a str>,
    /// Type of service of its IPv4 packets; the system's when absent.
    pub tos: Option<u8>,
    /// Traffic class of its IPv6 packets, and type of service where an IPv6 socket sends IPv4 packets and `tos` is absent;
    /// the system's when absent.
    pub tclass: Option<u8>,
    /// Local ports to connect from: the first that is free; the system chooses where there is none, or none free.
    pub source_ports: &'a [u16],
    /// Bytes of the send buffer; when absent, the system decides, below a bound for near peers.
    pub send_buffer: Option<usize>,
    /// Bytes of the receive buffer; the system decides when absent.
    pub receive_buffer: Option<usize>,
}

/// Options of a listener, beyond its address.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions<'a> {
    /// Transport of the connections. With MPTCP, peers that only have TCP are served too.
    pub transport: Transport,
    /// Congestion control by its name in the kernel; the system decides when absent.
    pub congestion: Option<&'a str>,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
}
