//! A way from this machine to a target's address, as the kernel chooses it and as it was tried.

use std::net::{IpAddr, SocketAddr};

use topology::KernelRoute;

use crate::probe::Probe;

/// A way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkPath {
    /// The target.
    pub(crate) target: SocketAddr,
    /// The address that packets come from, where it matters.
    pub(crate) source: Option<IpAddr>,
    /// The interface that has that address.
    pub(crate) source_interface: Option<String>,
    /// The kernel's choice, or why there is none.
    pub(crate) way: Result<KernelRoute, String>,
    /// Result of a test connection, if one was made.
    pub(crate) probe: Option<Probe>,
    /// True if the path is on the command line, or has connections or a controller.
    pub(crate) is_wanted: bool,
}

impl NetworkPath {
    /// The interface that packets leave by.
    pub(crate) fn interface(&self) -> Option<&str> {
        self.way.as_ref().ok().map(|way| way.interface.as_str())
    }

    /// Name of the path in a sentence.
    pub(crate) fn name(&self) -> String {
        match self.source {
            Some(source) => format!("{} from {source}", self.target),
            None => self.target.to_string(),
        }
    }
}
