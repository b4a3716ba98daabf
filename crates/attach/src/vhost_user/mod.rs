//! Namespaces as vhost-user-blk devices: a hypervisor shares its guest's memory, and the guest's driver puts requests into
//! virtqueues there.
//!
//! A thread for each socket hears its front end, and threads with a ring each serve virtqueues: they are woken by a guest's
//! kicks, copy the data of writes out of its memory into the buffers that are sent, and that of reads from the buffers that
//! the target's answers came into.
//!
//! A guest and its hypervisor are not trusted. What they say is checked where it comes in; a request that is invalid
//! fails, and one whose rings are invalid loses its connection. Nothing of it reaches other front ends.

#[cfg(not(feature = "simulation"))]
mod backend_channel;
#[cfg(not(feature = "simulation"))]
mod call;
mod chain;
#[cfg(not(feature = "simulation"))]
mod descriptor;
mod device;
mod front_end_command;
mod front_end_quiescing;
mod front_end_thread;
mod guest_memory;
#[cfg(not(feature = "simulation"))]
mod guest_model;
mod handed_front_end;
mod holder;
mod inflight;
mod lost_memory;
mod machine;
mod mapping_share;
#[cfg(not(feature = "simulation"))]
mod message;
mod namespace;
mod requests;
#[cfg(not(feature = "simulation"))]
mod resumed_handler;
mod server;
mod service;
mod session;
mod session_state;
mod shared_mapping;
mod vring;
mod vring_command;
mod work;
mod worker;

#[cfg(not(feature = "simulation"))]
pub use guest_model::GuestModel;
pub use handed_front_end::{
    HandedFrontEnd, HandedInflight, HandedRegion, HandedSocket, HandedVhostServer, HandedVring,
};
pub use holder::VhostHolder;
pub use machine::FrontEndListener;
#[cfg(feature = "simulation")]
pub use machine::{
    BackEndReply, FrontEnd, FrontEndConnection, FrontEndMessage, FrontEndSocket, guest_file,
    stop_where_a_kill_matters,
};
pub use server::VhostUserServer;
