//! What a running target tells of itself: its ports, its controllers with their queues, its reactors.
//! It is a snapshot, made when somebody asks; what was served is in `metrics`.

use std::net::SocketAddr;

use serde::Serialize;

/// A running target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetStatus {
    /// Where it listens.
    pub ports: Vec<PortStatus>,
    /// Who is connected, in the order of the controllers' identifiers.
    pub controllers: Vec<ControllerStatus>,
    /// Who serves.
    pub reactors: Vec<ReactorStatus>,
}

/// An address the target listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortStatus {
    /// Its number.
    pub id: u16,
    /// The address with the real service.
    pub address: SocketAddr,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControllerStatus {
    /// Its identifier (CNTLID).
    pub cntlid: u16,
    /// The subsystem's name.
    pub subsystem: String,
    /// The host's name.
    pub host_nqn: String,
    /// The host's identifier.
    pub host_id: uuid::Uuid,
    /// The port it came by.
    pub port: u16,
    /// Whether it takes I/O commands.
    pub ready: bool,
    /// The keep alive time-out in milliseconds, 0 for none.
    pub keep_alive_ms: u32,
    /// Its queues, the admin queue first.
    pub queues: Vec<QueueStatus>,
}

/// A queue, which is a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// Its identifier, 0 for the admin queue.
    pub queue_id: u16,
    /// Entries it has.
    pub entries: u16,
    /// The reactor that serves it.
    pub reactor: usize,
    /// The host's end.
    pub peer: Option<SocketAddr>,
}

/// A reactor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReactorStatus {
    /// Its number.
    pub number: usize,
    /// The processor it is kept on.
    pub cpu: Option<usize>,
    /// Connections it has.
    pub connections: usize,
    /// Processor time it has used, in microseconds.
    pub cpu_time_us: u64,
}
