//! Administration of a running target: its configuration, the control API with its client, state,
//! audit log, confinement and announcement, and the channel to the process that takes its place. The
//! crate measures nothing.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

// Modules of the crates below, under their own names.
use command_line::{failure, log, spec, version};
use examination::{diagnosis, packet_path};

pub mod announce;
pub mod cluster_connections;
pub mod config;
pub mod confinement;
pub mod control;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of flags are texts of help, with brackets round what may be left out"
)]
pub mod flags;
pub mod machine;
pub mod mptcp;
pub mod state;
pub mod state_directory;
pub mod upgrade;
