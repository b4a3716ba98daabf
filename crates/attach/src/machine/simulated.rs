//! Sockets and files of a simulation.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use engine::ring::{Socket, tcp};
use engine::simulation::{self, EventDescriptor, SharedSocket};

use crate::buffer_budget::Party;

/// An open socket or file on its way to another process.
#[derive(Debug)]
pub enum Descriptor {
    /// A connection.
    Socket(SharedSocket),
    /// A file with these bytes.
    File(Vec<u8>),
    /// Memory of a guest, or of its requests in flight.
    Memory(File),
    /// A connection of a front end, which `vhost_user` alone knows.
    FrontEnd(Arc<dyn Any + Send + Sync>),
    /// An event descriptor.
    Event(EventDescriptor),
}

/// A socket that takes clients.
#[derive(Debug)]
pub struct Listener(pub tcp::TcpListener);

impl Listener {
    pub(crate) const fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    /// The next client, and who it is, for the log.
    pub(crate) fn accept(&self) -> io::Result<(Socket, String)> {
        let (socket, peer) = self.0.accept()?;
        Ok((socket, peer.to_string()))
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Party of the client at the other end: every second client is of one of two users.
pub(crate) fn party_of(socket: &Socket) -> Party {
    Party::User(socket.as_raw_fd() as u32 / 2 % 2)
}

/// Ends a connection, also for other processes that have it.
pub(crate) fn shut_down(socket: &Socket) {
    socket.shut_down_sending();
}

/// The same socket, for another process.
pub(crate) fn share(socket: &Socket) -> io::Result<Descriptor> {
    socket.share().map(Descriptor::Socket)
}

/// Socket that another process has shared.
pub(crate) fn open(socket: Descriptor) -> io::Result<Socket> {
    match socket {
        Descriptor::Socket(socket) => socket.open(),
        _ => Err(io::Error::other("it is not a socket")),
    }
}

/// A file in memory that has these bytes.
pub(crate) fn file_of(bytes: &[u8]) -> io::Result<Descriptor> {
    simulation::spare()?;
    Ok(Descriptor::File(bytes.to_vec()))
}

/// The first bytes of a file.
pub(crate) fn bytes_of(file: Descriptor, count: usize) -> io::Result<Vec<u8>> {
    match file {
        Descriptor::File(bytes) if bytes.len() >= count => Ok(bytes[..count].to_vec()),
        Descriptor::File(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::Error::other("what is to be sent to it is not a file")),
    }
}
