//! What people write for one thing, wherever they write it, on the command line, in a file or in a request: its short form
//! and the checks that it fits. Whole configurations are `config`'s; nothing is opened, listened on or connected to here.

pub(crate) use engine::units as size;

pub(crate) mod audit_destination;
pub(crate) mod ceph;
pub(crate) mod endpoint;
pub(crate) mod extent;
pub(crate) mod fio_numbers;
pub(crate) mod namespace;
pub(crate) mod quotas;
pub(crate) mod reactors;
pub(crate) mod role;
pub(crate) mod secret;
pub(crate) mod service;

use std::path::{Path, PathBuf};

/// The path from the root on.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // It fails for an empty path only, which names no file anyway.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
