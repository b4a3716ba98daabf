//! Sockets of a simulation: what a program sees of the network, with the same methods as the real ones.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};

use super::scheduler;
use crate::limits::SEND_PARTS_MAX;
use crate::ring::{Span, SpanMut};

/// A connected stream.
#[derive(Debug)]
pub struct Socket {
    descriptor: RawFd,
    short_is_all: bool,
}

impl Socket {
    pub(super) fn new(descriptor: RawFd) -> Self {
        let short_is_all = scheduler::with(|world| world.is_emptied_by_short_read(descriptor));
        Self { descriptor, short_is_all }
    }

    /// The same socket, for another process.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn share(&self) -> io::Result<SharedSocket> {
        scheduler::with(|world| {
            world.spare()?;
            world.hold(self.descriptor, None);
            Ok(SharedSocket { descriptor: self.descriptor })
        })
    }

    /// True if a short read has emptied the socket.
    pub const fn is_emptied_by_short_read(&self) -> bool {
        self.short_is_all
    }

    /// Receives into `spans` in order. 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come, else what ended the connection.
    pub fn receive(&self, spans: &mut [SpanMut<'_>]) -> io::Result<usize> {
        let room = spans.iter_mut().map(SpanMut::bytes_mut);
        scheduler::with(|world| world.receive(self.descriptor, room)).map_err(io::Error::from_raw_os_error)
    }

    /// Bytes that a receive call gets at least, where a short one empties the socket.
    pub fn available(&self) -> usize {
        scheduler::with(|world| world.available(self.descriptor))
    }

    /// Sends `spans` in order, as much as there is room for.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, else what ended the connection.
    ///
    /// # Panics
    /// When there are more than `limits::SEND_PARTS_MAX` spans.
    pub fn send(&self, spans: &[Span<'_>]) -> io::Result<usize> {
        assert!(spans.len() <= SEND_PARTS_MAX, "too many parts for one send");
        let parts = spans.iter().map(Span::bytes);
        scheduler::with(|world| world.send(self.descriptor, parts)).map_err(io::Error::from_raw_os_error)
    }

    /// The address of this end.
    pub fn local_ip(&self) -> Option<IpAddr> {
        Some(scheduler::with(|world| world.server_address(self.descriptor)).ip())
    }

    /// Makes closing reset the connection.
    pub fn reset_when_closed(&self) {
        scheduler::with(|world| world.reset_when_closed(self.descriptor));
    }

    /// Says that nothing more will be sent.
    pub fn shut_down_sending(&self) {
        scheduler::with(|world| world.shut_down_sending(self.descriptor));
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        close(self.descriptor);
    }
}

/// A socket on its way from one process to another. It stays open for as long, whatever becomes of them.
#[derive(Debug)]
pub struct SharedSocket {
    descriptor: RawFd,
}

impl SharedSocket {
    /// Opens the socket for the process that it has come to.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn open(self) -> io::Result<Socket> {
        scheduler::with(|world| {
            world.spare()?;
            let holder = world.running();
            world.hold(self.descriptor, holder);
            Ok::<(), io::Error>(())
        })?;
        Ok(Socket::new(self.descriptor))
    }
}

impl Drop for SharedSocket {
    fn drop(&mut self) {
        scheduler::with_if(|world| world.close_end(self.descriptor, None));
    }
}

/// Closes a descriptor; those of a killed process are closed for it, in one go.
pub(super) fn close(descriptor: RawFd) {
    if !scheduler::is_ending() {
        scheduler::with_if(|world| {
            let holder = world.running();
            world.close_end(descriptor, holder);
        });
    }
}
