//! What the kernel counts of a TCP connection (`struct tcp_info`): how fast it could send, what held it, what was lost.
//! Which queue the connection is stands in `flow`.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A connection at one moment. Counters are since it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// This machine's end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Congestion control.
    #[serde(default)]
    pub congestion: String,
    /// Smoothed round trip time in microseconds.
    #[serde(default)]
    pub rtt_us: u32,
    /// The shortest that was seen, in microseconds.
    #[serde(default)]
    pub rtt_us_min: u32,
    /// Largest segment that is sent, without headers, in bytes.
    #[serde(default)]
    pub segment_bytes: u32,
    /// Largest segment that this end accepts and has announced, in bytes.
    #[serde(default)]
    pub advertised_bytes: u32,
    /// Largest packet that the way takes, as far as this end knows, in bytes.
    #[serde(default)]
    pub path_mtu_bytes: u32,
    /// Segments that may be under way.
    #[serde(default)]
    pub window_segments: u32,
    /// Segments that are under way.
    #[serde(default)]
    pub unacknowledged_segments: u32,
    /// Consecutive expiries of the oldest segment's timer.
    #[serde(default)]
    pub backoff: u32,
    /// Bytes that were sent, each time that they were.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Of these, bytes that had been sent before.
    #[serde(default)]
    pub retransmitted_bytes: u64,
    /// Bytes that were sent and are acknowledged.
    #[serde(default)]
    pub acknowledged_bytes: u64,
    /// Bytes that have come.
    #[serde(default)]
    pub received_bytes: u64,
    /// Time with data to send, in microseconds.
    #[serde(default)]
    pub busy_us: u64,
    /// Of that, time that the other end's buffer was full, in microseconds.
    #[serde(default)]
    pub peer_limited_us: u64,
    /// Of that, time that this end's send buffer was full, in microseconds.
    #[serde(default)]
    pub buffer_limited_us: u64,
    /// Segments that came before others that were sent first.
    #[serde(default)]
    pub out_of_order: u32,
    /// Most bytes that this end keeps unread (SO_RCVBUF).
    #[serde(default)]
    pub receive_buffer_bytes: u32,
    /// Most bytes that this end keeps unsent (SO_SNDBUF).
    #[serde(default)]
    pub send_buffer_bytes: u32,
}

impl Connection {
    /// Both ends.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.peer)
    }
}
