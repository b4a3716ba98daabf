//! `selvedge attach`: namespaces as disks for programs that know no NVMe, until a signal ends it, and
//! what is done with attached disks: lists, records, recovery and upgrades. The disks themselves are
//! the crate `attach`'s; this one has their flags, files and permissions.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

// `eprintln!` and `eprint!` of it take the places of the standard library's, which panic.
#[macro_use]
extern crate command_line;

// Modules of the crates below, under their own names.
use administration::{confinement, control, mptcp};
use command_line::{failure, spec, stop, version};
use host_connection::{discovery, disk_users, kernel_initiator};
use measurement::report;

mod attach_file;
mod attaching;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of flags are texts of help, with brackets round what may be left out"
)]
pub mod flags;
mod sleeper;

pub use attaching::{Attached, AttachedDisks, Detached, UpgradedProcesses, edges, run, writer_of};
