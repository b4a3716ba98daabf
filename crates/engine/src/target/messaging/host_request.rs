//! Administrative requests of hosts: to create, delete, attach and protect namespaces.
//! A reactor only passes them on; the program that runs the target changes its configuration and answers.

use std::fmt;

use nvme::Status;

use super::asker::{Asker, AskingHost};
use super::shares::Share;
use crate::ring::channel::Receiver;
use crate::target::config::WriteProtection;
use crate::target::controller::Controller;

/// Administrative request of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// A new namespace of the subsystem that no host sees yet. The answer is its identifier.
    CreateNamespace {
        /// The subsystem's name.
        nqn: String,
        /// Number of blocks.
        blocks: u64,
        /// Bytes of a block.
        block_size: u32,
        /// ANA group, 0 for any.
        ana_group: u32,
    },
    /// A namespace, or with `None` all that hosts have created, to be deleted with its blocks.
    DeleteNamespace {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: Option<u32>,
    },
    /// A namespace to be seen by these hosts.
    Attach {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// The hosts' names.
        hosts: Vec<String>,
    },
    /// A namespace to be hidden from these hosts.
    Detach {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// The hosts' names.
        hosts: Vec<String>,
    },
    /// Write protection of a namespace.
    Protect {
        /// The subsystem's name.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// The new state.
        protection: WriteProtection,
    },
}

impl fmt::Display for HostRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNamespace { nqn, blocks, block_size, .. } => {
                write!(f, "create a namespace of {blocks} blocks of {block_size} bytes in {nqn}")
            }
            Self::DeleteNamespace { nqn, nsid: Some(nsid) } => write!(f, "delete namespace {nsid} of {nqn}"),
            Self::DeleteNamespace { nqn, nsid: None } => write!(f, "delete all its namespaces of {nqn}"),
            Self::Attach { nqn, nsid, hosts } => {
                write!(f, "attach namespace {nsid} of {nqn} to {}", hosts.join(", "))
            }
            Self::Detach { nqn, nsid, hosts } => {
                write!(f, "detach namespace {nsid} of {nqn} from {}", hosts.join(", "))
            }
            Self::Protect { nqn, nsid, protection } => {
                write!(f, "set the write protection of namespace {nsid} of {nqn} to {}", protection.name())
            }
        }
    }
}

/// A request on its way, with the command that waits for its answer.
#[derive(Debug)]
pub struct PendingRequest {
    /// The request.
    pub request: HostRequest,
    /// Host that sent the request.
    pub host: AskingHost,
    asker: Asker,
    /// Place of the host among all requests.
    _share: Share,
}

impl PendingRequest {
    /// Creates a request of the host of `controller`.
    pub(crate) fn new(request: HostRequest, controller: &Controller, asker: Asker, share: Share) -> Self {
        Self { request, host: asker.host(controller), asker, _share: share }
    }

    /// Answers: the result of a command that went well (the identifier of a namespace that was created, else 0), or
    /// the status of one that did not.
    pub fn answer(self, outcome: Result<u32, Status>) {
        match outcome {
            Ok(result) => self.asker.answer(Status::SUCCESS, u64::from(result)),
            Err(status) => self.asker.answer(status, 0),
        }
    }
}

/// Receiver of the requests of all hosts, and of wake-ups for other work.
#[derive(Debug)]
pub struct HostRequests(pub(crate) Receiver<Option<PendingRequest>>);

impl HostRequests {
    /// The next request, as soon as there is one; `None` when there is something else to look at
    /// ([`super::super::Target::call_administration`], failed logins).
    ///
    /// # Errors
    /// When the target has ended.
    pub fn next(&self) -> Result<Option<PendingRequest>, TargetEnded> {
        self.0.recv().map_err(|_| TargetEnded)
    }
}

/// The target has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the target has ended")]
pub struct TargetEnded;
