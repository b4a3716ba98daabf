//! Limit of the bytes in a socket that its peer has not acknowledged. The system lets them grow to megabytes, which a far peer
//! needs. A near one has acknowledged long before, and bytes that pass through so much memory have left the caches when
//! they are copied out again.

use std::os::fd::AsFd;

use rustix::net::sockopt;

use super::Transport;
use super::info::{traffic, transport_of};
use crate::limits::{NEAR_PATH_RTT_US_MAX, NEAR_PATH_SEND_BUFFER_LENGTH};

/// Bounds what the new connection on `socket` keeps, if its peer is near. One of MPTCP is left as it is: it may get other
/// paths. So is one where the kernel does not tell: it works as well.
pub(crate) fn fit(socket: &impl AsFd) {
    let is_tcp = transport_of(socket).is_ok_and(|transport| transport == Transport::Tcp);
    let Some(traffic) = traffic(socket).ok().filter(|_| is_tcp) else { return };
    if let Some(length) = length_for(traffic.rtt_us_min) {
        let _ = sockopt::set_socket_send_buffer_size(socket, length);
    }
}

/// The length for a path, unless the system's is better. A path that was not measured has no round trip time.
fn length_for(rtt_us: u32) -> Option<usize> {
    (1..=NEAR_PATH_RTT_US_MAX).contains(&rtt_us).then_some(NEAR_PATH_SEND_BUFFER_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_peers_have_a_bound() {
        assert_eq!(length_for(0), None);
        assert_eq!(length_for(1), Some(NEAR_PATH_SEND_BUFFER_LENGTH));
        assert_eq!(length_for(NEAR_PATH_RTT_US_MAX), Some(NEAR_PATH_SEND_BUFFER_LENGTH));
        assert_eq!(length_for(NEAR_PATH_RTT_US_MAX + 1), None);
    }
}
