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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_by_the_first_version_that_could_be_upgraded() {
        let offered = OfferedGroup {
            arguments: vec!["attach".to_owned()],
            record: None,
            method: AttachMethod::VhostUser,
            disks: Vec::new(),
            descriptors: 1,
        };
        let handed = HandedGroup { state: HandedState::Ublk, descriptors: 0 };
        for (word, expected) in [
            (
                Word::Offer(Box::new(vec![offered])),
                concat!(
                    r#"{"Offer":[{"arguments":["attach"],"record":null,"way":"vhost-user","#,
                    r#""disks":[],"descriptors":1}]}"#
                ),
            ),
            (Word::State(Box::new(vec![handed])), r#"{"State":[{"state":"Ublk","descriptors":0}]}"#),
        ] {
            let bytes = hand_over::encode(&word, 0).unwrap();
            assert_eq!((&bytes[..8], &bytes[8..12]), (&b"slv-atch"[..], &[1_u8, 0, 0, 0][..]));
            assert_eq!(String::from_utf8_lossy(&bytes[24..]), expected);
        }
    }
}
