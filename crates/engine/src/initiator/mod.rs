//! The host side of NVMe/TCP: queues, controllers and namespaces of a target, used from userspace without
//! root. It keeps out what a path is and which one to take (multipath), and how a workload is made.
//!
//! Three layers, each usable on its own:
//! - [`Queue`] is one connection on the caller's own ring: the fast one, nothing allocated per command.
//! - [`Controller`] is an association with a subsystem: admin commands, keep alive, events.
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
pub use queue::{Completion, Data, Queue, QueueState, Request};
