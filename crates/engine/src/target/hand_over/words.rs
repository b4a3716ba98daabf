//! Words of a target's hand-over: what is offered, and the state of its hosts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::hand_over::{self, Protocol};
use crate::ring::Socket;
use crate::target::config::FabricConfig;
use crate::target::handed_target::HandedTarget;

/// Extensions of the hand-over format that this version knows, and may require of others.
pub(super) const KNOWN: [&str; 5] = ["ceph", "memory", "MPTCP settings", "marked blocks", "generated keys"];

/// The same, as a new process says it.
pub fn known() -> Vec<String> {
    KNOWN.map(str::to_owned).to_vec()
}

/// Words of a target's hand-over.
pub type Word = hand_over::Word<TargetProtocol>;

/// Hand-over of a target.
#[derive(Debug)]
pub enum TargetProtocol {}

impl Protocol for TargetProtocol {
    const MAGIC: [u8; 8] = *b"selvedge";
    /// Another one is refused, and the target is restarted instead. What comes beside it has names (`KNOWN`).
    const FORMAT: u32 = 1;
    const PREPARATION: Duration = Duration::from_secs(20);
    /// Hosts wait meanwhile.
    const TAKING: Duration = Duration::from_secs(2);
    const TAKING_EACH: Duration = Duration::from_micros(50);
    type Offer = Offer;
    type State = State;
    type Descriptor = Arc<Socket>;
}

/// Input for the preparation of the new process. Descriptors: listening sockets, namespaces in
/// memory, locks, the end of a pipe that shows whether the old process has resumed, and
/// standard output and error.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// Extensions of the format that the new process has to know: names of `KNOWN`. Optional ones
    /// come as fields that unknowing versions ignore.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Configuration in effect, with all changes since the start.
    pub fabric: FabricConfig,
    /// Number of listening sockets.
    pub listening: usize,
    /// State that the program hands over along with the target.
    #[serde(default)]
    pub beside: Value,
    /// Namespaces in memory, with the bytes that their files have room for.
    #[serde(default)]
    pub memories: Vec<(Uuid, u64)>,
}

/// State of the hosts. Descriptors: the sockets of the queues, then of the arrivals.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// Controllers and queues.
    pub target: HandedTarget,
    /// Connections from which nothing has come: the port they came by, and from where.
    pub arrivals: Vec<(u16, SocketAddr)>,
    /// State that the program has released along with the target.
    #[serde(default)]
    pub beside: Value,
}
