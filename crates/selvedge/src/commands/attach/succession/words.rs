//! What the two processes of an upgrade of `attach` say to each other.

use std::path::PathBuf;

use attach::{HandedServer, HandedVhostServer};
use serde::{Deserialize, Serialize};

use super::super::record::{DiskWay, RecordedDisk};
use engine::target::hand_over::{About, Speech};

/// What is said.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The next process is there, or somebody who only wants to know.
    Hello {
        /// Its version, for the log.
        version: String,
        /// Whether it only asks how the process was started.
        asks_only: bool,
    },
    /// How the process was started.
    About(About),
    /// What the former process serves. Descriptors: the end of a pipe that tells whether it has gone on, standard output and error,
    /// then those of each part.
    Offer(Vec<OfferedPart>),
    /// Nothing is handed over, and the former process goes on.
    Refused(Vec<String>),
    /// The next process has its own connections to the targets, and waits.
    Ready,
    /// How the clients of each part are; their descriptors go with this.
    State(Vec<HandedPart>),
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
pub(crate) struct OfferedPart {
    /// How a process for these disks alone is started, by which both processes know them.
    pub(crate) arguments: Vec<String>,
    /// Where the former process has written down what it has attached.
    pub(crate) record: Option<PathBuf>,
    /// In which way they are served.
    pub(crate) way: DiskWay,
    /// The disks, with the places that they are found by.
    pub(crate) disks: Vec<RecordedDisk>,
    /// Descriptors that are offered with it.
    pub(crate) descriptors: usize,
}

impl OfferedPart {
    /// What its disks are found by.
    pub(crate) fn places(&self) -> Vec<String> {
        let mut places: Vec<String> = self.disks.iter().map(RecordedDisk::place).collect();
        places.dedup();
        places
    }
}

/// How the clients of a part are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandedPart {
    /// What the next process goes on with.
    pub(crate) state: HandedState,
    /// Descriptors that go with it.
    pub(crate) descriptors: usize,
}

/// The same for each way to serve disks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HandedState {
    /// NBD clients.
    Nbd(HandedServer),
    /// Front ends of virtual machines.
    VhostUser(HandedVhostServer),
    /// Block devices, which the former process leaves behind its last word: the kernel keeps what they are asked for.
    Ublk,
}
