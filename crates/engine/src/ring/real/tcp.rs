//! TCP and MPTCP: listeners and connections, non-blocking from the start, without delay of small segments. It does not
//! wait: the ring reports that a connection has come or has been made. How they are to be is `transport`'s.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::ipproto;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::socket::{Socket, bind_to_interface};
use crate::transport::{ConnectionOptions, ListenOptions, Transport, congestion, send_buffer};

pub use crate::transport::info::stream_info;

/// A socket that listens, on its way to another process.
pub type Shared = OwnedFd;

/// A socket that listens, which another process has opened.
pub type Opened = std::net::TcpListener;

/// A socket that takes connections.
#[derive(Debug)]
pub struct TcpListener {
    descriptor: OwnedFd,
    address: SocketAddr,
}

impl TcpListener {
    /// The address it listens on, with the port that the system chose when 0 was asked for.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection that waits, non-blocking and without delay, and where it came from.
    ///
    /// # Errors
    /// `WouldBlock` when none waits. Others are about one connection or the process's descriptors, and the
    /// listener goes on.
    pub fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (descriptor, peer) = rustix::net::acceptfrom_with(&self.descriptor, flags)?;
        let peer = peer.map(SocketAddr::try_from).transpose().ok().flatten();
        let peer = peer.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted))?;
        sockopt::set_tcp_nodelay(&descriptor, true)?;
        send_buffer::fit(&descriptor);
        Ok((Socket::new(descriptor)?, peer))
    }

    /// The same socket, for another process.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn share(&self) -> io::Result<Shared> {
        self.descriptor.try_clone()
    }

    /// Gives connections that come from now on the congestion control with this name, or the system's.
    ///
    /// # Errors
    /// When there is none with that name, or this process may not use it.
    pub fn set_congestion(&self, name: Option<&str>) -> io::Result<()> {
        match name {
            Some(name) => congestion::set(&self.descriptor, name),
            None => congestion::reset(&self.descriptor),
        }
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

/// Listens on `address`. A listener on the IPv6 wildcard takes IPv4 connections too where the system is set so.
///
/// # Errors
/// When the address is in use, not of this machine, or not permitted, or the kernel has not what the options ask for.
pub fn listen(address: SocketAddr, options: &ListenOptions<'_>) -> io::Result<TcpListener> {
    let descriptor = socket(address, options.transport)?;
    sockopt::set_socket_reuseaddr(&descriptor, true)?;
    if let Some(name) = options.congestion {
        congestion::set(&descriptor, name)?;
    }
    rustix::net::bind(&descriptor, &address)?;
    rustix::net::listen(&descriptor, options.backlog)?;
    let address = SocketAddr::try_from(rustix::net::getsockname(&descriptor)?)?;
    Ok(TcpListener { descriptor, address })
}

/// Listens on a socket that another program has opened, such as a service manager. Closing it here
/// leaves it open there.
///
/// # Errors
/// When it carries connections in another way than the options ask for, or has not what they ask for.
pub fn adopt(opened: &Opened, options: &ListenOptions<'_>) -> io::Result<TcpListener> {
    let descriptor = OwnedFd::from(opened.try_clone()?);
    let is_mptcp = sockopt::socket_protocol(&descriptor)? == Some(ipproto::MPTCP);
    if is_mptcp == options.transport.is_tcp() {
        let wanted = options.transport;
        return Err(io::Error::other(format!("the socket that was passed for it is not {wanted}")));
    }
    rustix::io::ioctl_fionbio(&descriptor, true)?;
    if let Some(name) = options.congestion {
        congestion::set(&descriptor, name)?;
    }
    rustix::net::listen(&descriptor, options.backlog)?;
    let address = SocketAddr::try_from(rustix::net::getsockname(&descriptor)?)?;
    Ok(TcpListener { descriptor, address })
}

/// A connection that is being made.
#[derive(Debug)]
pub struct PendingConnection {
    descriptor: OwnedFd,
    /// Set if the configuration gives the length of its send buffer.
    has_send_buffer: bool,
}

impl PendingConnection {
    /// True if the connection has been made; false while it is still under way. Ask when it is
    /// writable.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn is_made(&self) -> io::Result<bool> {
        sockopt::socket_error(&self.descriptor)??;
        match rustix::net::getpeername(&self.descriptor) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The stream, once it has been made. The descriptor stays the same, and so does a ring's watch on it.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn into_socket(self) -> io::Result<Socket> {
        if !self.has_send_buffer {
            send_buffer::fit(&self.descriptor);
        }
        Socket::new(self.descriptor)
    }
}

