//! Namespaces as disks for programs that know no NVMe. A [`Server`] gives them to NBD clients, on a Unix socket or TCP, a
//! [`VhostUserServer`] to virtual machines, as virtio block devices, and a [`ublk::Device`] to the kernel as a block device, over
//! the initiator's paths: a path that is lost, or a target that is away for a while, is nothing that they see but time.
//!
//! Each thread of a server has a ring, queues on every path and some clients. A request goes to a queue on the thread that
//! received it, and its reply is sent from there: nothing is allocated, locked or shared per request. Data of a read is sent
//! from the buffer that the target's answer came into; data of a write is received into the buffer that is sent on, but for
//! what came in one piece with its request.
//!
//! A client pays for what it does itself: its requests, its buffers and its unread replies are limited
//! ([`limits`]), and one that breaks the protocol loses its connection.

mod buffer_budget;
mod client;
mod client_faults;
mod client_limiter;
mod client_state;
mod commands;
mod disk;
mod disk_queues;
mod extents;
mod hand_over_error;
mod handed_client;
mod hex_bytes;
mod holder;
mod input;
pub mod limits;
mod machine;
mod output;
mod quiescing;
mod ready_list;
mod requests;
mod server;
mod status;
mod storage;
mod tls;
mod worker_command;

pub mod ublk;
mod vhost_user;
mod worker;

pub use disk::{Disk, DiskError};
pub use hand_over_error::HandOverError;
pub use handed_client::{
    HandedClient, HandedDisk, HandedHeaders, HandedIncoming, HandedKey, HandedServer, HandedStage,
    HandedStream, HandedWrite, RECEIVED_IN_FILES,
};
pub use holder::Holder;
pub use machine::{Descriptor, Listener};
pub use server::{Server, ServerOptions, Tally};
pub use tls::{CertificateError, ServerTls};
#[cfg(not(feature = "simulation"))]
pub use vhost_user::GuestModel;
#[cfg(feature = "simulation")]
pub use vhost_user::{
    BackEndReply, FrontEnd, FrontEndConnection, FrontEndMessage, FrontEndSocket, guest_file,
    stop_where_a_kill_matters,
};
pub use vhost_user::{
    FrontEndListener, HandedFrontEnd, HandedInflight, HandedRegion, HandedSocket, HandedVhostServer,
    HandedVring, VhostHolder, VhostUserServer,
};
