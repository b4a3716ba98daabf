//! Words that the two processes of an upgrade say to each other.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Protocol;

/// Messages of a hand-over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Word<P: Protocol> {
    /// Greeting of the new process, or of a query.
    Hello {
        /// Version of the sender, for the log.
        version: String,
        /// True if the sender only asks how the process was started.
        asks_only: bool,
        /// Extensions of the format that the sender knows. The first versions knew none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        knows: Vec<String>,
    },
    /// Start parameters of the old process.
    About(About),
    /// Input for the preparation of the new process, with open descriptors.
    Offer(Box<P::Offer>),
    /// No hand-over: the receiver does not serve on account of it, and the old process resumes.
    Refused(Vec<String>),
    /// Information about the new process that the old one needs, if there is some.
    Introduction(Value),
    /// The new process has opened everything.
    Ready,
    /// State of what is quiesced, with its sockets.
    State(Box<P::State>),
    /// The new process has it, but for the parts that it names with a reason.
    Taken(Vec<(String, String)>),
    /// The old process will not go on.
    Go,
    /// The new process serves.
    Serving,
}

/// Start parameters of a process.
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
    /// Reasons for which the process cannot hand over.
    pub obstacles: Vec<String>,
    /// Hosts, with their addresses, that had to connect again when this process took over.
    #[serde(default)]
    pub disconnected: Vec<String>,
}
