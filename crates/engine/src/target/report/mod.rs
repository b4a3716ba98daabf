//! What a target reports: its status and metrics.

mod exposition;
mod measured;
mod metrics;
mod status;

pub use exposition::CONTENT_TYPE;
pub use measured::Measured;
pub use metrics::{
    ControllerMetrics, ErrorMetrics, Metrics, NamespaceMetrics, OperationMetrics, StorageMetrics,
    SubsystemMetrics,
};
pub use status::{
    NamespaceFailure, NamespaceState, NamespaceStatus, PortStatus, SubsystemStatus, TargetStatus,
};
pub(crate) use status::{failures, namespaces, subsystems, told};
