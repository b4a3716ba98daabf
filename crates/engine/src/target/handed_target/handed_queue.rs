//! A queue as it is left to the new process.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::HandedSecret;

/// A queue, which is a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedQueue {
    /// The controller that it belongs to.
    pub controller_id: u16,
    /// Queue identifier, 0 for the admin queue.
    pub queue_id: u16,
    /// The port it came by.
    pub port: u16,
    /// The host's end.
    pub peer: SocketAddr,
    /// Entries it has.
    pub entries: u16,
    /// Head of the submission queue (SQHD).
    pub head: u16,
    /// True if responses carry the submission queue head.
    pub has_flow_control: bool,
    /// Digests of headers and of data.
    pub digests: (bool, bool),
    /// Alignment of data offsets in PDUs to the host, in bytes.
    pub alignment: u8,
    /// Received bytes that were not processed: whole PDUs, and perhaps the beginning of one.
    pub received: Vec<u8>,
    /// Asynchronous Event Requests that wait, by their identifiers.
    pub event_requests: Vec<u16>,
    /// TLS, if it is.
    pub stream: Option<HandedStream>,
}

/// TLS of a queue, between two records.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedStream {
    /// The cipher suite, by its number in TLS.
    pub suite: u16,
    /// The identity of the key that both ends have.
    pub identity: String,
    /// True if the key was derived as libnvme did before 2025.
    pub is_compat: bool,
    /// The key of each direction.
    pub sending: HandedKey,
    /// The same for what comes.
    pub receiving: HandedKey,
    /// Received beginning of a record.
    pub begun: Vec<u8>,
    /// Number of the host's key updates at the time it was last asked for one.
    pub asked: Option<u64>,
}

/// The key of one direction.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedKey {
    /// The traffic secret.
    pub secret: HandedSecret,
    /// Records that it was used for.
    pub records: u64,
    /// Number of key updates.
    pub updates: u64,
}

impl std::fmt::Debug for HandedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HandedStream({}, {:?}, {:?})", self.identity, self.sending, self.receiving)
    }
}

/// Without the secret.
impl std::fmt::Debug for HandedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HandedKey({} records, {} updates)", self.records, self.updates)
    }
}
