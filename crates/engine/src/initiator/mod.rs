//! The host side of NVMe/TCP: queues, controllers and namespaces of a target, used from userspace without
//! root. It keeps out how a workload is made.
//!
//! Layers, each usable on its own:
//! - [`Queue`] is one connection on the caller's own ring: the fast one, nothing allocated per command.
//! - [`Controller`] is an association with a subsystem: admin commands, keep alive, events.
//! - [`Paths`] and [`PathQueues`] are several controllers of a subsystem as ways to one namespace.
//! - [`Namespace`] reads and writes at byte offsets, from any thread.

mod admin;
mod controller;
mod discovery;
mod error;
mod host;
mod identify;
mod link;
mod namespace;
mod options;
mod path;
mod queue;
mod workers;

pub use admin::AdminReply;
pub use controller::Controller;
pub use discovery::DiscoveryRecords;
pub use error::{InitiatorError, PeerMisbehaved};
pub use host::HostIdentity;
pub use identify::NamespaceInfo;
pub use namespace::Namespace;
pub use options::{ConnectOptions, QueueOptions};
pub use path::{
    ConnectionReport, IoPolicy, LaneReport, PathOptions, PathQueues, PathState, PathStatus, Paths,
};
pub use queue::{Completion, Data, Queue, QueueState, Request};
