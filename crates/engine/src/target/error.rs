//! Why a target cannot start, or cannot be changed.

use std::io;

use crate::address::NetAddress;
use crate::backend::BackendError;
use crate::ceph::CephError;

/// Why a target could not start.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The configuration contradicts itself or a limit.
    #[error("{0}")]
    Config(String),
    /// A namespace's backend could not be opened.
    #[error("namespace {nsid} of {nqn}: {source}")]
    Namespace {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// Reason.
        source: BackendError,
    },
    /// A listening socket could not be opened.
    #[error("cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen {
        /// The address.
        address: NetAddress,
        /// Error of the system.
        source: io::Error,
    },
    /// Reservations that outlive the target cannot be kept, or were not found whole.
    #[error("{0}")]
    Reservations(String),
    /// A host would change a namespace that another host has reserved.
    #[error("namespace {nsid} of {nqn} is reserved by another host")]
    Reserved {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// A reactor could not start.
    #[error("cannot start a reactor: {0}")]
    Reactor(io::Error),
    /// A namespace cannot be reopened.
    #[error("namespace {nsid} of {nqn} is not reopened: {reason}")]
    Reopen {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// Why not.
        reason: String,
    },
}

impl TargetError {
    /// True if a namespace lacks Ceph's libraries or configuration, which no waiting brings.
    pub(crate) fn is_misconfiguration(&self) -> bool {
        let Self::Namespace { source: BackendError::Ceph(error), .. } = self else { return false };
        matches!(
            error,
            CephError::Library { .. } | CephError::Configuration { .. } | CephError::Setting { .. }
        )
    }
}

fn listen_hint(error: &io::Error) -> &'static str {
    // What does not answer for the address itself says what to do in its own words.
    if error.raw_os_error().is_none() {
        return "";
    }
    match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port with -s, or 0 for a free one",
        io::ErrorKind::AddrNotAvailable => "; it is not an address of this machine",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege, choose a higher one with -s",
        _ => "",
    }
}
