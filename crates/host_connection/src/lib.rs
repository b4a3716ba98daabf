//! Connections of this host to targets: their parameters from flags and nvme-cli's files, discovery
//! logs, test connections, and the kernel's own initiator with its disks. The crate serves nothing, and
//! measures nothing.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

// Modules of the crate below, under their own names.
use command_line::{failure, flags, spec};

pub mod config;
pub mod discovery;
pub mod disk_users;
pub mod kernel_initiator;
pub mod probe;
