//! Addresses of loopback on which nothing listens.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

/// Address with a port on which nothing listens. The address belongs to the caller alone: a port of
/// 127.0.0.1 that was free a moment ago may be the local port of another test's connection by the
/// time it is used.
///
/// # Panics
/// Where the machine has no loopback interface.
pub fn free_address() -> SocketAddr {
    static CALLS: AtomicU8 = AtomicU8::new(0);
    // Tests run as threads of one process or as processes, by the runner.
    let [.., high, low] = std::process::id().to_be_bytes();
    let network = 64 + CALLS.fetch_add(1, Ordering::Relaxed) % 128;
    let listener = TcpListener::bind((Ipv4Addr::new(127, network, high, low), 0));
    listener.and_then(|listener| listener.local_addr()).expect("loopback has all of 127.0.0.0/8")
}
