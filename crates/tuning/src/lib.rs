//! `selvedge doctor` and `selvedge tune`: faults of this machine's storage network with their remedies,
//! the way of packets to their workers, and plans and advice for it. The crate serves nothing.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

// Modules of the crates below, under their own names.
use administration::control;
use command_line::{failure, spec, stop};
use examination::{diagnosis, packet_path};
use host_connection::probe;
use measurement::{bench, report, sweep};

pub mod commands;
pub mod doctor;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of flags are texts of help, with brackets round what may be left out"
)]
pub mod flags;
pub mod tune;
