//! In what order the target reads what its host sends over several connections: as it was sent, for recorder and player see
//! to that.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time that the target may take. Some of what it does not want it never reads.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(50);
/// Fields of a line of the kernel's list: addresses of both ends, and bytes to send and to be read.
const OWN_FIELD: usize = 1;
const PEER_FIELD: usize = 2;
const QUEUES_FIELD: usize = 4;

/// Waits until the other end of `stream`, in this machine, has read what it was sent.
pub(crate) fn await_read(stream: &TcpStream) {
    let (Ok(own), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let deadline = Instant::now() + PATIENCE;
    while unread(peer, own).is_some_and(|bytes| bytes > 0) && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
}

/// Bytes that wait in the socket between these ends, on the side of `own`. `None`: there is no longer such a socket.
fn unread(own: SocketAddr, peer: SocketAddr) -> Option<u64> {
    let list = std::fs::read_to_string("/proc/self/net/tcp").ok()?;
    let (own, peer) = (format!(":{:04X}", own.port()), format!(":{:04X}", peer.port()));
    list.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ends = fields.get(OWN_FIELD)?.ends_with(&own) && fields.get(PEER_FIELD)?.ends_with(&peer);
        let (_, waiting) = fields.get(QUEUES_FIELD)?.split_once(':')?;
        ends.then(|| u64::from_str_radix(waiting, 16).ok())?
    })
}
