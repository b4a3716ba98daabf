//! Options of a volume: its namespace, its paths, and its number of threads.

use std::fmt;

use uuid::Uuid;

use crate::initiator::PathOptions;
use crate::limits::VOLUME_COMMANDS_MAX;

/// By what a namespace is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceName {
    /// Number in the subsystem (NSID).
    Nsid(u32),
    /// UUID of the namespace.
    Uuid(Uuid),
}

impl From<u32> for NamespaceName {
    fn from(nsid: u32) -> Self {
        Self::Nsid(nsid)
    }
}

impl From<Uuid> for NamespaceName {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nsid(nsid) => write!(f, "namespace {nsid}"),
            Self::Uuid(uuid) => write!(f, "namespace {uuid}"),
        }
    }
}

/// Options of a volume: those of its paths, and more by its methods.
///
/// ```
/// # use engine::initiator::{ConnectOptions, PathOptions};
/// use engine::initiator::VolumeOptions;
///
/// # let paths = PathOptions::new(vec![ConnectOptions::new(([127, 0, 0, 1], 4420).into(), "nqn.2014-08.org.example:disk")], 1);
/// let options = VolumeOptions::from(paths).with_threads(2).with_depth(32);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VolumeOptions {
    /// The paths, and what to do when one is lost.
    pub paths: PathOptions,
    /// Threads that do the I/O. Each has its own queues on every path, so that there are no more than a controller grants
    /// I/O queues; `ConnectOptions::io_queues` says for how many it is asked.
    pub threads: u16,
    /// Commands that one thread has outstanding at most; others wait.
    pub depth: usize,
}

impl VolumeOptions {
    /// The same with this number of threads.
    pub fn with_threads(mut self, threads: u16) -> Self {
        self.threads = threads;
        self
    }

    /// The same with at most this number of outstanding commands of each thread.
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }
}

impl From<PathOptions> for VolumeOptions {
    /// Options with one thread, and the most commands possible.
    fn from(paths: PathOptions) -> Self {
        Self { paths, threads: 1, depth: VOLUME_COMMANDS_MAX }
    }
}