impl AsRawFd for PendingConnection {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

/// Begins to connect to `remote`.
///
/// # Errors
/// When there is no route, the local address or interface is not available, or the system has no descriptors.
pub fn connect_start(remote: SocketAddr, options: &ConnectionOptions<'_>) -> io::Result<PendingConnection> {
    let descriptor = socket(remote, options.transport)?;
    if let Some(name) = options.congestion {
        congestion::set(&descriptor, name)?;
    }
    if let Some(interface) = options.host_iface {
        bind_to_interface(&descriptor, interface).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot connect through interface {interface}: {error}"))
        })?;
    }
    set_service(&descriptor, remote, options)?;
    sockopt::set_tcp_nodelay(&descriptor, true)?;
    // The receive window is agreed on with the connection, so the buffers come first.
    if let Some(length) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(&descriptor, length)?;
    }
    if let Some(length) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&descriptor, length)?;
    }
    bind_source(&descriptor, remote, options)?;
    match rustix::net::connect(&descriptor, &remote) {
        Ok(()) | Err(Errno::INPROGRESS) => {
            Ok(PendingConnection { descriptor, has_send_buffer: options.send_buffer.is_some() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Marks the packets of a connection that is to be made. A socket of IPv6 that sends IPv4 packets, to an address mapped into
/// IPv6, marks them by the type of service, and not by the traffic class.
fn set_service(descriptor: &OwnedFd, remote: SocketAddr, options: &ConnectionOptions<'_>) -> io::Result<()> {
    let is_mapped = matches!(remote, SocketAddr::V6(remote) if remote.ip().to_ipv4_mapped().is_some());
    if let Some(tos) = options.tos.or(options.tclass.filter(|_| is_mapped)) {
        sockopt::set_ip_tos(descriptor, tos)?;
    }
    let Some(tclass) = options.tclass.filter(|_| remote.is_ipv6()) else { return Ok(()) };
    match sockopt::set_ipv6_tclass(descriptor, tclass.into()) {
        // Its packets have the type of service.
        Err(Errno::OPNOTSUPP) if is_mapped => Ok(()),
        Err(Errno::OPNOTSUPP) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel sets no traffic class on MPTCP connections (mptcp_net-next#568): use -t tcp, or leave out \
             --tclass",
        )),
        set => Ok(set?),
    }
}

/// Gives a connection that is to be made its own end: the local address where one is asked for, and the first of the
/// ports that is free.
fn bind_source(descriptor: &OwnedFd, remote: SocketAddr, options: &ConnectionOptions<'_>) -> io::Result<()> {
    let any = if remote.is_ipv4() {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    };
    let own_end = |ip: IpAddr, port: u16| match (ip, remote) {
        // A link-local address is on the link of the other one.
        (IpAddr::V6(ip), SocketAddr::V6(remote)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, remote.scope_id()).into()
        }
        _ => SocketAddr::new(ip, port),
    };
    let local = options.host_traddr.unwrap_or(any);
    for port in options.source_ports {
        // Without SO_REUSEADDR a port whose last connection lingers is in use: its two ends would be those of the new
        // one, and the peer could take segments of one for the other's.
        match rustix::net::bind(descriptor, &own_end(local, *port)) {
            Ok(()) => return Ok(()),
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if !options.source_ports.is_empty() {
        tracing::debug!(%remote, ports = ?options.source_ports, "all source ports are in use; using one that the system chooses");
    }
    match options.host_traddr {
        Some(local) => Ok(rustix::net::bind(descriptor, &own_end(local, 0))?),
        None => Ok(()),
    }
}

fn socket(address: SocketAddr, transport: Transport) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = match transport {
        Transport::Tcp => ipproto::TCP,
        Transport::Mptcp => ipproto::MPTCP,
    };
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(protocol))
        .map_err(|error| if transport.is_tcp() { error.into() } else { without_mptcp(error) })
}

/// Why there is no MPTCP, and how to go on.
fn without_mptcp(error: Errno) -> io::Error {
    let reason = match error {
        Errno::NOPROTOOPT => {
            "MPTCP is switched off in this kernel: `sysctl net.mptcp.enabled=1` switches it on; or use -t tcp"
        }
        Errno::PROTONOSUPPORT => {
            "this kernel has no MPTCP: it takes one of 5.17 or later, built with it; or use -t tcp"
        }
        _ => return error.into(),
    };
    io::Error::new(io::ErrorKind::Unsupported, reason)
}
