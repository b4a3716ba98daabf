//! A controller as it is left to the new process.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedController {
    /// Controller identifier (CNTLID).
    pub id: u16,
    /// Uniquifier and random number, which distinguish the controller from others with the same
    /// identifier (TP8028).
    pub instance: (u8, u64),
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The host's NQN.
    pub host_nqn: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
    /// Source address of its admin queue.
    pub address: IpAddr,
    /// The keep alive time-out in milliseconds, 0 for none.
    pub keep_alive_ms: u32,
    /// Controller Configuration (CC).
    pub configuration: u32,
    /// Controller Status (CSTS).
    pub status: u32,
    /// Features set by the host.
    pub features: HandedFeatures,
    /// Events to report, and events that were reported but not read, as bits of their kinds.
    pub events: (u8, u8),
    /// Namespaces that are otherwise than the host may think.
    pub changed_namespaces: Vec<u32>,
    /// A checksum of the namespaces that its host was shown, or notified of. Former versions do not say it.
    #[serde(default)]
    pub shown: Option<u32>,
    /// Errors since it was made.
    pub error_count: u64,
    /// The error log, newest entry first.
    #[serde(default)]
    pub errors: Vec<HandedError>,
    /// The identity of the TLS key that has come out of its host's authentication, if one has.
    pub generated_key: Option<String>,
    /// Command Quiesce Time reported to the host, in milliseconds; 0 if the host has not asked.
    #[serde(rename = "told_quiesce_ms")]
    pub reported_quiesce_ms: u16,
    /// Parameters of the host's authentication, if it had to authenticate.
    pub proof: Option<HandedProof>,
}

/// An entry of the error log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedError {
    /// Error count (ECNT).
    pub count: u64,
    /// The queue.
    pub queue_id: u16,
    /// The command.
    pub command_id: u16,
    /// Opcode of the command.
    pub opcode: u8,
    /// Status of the command.
    pub status: u16,
    /// Location of the invalid parameter.
    pub parameter_location: u16,
    /// The first block.
    pub lba: u64,
    /// The namespace.
    pub nsid: u32,
}

/// Features that a host has set on its controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedFeatures {
    /// Arbitration.
    pub arbitration: u32,
    /// Temperature Threshold.
    pub temperature_threshold: u32,
    /// Error Recovery.
    pub error_recovery: u32,
    /// Write Atomicity.
    pub write_atomicity: u32,
    /// Asynchronous Event Configuration.
    pub async_events: u32,
    /// I/O queues that were granted.
    pub io_queues: u16,
    /// Host Behavior Support, its bytes up to the last that is not 0.
    pub host_behavior: Vec<u8>,
    /// The host's clock in milliseconds, if it has set it.
    pub timestamp_ms: Option<u64>,
    /// Reservation notifications the host does not want, by namespace.
    pub reservation_masks: Vec<(u32, u32)>,
}

/// Parameters of a host's authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedProof {
    /// The hash function, by its number.
    pub hash: u8,
    /// The group of the key exchange, by its number.
    pub group: u8,
    /// True if the controller has authenticated too.
    pub is_bidirectional: bool,
    /// Index of the host's secret among those that the target accepts.
    pub secret: usize,
}
