//! A stream socket that never blocks: vectored receive and send, and nothing else on the data path.
//! How it came to be (listening, connecting, options) belongs to `tcp`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{ipproto, sockopt};

use crate::limits::SEND_PARTS_MAX;
use crate::ring::{Span, SpanMut};

/// A connected stream.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    /// A short read says that there is no more.
    short_is_all: bool,
}

impl Socket {
    /// Takes over a connected stream socket and makes it non-blocking.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn new(descriptor: impl Into<OwnedFd>) -> io::Result<Self> {
        let descriptor = descriptor.into();
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        // A stream over several paths gives what one of them has brought, and may have more of another.
        let short_is_all = !matches!(sockopt::socket_protocol(&descriptor), Ok(Some(ipproto::MPTCP)));
        Ok(Self { descriptor, short_is_all })
    }

    /// True if a short read has emptied the socket, and new data is reported. Else read until
    /// it would block: data that was there already is not reported.
    pub const fn is_emptied_by_short_read(&self) -> bool {
        self.short_is_all
    }

    /// Receives into `spans` in order. 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come, else what ended the connection.
    pub fn receive(&self, spans: &mut [SpanMut<'_>]) -> io::Result<usize> {
        loop {
            // SAFETY: `SpanMut` is an iovec (transparent) whose memory is borrowed alone for the time of the call.
            #[allow(unsafe_code)]
            let result = unsafe {
                match spans {
                    [one] => libc::recv(self.descriptor.as_raw_fd(), one.pointer().cast(), one.len(), 0),
                    _ => libc::readv(
                        self.descriptor.as_raw_fd(),
                        spans.as_ptr().cast(),
                        spans.len() as libc::c_int,
                    ),
                }
            };
            match usize::try_from(result) {
                Ok(received) => return Ok(received),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Bytes that a receive call gets at least, where a short one empties the socket.
    pub fn available(&self) -> usize {
        rustix::io::ioctl_fionread(&self.descriptor).map_or(0, |bytes| bytes as usize)
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
        loop {
            // SAFETY: an all-zero msghdr is a valid one. `Span` is an iovec (transparent) whose memory stays mapped for
            // the time of the call, by the borrow or by the promise of `from_raw`; the kernel only reads it.
            #[allow(unsafe_code)]
            let result = unsafe {
                let mut message: libc::msghdr = std::mem::zeroed();
                message.msg_iov = spans.as_ptr() as *mut libc::iovec;
                message.msg_iovlen = spans.len();
                libc::sendmsg(self.descriptor.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            };
            match usize::try_from(result) {
                Ok(sent) => return Ok(sent),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The address of this end.
    pub fn local_ip(&self) -> Option<std::net::IpAddr> {
        let address = rustix::net::getsockname(&self.descriptor).ok()?;
        std::net::SocketAddr::try_from(address).ok().map(|address| address.ip())
    }

    /// Makes closing throw away what has not been sent, and reset the connection: a peer that cannot be reached now is
    /// not to get it later.
    pub fn reset_when_closed(&self) {
        let _ = sockopt::set_socket_linger(&self.descriptor, Some(std::time::Duration::ZERO));
    }

    /// Says that nothing more will be sent; what is queued still leaves, and the peer sees a proper end.
    pub fn shut_down_sending(&self) {
        let _ = rustix::net::shutdown(&self.descriptor, rustix::net::Shutdown::Write);
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.descriptor
    }
}

/// Makes a socket that is not connected yet use the interface with this name and no other (SO_BINDTODEVICE).
///
/// # Errors
/// When there is no such interface.
pub(super) fn bind_to_interface(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    // SAFETY: the kernel reads the name's bytes, which live for the call, and no more than its length.
    #[allow(unsafe_code)]
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            interface.as_ptr().cast(),
            interface.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
