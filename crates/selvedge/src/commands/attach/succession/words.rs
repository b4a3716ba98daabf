//! Words of an upgrade of `attach`: what is offered, and the state of its clients.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use attach::{HandedServer, HandedVhostServer};
use engine::hand_over::{self, Protocol};
use serde::{Deserialize, Serialize};

use super::super::record::{AttachMethod, RecordedDisk};

/// Words of an upgrade of `attach`.
pub(crate) type Word = hand_over::Word<AttachProtocol>;

/// Hand-over of attached disks.
#[derive(Debug)]
pub(crate) enum AttachProtocol {}

impl Protocol for AttachProtocol {
    const MAGIC: [u8; 8] = *b"slv-atch";
    const FORMAT: u32 = 1;
    /// The new process connects to all targets.
    const PREPARATION: Duration = Duration::from_secs(60);
    /// Clients wait meanwhile.
    const TAKING: Duration = Duration::from_secs(5);
    const TAKING_EACH: Duration = Duration::ZERO;
    /// Descriptors: the reading end of a pipe that becomes readable if the old process resumes,
    /// standard output and error, then those of each group.
    type Offer = Vec<OfferedGroup>;
    /// Descriptors: those of each group.
    type State = Vec<HandedGroup>;
    type Descriptor = OwnedFd;
}

/// Disks of one connection, which are served in one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferedGroup {
    /// Command line of a process for these disks alone, which identifies the group.
    pub(crate) arguments: Vec<String>,
    /// Path of the old process' record.
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
    /// State for the new process.
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
    /// Block devices, which the old process leaves behind its last word: the kernel keeps what they are asked for.
    Ublk,
}
