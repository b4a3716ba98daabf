//! What the kernel answers where no file does: ethtool, sockets, routes; as data that a recording keeps as JSON.

use std::io;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::netlink::KernelWords;
use crate::socket::{Socket, is_zero};
use crate::{Channels, Ntuple, Rss};

/// A question that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Name of the question.
    pub question: String,
    /// The system's number of the error.
    pub errno: i32,
    /// Message of the kernel, where it says more than the number does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
}

impl Refusal {
    /// A question and how it ended.
    pub fn new(question: &str, error: &io::Error) -> Self {
        let errno = errno(error);
        let words = error.raw_os_error().is_none().then(|| error.to_string());
        Self { question: question.to_owned(), errno, words }
    }

    /// Converts the refusal into an error of the system.
    pub fn error(&self) -> io::Error {
        let error = io::Error::from_raw_os_error(self.errno);
        match &self.words {
            Some(words) => io::Error::new(error.kind(), words.clone()),
            None => error,
        }
    }
}

/// The system's number for an error, and that of a failed input or output for one that has none.
pub(super) fn errno(error: &io::Error) -> i32 {
    use rustix::io::Errno;
    let kernels = error.get_ref().and_then(|inner| inner.downcast_ref::<KernelWords>());
    error.raw_os_error().or(kernels.map(|words| words.errno)).unwrap_or_else(|| {
        let errno = match error.kind() {
            io::ErrorKind::PermissionDenied => Errno::PERM,
            io::ErrorKind::NotFound => Errno::NOENT,
            io::ErrorKind::Unsupported => Errno::OPNOTSUPP,
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::InvalidData => Errno::BADMSG,
            io::ErrorKind::TimedOut => Errno::TIMEDOUT,
            _ => Errno::IO,
        };
        errno.raw_os_error()
    })
}

/// Answers of ethtool about an interface. Absent where the driver has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EthtoolAnswers {
    /// Name of the driver, as it tells itself; `veth` and `bonding` have one too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Receive side scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss: Option<Rss>,
    /// Rules for single flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntuple: Option<Ntuple>,
    /// Questions that were refused for another reason than that the driver has no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
}

/// TCP sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sockets {
    /// Sockets that listen or are connected.
    pub sockets: Vec<Socket>,
    /// Processes whose descriptors could not be read, so that a socket without a process may be one of theirs.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread_processes: u32,
    /// Questions that were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
}

/// The file of routes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Routes {
    pub(super) routes: Vec<Route>,
}

/// Answered question for a route.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    pub(super) destination: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
}

impl Route {
    pub(super) fn new(destination: IpAddr, source: Option<IpAddr>, answer: &io::Result<String>) -> Self {
        let refusal = answer.as_ref().err().map(|error| Refusal::new("route", error));
        Self { destination, source, interface: answer.as_ref().ok().cloned(), refusal }
    }

    pub(super) fn answer(&self) -> io::Result<String> {
        match (&self.interface, &self.refusal) {
            (Some(interface), _) => Ok(interface.clone()),
            (None, Some(refusal)) => Err(refusal.error()),
            (None, None) => Err(unrecorded()),
        }
    }
}

/// Error for a question that a tree or recording has no answer to.
pub(super) fn unrecorded() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "not in the recording")
}

impl Routes {
    /// Adds an answer, in place of one to the same question.
    pub(super) fn keep(&mut self, route: Route) {
        self.routes.retain(|kept| kept.destination != route.destination || kept.source != route.source);
        self.routes.push(route);
    }
}

/// The file of the folders in which programs leave records of their queues, besides the usual ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Directories {
    pub(super) directories: Vec<String>,
}
