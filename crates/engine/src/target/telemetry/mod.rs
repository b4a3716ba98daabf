//! What is counted where it happens: by one thread each, without a shared write.

mod counters;
mod histogram;
mod peculiarity;
mod tls_handshakes;

pub(crate) use counters::{
    NamespaceCounts, QueueMeter, QueueMeters, ReactorCounters, ReactorTally, SubsystemCounters,
};
pub use counters::{Operation, QueueMetrics};
pub use histogram::Histogram;
pub use peculiarity::Peculiarity;
pub(crate) use peculiarity::{Peculiarities, Seen};
pub use tls_handshakes::HandshakeKind;
pub(crate) use tls_handshakes::TlsHandshakes;
