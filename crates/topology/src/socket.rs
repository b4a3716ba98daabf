//! A TCP socket as the kernel reports it. How it is asked is in `netlink`, and which of them carry queues in `observe`.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A TCP socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Socket {
    /// State.
    pub state: SocketState,
    /// This machine's address and port. An IPv4-mapped IPv6 address is stored as IPv4.
    pub local: SocketAddr,
    /// The other end's; zeros where it listens.
    pub peer: SocketAddr,
    /// Bytes received and not read; of one that listens, connections that were not accepted yet.
    #[serde(default)]
    pub receive_queue_bytes: u32,
    /// Bytes sent and not acknowledged.
    #[serde(default)]
    pub send_queue_bytes: u32,
    /// Number of its inode, 0 where it has none.
    #[serde(default)]
    pub inode: u32,
    /// User that made it.
    #[serde(default)]
    pub uid: u32,
    /// Index of the interface it is bound to, 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interface_index: u32,
    /// Smoothed round trip time in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// Segments sent again since it was connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u32>,
    /// Bytes received since it was connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// A process that has it open; absent for the kernel's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// States of a socket that are distinguished; others are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SocketState {
    /// Connected.
    Established,
    /// Waits for connections.
    Listen,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}
