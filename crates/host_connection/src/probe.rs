//! Test connection to a target's port, which is closed again: shows whether packets come back, and
//! the round trip. No data is sent on it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time-out of a connection: a lost first packet is sent again after a second.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Result of a test connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Probe {
    /// The connection was established.
    Reached {
        /// Time that it took, in microseconds.
        rtt_us: u64,
    },
    /// The other end or the system refused the connection.
    Refused {
        /// In the system's words.
        reason: String,
    },
    /// No packet came back.
    Silent,
}

/// Connects to an address, from one of this machine's where that is asked for.
pub fn probe(target: SocketAddr, source: Option<IpAddr>) -> Probe {
    let began = Instant::now();
    match connect(target, source) {
        Ok(()) => Probe::Reached { rtt_us: began.elapsed().as_micros() as u64 },
        Err(Errno::TIMEDOUT) => Probe::Silent,
        Err(error) => {
            let text = io::Error::from(error).to_string();
            let reason = text.split(" (os error").next().unwrap_or_default().to_owned();
            Probe::Refused { reason }
        }
    }
}

fn connect(target: SocketAddr, source: Option<IpAddr>) -> Result<(), Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(source) = source {
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match rustix::net::connect(&socket, &target) {
        Ok(()) => return Ok(()),
        Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let patience =
        Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
    let mut wanted = [PollFd::new(&socket, PollFlags::OUT)];
    if poll(&mut wanted, Some(&patience))? == 0 {
        return Err(Errno::TIMEDOUT);
    }
    rustix::net::sockopt::socket_error(&socket)?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_reached_or_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(matches!(probe(address, None), Probe::Reached { .. }));
        assert!(matches!(probe(address, Some(address.ip())), Probe::Reached { .. }));
        drop(listener);
        let Probe::Refused { reason } = probe(address, None) else { panic!("it is closed") };
        assert_eq!(reason, "Connection refused");
    }
}
