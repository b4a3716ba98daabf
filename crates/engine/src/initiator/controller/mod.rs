//! A controller as its host has it: the association from Connect to shutdown, the thread of its admin queue, and what it
//! reports about itself and its namespaces. I/O queues are their users'.

mod admin;
mod allocation;
mod bring_up;
mod controller;
mod deallocate_limits;
mod discovery;
mod identify;

pub use admin::AdminReply;
pub use allocation::Extent;
pub use controller::Controller;
pub use deallocate_limits::DeallocateLimits;
pub use discovery::DiscoveryRecords;
pub use identify::NamespaceInfo;
