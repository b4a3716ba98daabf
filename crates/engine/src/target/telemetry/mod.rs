//! What is counted where it happens: by one thread each, without a shared write.

mod counters;
mod peculiarity;
mod queue_meter;
mod size_class;
mod slow_commands;
mod stage;
mod tls_handshakes;

pub use crate::histogram::Histogram;
pub use counters::Operation;
pub(crate) use counters::{
    NamespaceCounts, OperationCounts, ReactorCounters, ReactorTally, SubsystemCounters,
};
pub use peculiarity::Peculiarity;
pub(crate) use peculiarity::{Peculiarities, Seen};
pub use queue_meter::QueueMetrics;
pub(crate) use queue_meter::{QueueMeter, QueueMeters};
pub use size_class::SizeClass;
pub(crate) use slow_commands::SlowCommands;
pub use slow_commands::{SlowCommand, SlowCommandLog};
pub use stage::Stage;
pub(crate) use stage::StageTimes;
pub use tls_handshakes::HandshakeKind;
pub(crate) use tls_handshakes::TlsHandshakes;
