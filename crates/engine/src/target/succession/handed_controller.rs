//! A controller as it is left to the next process.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedController {
    /// Its identifier (CNTLID).
    pub id: u16,
    /// What tells it from all others that have its identifier: the uniquifier and the random number (TP8028).
    pub instance: (u8, u64),
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The host's NQN.
    pub host_nqn: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
    /// Where its admin queue came from.
    pub address: IpAddr,
    /// The keep alive time-out in milliseconds, 0 for none.
    pub keep_alive_ms: u32,
    /// Controller Configuration (CC).
    pub configuration: u32,
    /// Controller Status (CSTS).
    pub status: u32,
    /// What its host has set.
    pub features: HandedFeatures,
    /// Events to tell, and those that were told and not looked at, by the bits of their kinds.
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
    /// The Command Quiesce Time that its host was told, in milliseconds; 0 if it has not asked.
    pub told_quiesce_ms: u16,
    /// How its host has authenticated, if it had to.
    pub proof: Option<HandedProof>,
}

/// An entry of the error log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedError {
    /// Its number.
    pub count: u64,
    /// The queue.
    pub queue_id: u16,
    /// The command.
    pub command_id: u16,
    /// Its operation.
    pub opcode: u8,
    /// Its status as it was answered.
    pub status: u16,
    /// Where the wrong parameter is.
    pub parameter_location: u16,
    /// The first block.
    pub lba: u64,
    /// The namespace.
    pub nsid: u32,
}

/// What a host has set of its controller's features.
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

/// How a host has authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedProof {
    /// The hash function, by its number.
    pub hash: u8,
    /// The group of the key exchange, by its number.
    pub group: u8,
    /// Whether the controller has authenticated too.
    pub is_bidirectional: bool,
    /// Which of the secrets that the controller accepts the host has.
    pub secret: usize,
}
