//! What people write for one thing, wherever they write it, on the command line, in a file or in a request: its short form
//! and the checks that it fits. Whole configurations are `config`'s; nothing is opened, listened on or connected to here.

pub use engine::units as size;

pub mod audit_destination;
pub mod ceph;
pub mod endpoint;
pub mod extent;
pub mod fio_numbers;
pub mod namespace;
pub mod quotas;
pub mod reactors;
pub mod role;
pub mod secret;
pub mod service;

use std::path::{Path, PathBuf};

/// The path from the root on.
pub fn absolute(path: &Path) -> PathBuf {
    // It fails for an empty path only, which names no file anyway.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
