//! A connection of an NVMe/TCP queue: whose it is, who works on it, and how it fares. Where its packets go follows
//! from the interface and is not here.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CpuSet;

/// A connection of one NVMe/TCP queue, seen from this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// Owner of the queue.
    pub owner: FlowOwner,
    /// The controller: the kernel's name of it (`nvme0`), or what the program calls it.
    pub controller: String,
    /// The subsystem, where it is known.
    pub subsystem_nqn: Option<String>,
    /// Queue (QID), 0 for the admin queue, where it is known.
    pub queue_id: Option<u16>,
    /// Way in which the queue was identified.
    pub source: FlowSource,
    /// Worker of the queue, where it is known.
    pub worker: Option<Worker>,
    /// This machine's address and port.
    pub local: SocketAddr,
    /// The other end's.
    pub peer: SocketAddr,
    /// Interface that packets to the other end leave by.
    pub interface: Option<String>,
    /// Bytes received and not read yet (Recv-Q).
    pub receive_queue_bytes: u32,
    /// Bytes sent and not acknowledged yet (Send-Q).
    pub send_queue_bytes: u32,
    /// Round trip time in microseconds, where the kernel tells.
    pub rtt_us: Option<u32>,
    /// Segments sent again since the connection was made.
    pub retransmissions: Option<u32>,
}

/// Owner of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum FlowOwner {
    /// The kernel's initiator.
    Kernel,
    /// An initiator of ours.
    Initiator {
        /// Process of the target.
        pid: u32,
    },
    /// A target, of ours or another.
    Target {
        /// Process of the initiator; absent for the kernel's.
        pid: Option<u32>,
    },
}

/// Way in which a connection's queue was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowSource {
    /// The program said so.
    Program,
    /// The kernel said so, in debugfs.
    Kernel,
    /// The queue follows from the order of the connections and from the number that each controller
    /// has.
    Derived,
    /// The queue may be another: only the controller's address is certain.
    Guessed,
}

/// Worker of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// The thread, where it is one of a process.
    pub thread: Option<u32>,
    /// The processor it is kept on or was last seen on.
    pub cpu: Option<u32>,
    /// Processors it may run on.
    pub allowed: CpuSet,
    /// True if the worker can be moved from here: a process's thread can, the kernel's worker
    /// cannot.
    pub is_movable: bool,
}

impl Flow {
    /// True if it carries commands with data: an I/O queue, or an unidentified one.
    pub fn is_io(&self) -> bool {
        self.queue_id != Some(0)
    }
}
