//! Controllers: one association of a host with a subsystem, shared by its queues.

mod controller;
mod cross_resets;
mod event;
mod features;
mod guest;
mod handed;
mod parameter_location;
mod status;

pub(crate) use controller::{Controller, Quiesce};
pub(crate) use event::Notice;
pub(crate) use features::Features;
pub(crate) use guest::Guest;
pub use guest::Network;
pub(crate) use status::OpenQueue;
pub use status::{AuthenticationStatus, ControllerStatus, QueueStatus, TlsStatus};
