//! What the two processes of an upgrade say to each other.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::frame::Speech;
use crate::target::config::FabricConfig;
use crate::target::succession::HandedTarget;

/// Extensions of the hand-over format that this version knows, and may require of others.
pub(super) const KNOWN: [&str; 5] = ["ceph", "memory", "MPTCP settings", "marked blocks", "generated keys"];

/// The same, as a new process says it.
pub fn known() -> Vec<String> {
    KNOWN.map(str::to_owned).to_vec()
}

/// Messages of a hand-over.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word {
    /// Greeting of the new process, or of a query.
    Hello {
        /// Version of the sender, for the log.
        version: String,
        /// True if the sender only asks how the target was started.
        asks_only: bool,
        /// Extensions of the format that the sender knows. The first versions knew none.
        #[serde(default)]
        knows: Vec<String>,
    },
    /// Start parameters of the target.
    About(About),
    /// Configuration of the previous process, with its open descriptors.
    Offer(Box<Offer>),
    /// No hand-over: the previous process continues.
    Refused(Vec<String>),
    /// Information about the new process that the previous one needs, if there is some.
    Introduction(Value),
    /// The new process has opened everything.
    Ready,
    /// State of the hosts, with their sockets.
    State(Box<State>),
    /// The new process has them, but for those that it names with a reason.
    Taken(Vec<(String, String)>),
    /// The previous process will not go on.
    Go,
    /// The new process serves.
    Serving,
}

impl Speech for Word {
    const MAGIC: [u8; 8] = *b"selvedge";
    /// Another one is refused, and the target is restarted instead. What comes beside it has names (`KNOWN`).
    const FORMAT: u32 = 1;
}

/// Start parameters of a target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// Process identifier.
    pub process: u32,
    /// Version.
    pub version: String,
    /// Device and inode of the program: its path may lead to another file by now.
    pub program: Option<(u64, u64)>,
    /// Command line, without the program.
    pub arguments: Vec<String>,
    /// Working directory.
    pub directory: String,
    /// Variables that a service manager sets for the process, but not for those started for a
    /// reload: listening sockets, and the watchdog's interval.
    pub service: Vec<(String, String)>,
    /// Why it cannot be handed over.
    pub obstacles: Vec<String>,
    /// Hosts, with their addresses, that had to connect again when this process took over.
    #[serde(default)]
    pub disconnected: Vec<String>,
}

/// Input for the preparation of the new process. Descriptors: listening sockets, namespaces in
/// memory, locks, the end of a pipe that shows whether the previous process has resumed, and
/// standard output and error.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// Extensions of the format that the new process has to know: names of `KNOWN`. Optional ones
    /// come as fields that unknowing versions ignore.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Configuration in effect, with all changes since the start.
    pub fabric: FabricConfig,
    /// Number of listening sockets.
    pub listening: usize,
    /// State that the program hands over along with the target.
    #[serde(default)]
    pub beside: Value,
    /// Namespaces in memory, with the bytes that their files have room for.
    #[serde(default)]
    pub memories: Vec<(Uuid, u64)>,
}

/// State of the hosts. Descriptors: the sockets of the queues, then of the arrivals.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// Controllers and queues.
    pub target: HandedTarget,
    /// Connections from which nothing has come: the port they came by, and from where.
    pub arrivals: Vec<(u16, SocketAddr)>,
    /// State that the program has released along with the target.
    #[serde(default)]
    pub beside: Value,
}
