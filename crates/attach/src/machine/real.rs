//! Sockets and files of Linux.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use engine::ring::Socket;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::buffer_budget::Party;
use crate::limits::{CLIENT_QUESTION_S, CLIENT_QUESTIONS, CLIENT_SILENCE_S};

/// An open socket or file on its way to another process.
pub type Descriptor = OwnedFd;

/// A socket that takes clients.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket.
    Unix(UnixListener),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    /// The next client, and who it is, for the log.
    pub(crate) fn accept(&self) -> io::Result<(Socket, String)> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Socket::new(OwnedFd::from(stream))?, "on the Unix socket".to_owned()))
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                Ok((Socket::new(OwnedFd::from(stream))?, peer.to_string()))
            }
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Unix(listener) => listener.as_raw_fd(),
            Self::Tcp(listener) => listener.as_raw_fd(),
        }
    }
}

/// Has the system find out if the machine at the other end is gone.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(CLIENT_SILENCE_S))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(CLIENT_QUESTION_S))?;
    sockopt::set_tcp_keepcnt(stream, CLIENT_QUESTIONS)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Party of the client at the other end.
pub(crate) fn party_of(socket: &Socket) -> Party {
    Party::of(socket)
}

/// Ends a connection in both directions, also for other processes that have it.
pub(crate) fn shut_down(socket: &Socket) {
    let _ = shutdown(socket, Shutdown::Both);
}

/// The same socket, for another process.
pub(crate) fn share(socket: &Socket) -> io::Result<Descriptor> {
    socket.as_fd().try_clone_to_owned()
}

/// Socket that another process has shared.
pub(crate) fn open(socket: Descriptor) -> io::Result<Socket> {
    Socket::new(socket)
}

/// A file in memory that has these bytes.
pub(crate) fn file_of(bytes: &[u8]) -> io::Result<Descriptor> {
    let mut file = File::from(memfd_create("handed", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// The first bytes of a file. Anything but a file may have no end, or be waited for.
pub(crate) fn bytes_of(file: Descriptor, count: usize) -> io::Result<Vec<u8>> {
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("what is handed over with it is not a file"));
    }
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_machines_that_are_gone_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = Listener::Tcp(listener).accept().unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(CLIENT_SILENCE_S));
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), Duration::from_secs(CLIENT_QUESTION_S));
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), CLIENT_QUESTIONS);
    }
}
