//! Ports of an address for one cluster: a window outside the range from which the system picks ports for connections.
//! It keeps out who listens on them.

use std::net::{Ipv4Addr, TcpListener};

/// Windows lie below the ports that the system gives to connections, and above those that services have.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;
/// A monitor, and up to nine daemons with four ports each.
const WINDOW: u16 = 60;
const WINDOWS: u16 = (LAST - FIRST) / WINDOW;

/// The ports of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) monitor: u16,
    /// Other daemons take what is free from here on...
    pub(super) first: u16,
    /// ...to here, and look again at each start.
    pub(super) last: u16,
}

impl Ports {
    /// A window whose ports are all free now at this address, in the network namespace of the calling thread. `id`
    /// decides which is tried first, so that two clusters that start at the same time look in different places.
    ///
    /// # Errors
    /// All have something that listens.
    pub(super) fn free(address: Ipv4Addr, id: u32) -> Result<Ports, String> {
        let first_tried = (id % u32::from(WINDOWS)) as u16;
        let windows = (0..WINDOWS).map(|step| FIRST + (first_tried + step) % WINDOWS * WINDOW);
        let is_free = |port: u16| TcpListener::bind((address, port)).is_ok();
        let found = windows.into_iter().find(|first| (*first..first + WINDOW).all(is_free));
        let first = found.ok_or_else(|| format!("all ports from {FIRST} to {LAST} are in use"))?;
        Ok(Ports { monitor: first, first: first + 1, last: first + WINDOW - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_left_out() {
        let before = Ports::free(Ipv4Addr::LOCALHOST, 7).unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, before.last)).unwrap();
        let after = Ports::free(Ipv4Addr::LOCALHOST, 7).unwrap();
        assert!(after.monitor > before.last || after.last < before.monitor, "{before:?} {after:?}");
        assert_eq!(after.last - after.monitor, WINDOW - 1);
    }
}
