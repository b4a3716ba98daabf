//! A connection on its way from the listener to a reactor.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::ring::Socket;

/// A connection that has just come.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: Arc<Socket>,
    /// The port it came by.
    pub(crate) port: u16,
    /// Address of the host.
    pub(crate) peer: SocketAddr,
}
