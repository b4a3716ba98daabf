//! What the two processes of an upgrade say to each other.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::frame::Speech;
use crate::target::config::FabricConfig;
use crate::target::succession::HandedTarget;

/// What this version knows of hand-overs beside their format: what others may need it to know.
pub(super) const KNOWN: [&str; 5] = ["ceph", "memory", "MPTCP settings", "marked blocks", "generated keys"];

/// The same, as a next process says it.
pub fn known() -> Vec<String> {
    KNOWN.map(str::to_owned).to_vec()
}

/// What is said.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word {
    /// The next process is there, or somebody who only wants to know.
    Hello {
        /// Its version, for the log.
        version: String,
        /// Whether it only asks how the target was started.
        asks_only: bool,
        /// What it knows of hand-overs beside their format. The first versions knew nothing else.
        #[serde(default)]
        knows: Vec<String>,
    },
    /// How the target was started.
    About(About),
    /// What the former process has open goes with this.
    Offer(Box<Offer>),
    /// Nothing is handed over, and the former process goes on.
    Refused(Vec<String>),
    /// What the former process has to know of the next one, if there is something.
    Introduction(Value),
    /// The next process has opened everything.
    Ready,
    /// How the hosts are; their sockets go with this.
    State(Box<State>),
    /// The next process has them, but for those that it names with a reason.
    Taken(Vec<(String, String)>),
    /// The former process will not go on.
    Go,
    /// The next process serves.
    Serving,
}

impl Speech for Word {
    const MAGIC: [u8; 8] = *b"selvedge";
    /// Another one is refused, and the target is restarted instead. What comes beside it has names (`KNOWN`).
    const FORMAT: u32 = 1;
}

/// How a target was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// Its process.
    pub process: u32,
    /// Its version.
    pub version: String,
    /// Its program, by device and inode: another file may have its name by now.
    pub program: Option<(u64, u64)>,
    /// Its command line, without the program.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// What a service manager has told the process, and does not tell those that are started for a reload: where it listens, and
    /// the time of its watchdog.
    pub service: Vec<(String, String)>,
    /// Why it cannot be handed over.
    pub obstacles: Vec<String>,
}

/// What the next process prepares with. Descriptors: those that listen, then namespaces in memory, then holds, then the end
/// of a pipe that tells whether the former process has gone on, and standard output and error.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// What the next process has to know beside this format to take over what is handed over: names of
    /// `KNOWN`. What it need not know comes as fields that it passes over.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What is served, with all that was changed while it ran.
    pub fabric: FabricConfig,
    /// How many descriptors listen.
    pub listening: usize,
    /// What else it has, for who runs the next process.
    #[serde(default)]
    pub beside: Value,
    /// Namespaces in memory, with the bytes that their files have room for.
    #[serde(default)]
    pub memories: Vec<(Uuid, u64)>,
}

/// How the hosts are. Descriptors: those of the queues, then of the arrivals.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// Controllers and queues.
    pub target: HandedTarget,
    /// Connections from which nothing has come: the port they came by, and from where.
    pub arrivals: Vec<(u16, SocketAddr)>,
    /// What else it has let go of, for who runs the next process.
    #[serde(default)]
    pub beside: Value,
}
