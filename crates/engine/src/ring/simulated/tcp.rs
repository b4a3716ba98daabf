//! Listeners and connections of a simulation, with the same methods as the real ones.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use super::scheduler;
use super::socket::{Socket, close};
use crate::transport::{ConnectionOptions, ListenOptions, StreamInfo};

/// A socket that takes connections.
#[derive(Debug)]
pub struct TcpListener {
    descriptor: RawFd,
    address: SocketAddr,
}

impl TcpListener {
    /// The address it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection that waits, and where it came from.
    ///
    /// # Errors
    /// `WouldBlock` when none waits.
    pub fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        let accepted = scheduler::with(|world| world.accept(self.descriptor));
        let (descriptor, peer) = accepted.ok_or(io::ErrorKind::WouldBlock)?;
        Ok((Socket::new(descriptor), peer))
    }

    /// The same socket, for another process.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn share(&self) -> io::Result<Shared> {
        scheduler::with(|world| {
            world.spare()?;
            world.hold(self.descriptor, None);
            Ok(Shared { descriptor: self.descriptor, address: self.address })
        })
    }

    /// There is no congestion control in a simulation.
    ///
    /// # Errors
    /// Never.
    pub const fn set_congestion(&self, _: Option<&str>) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        if !scheduler::is_ending() {
            scheduler::with_if(|world| {
                let holder = world.running();
                world.close_listener(self.descriptor, holder);
            });
        }
    }
}

/// A listener on its way from one process to another.
#[derive(Debug)]
pub struct Shared {
    descriptor: RawFd,
    address: SocketAddr,
}

/// A listener that another process has opened.
pub type Opened = Shared;

impl Shared {
    /// The address it listens on.
    ///
    /// # Errors
    /// Never.
    pub const fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        scheduler::with_if(|world| world.close_listener(self.descriptor, None));
    }
}

/// Listens on `address`.
///
/// # Errors
/// When the address is in use, or not of this machine.
pub fn listen(address: SocketAddr, _: &ListenOptions<'_>) -> io::Result<TcpListener> {
    let descriptor = scheduler::with(|world| world.listen(address)).map_err(io::Error::from_raw_os_error)?;
    Ok(TcpListener { descriptor, address })
}

/// Listens by a socket that another process has opened.
///
/// # Errors
/// When the process has no descriptors left.
pub fn adopt(opened: &Opened, _: &ListenOptions<'_>) -> io::Result<TcpListener> {
    scheduler::with(|world| {
        world.spare()?;
        let holder = world.running();
        world.hold(opened.descriptor, holder);
        Ok(TcpListener { descriptor: opened.descriptor, address: opened.address })
    })
}

/// A connection that is being made.
#[derive(Debug)]
pub struct PendingConnection {
    descriptor: RawFd,
    is_handed_on: bool,
}

impl PendingConnection {
    /// True if the connection has been made; false while it is still under way.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn is_made(&self) -> io::Result<bool> {
        scheduler::with(|world| world.is_made(self.descriptor)).map_err(io::Error::from_raw_os_error)
    }

    /// The stream, once it has been made.
    ///
    /// # Errors
    /// Never.
    pub fn into_socket(mut self) -> io::Result<Socket> {
        self.is_handed_on = true;
        Ok(Socket::new(self.descriptor))
    }
}

impl AsRawFd for PendingConnection {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        if !self.is_handed_on {
            close(self.descriptor);
        }
    }
}

/// Begins to connect to `remote`.
///
/// # Errors
/// When the process has ended.
pub fn connect_start(remote: SocketAddr, _: &ConnectionOptions<'_>) -> io::Result<PendingConnection> {
    let descriptor = scheduler::with(|world| world.connect(remote)).map_err(io::Error::from_raw_os_error)?;
    Ok(PendingConnection { descriptor, is_handed_on: false })
}

/// A simulated network reports nothing about a connection.
///
/// # Errors
/// Always.
pub fn stream_info(_: &Socket) -> io::Result<StreamInfo> {
    Err(io::ErrorKind::Unsupported.into())
}
