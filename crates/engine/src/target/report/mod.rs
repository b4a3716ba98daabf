//! What a target reports: its status and metrics.

mod exposition;
mod exposition_pieces;
mod families;
mod host_key_age;
mod measured;
mod metrics;
mod queue_shares;
mod status;

pub use exposition::{CONTENT_TYPE, Exposition};
pub use exposition_pieces::ExpositionPieces;
pub(crate) use host_key_age::host_key_ages;
pub use host_key_age::{HostKeyAge, HostKeyKind};
pub use measured::Measured;
pub use metrics::{
    ControllerMetrics, ErrorMetrics, Metrics, NamespaceMetrics, OperationMetrics, StageMetrics,
    StorageMetrics, SubsystemMetrics,
};
pub use queue_shares::reported_queues;
pub use status::{
    NamespaceFailure, NamespaceState, NamespaceStatus, PortStatus, SubsystemStatus, TargetStatus,
};
pub(crate) use status::{counts_by_name, failures, namespaces, subsystems};
