//! Messages between the two processes of an upgrade of `attach`.

use std::path::PathBuf;

use attach::{HandedServer, HandedVhostServer};
use serde::{Deserialize, Serialize};

use super::super::record::{AttachMethod, RecordedDisk};
use engine::target::hand_over::{About, Speech};

/// Message between the two processes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The next process has connected, or a process that only asks.
    Hello {
        /// Version, for the log.
        version: String,
        /// True to ask only for the command line.
        asks_only: bool,
    },
    /// Command line of the process.
    About(About),
    /// Disks of the previous process. Descriptors: the read end of a pipe that becomes readable if
    /// it resumes, standard output and error, then those of each group.
    Offer(Vec<OfferedGroup>),
    /// Refusal with reasons: the previous process resumes, and hands over no disks.
    Refused(Vec<String>),
    /// The next process has its own connections to the targets, and waits.
    Ready,
    /// Clients of each group; their descriptors are attached.
    State(Vec<HandedGroup>),
    /// The next process has them, but for those that it names with a reason.
    Taken(Vec<(String, String)>),
    /// The former process will not go on.
    Go,
    /// The next process serves.
    Serving,
}

impl Speech for Word {
    const MAGIC: [u8; 8] = *b"slv-atch";
    const FORMAT: u32 = 1;
}

/// Disks of one connection, which are served in one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferedGroup {
    /// Command line of a process for these disks alone, which identifies the group.
    pub(crate) arguments: Vec<String>,
    /// Path of the previous process' record.
    pub(crate) record: Option<PathBuf>,
    /// Interface by which they are served.
    #[serde(rename = "way")]
    pub(crate) method: AttachMethod,
    /// The disks, with the places that they are found by.
    pub(crate) disks: Vec<RecordedDisk>,
    /// Descriptors that are offered with it.
    pub(crate) descriptors: usize,
}

impl OfferedGroup {
    /// Returns the places of its disks.
    pub(crate) fn places(&self) -> Vec<String> {
        let mut places: Vec<String> = self.disks.iter().map(RecordedDisk::place).collect();
        places.dedup();
        places
    }
}

/// State of a group's clients.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandedGroup {
    /// State for the next process.
    pub(crate) state: HandedState,
    /// Descriptors that go with it.
    pub(crate) descriptors: usize,
}

/// State of the clients, by the way of serving disks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HandedState {
    /// NBD clients.
    Nbd(HandedServer),
    /// Front ends of virtual machines.
    VhostUser(HandedVhostServer),
    /// Block devices, which the former process leaves behind its last word: the kernel keeps what they are asked for.
    Ublk,
}
