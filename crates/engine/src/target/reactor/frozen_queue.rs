//! What a queue has that comes to rest for another process: commands that came meanwhile, as they came.

use nvme::SubmissionEntry;
use nvme::tcp::digest::crc32c;
use nvme::tcp::{Digests, Part, Transmitter};

use crate::ring::Moment;

/// What has come for later.
#[derive(Debug)]
pub(super) struct FrozenQueue {
    pub(super) commands: Vec<Kept>,
    /// The stream from here on, as it came: the next process, or this one if it goes on, begins with it.
    pub(super) received: Vec<u8>,
    /// Another process may have it: nothing is read, done or sent until it goes on.
    pub(super) is_handed: bool,
    /// It goes on as soon as the PDU is whole that comes now: what was kept has to be taken before the next.
    pub(super) is_thawing: bool,
    /// When something came or left last, and what was to leave then.
    pub(super) moved: Moment,
    pub(super) unsent_bytes: usize,
}

/// A command that has come and was not begun.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) entry: SubmissionEntry,
    /// The data in its capsule.
    pub(super) data: Vec<u8>,
    pub(super) is_intact: bool,
}

impl FrozenQueue {
    /// One that is to come to rest.
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            commands: Vec::new(),
            received: Vec::new(),
            is_handed: false,
            is_thawing: false,
            moved: now,
            unsent_bytes: 0,
        }
    }

    /// One that rests, with what goes on with it.
    pub(super) fn handed(received: Vec<u8>, now: Moment) -> Self {
        Self { received, is_handed: true, ..Self::new(now) }
    }

    /// The kept commands as the host has sent them, but for padding.
    pub(super) fn encode(commands: Vec<Kept>, digests: Digests) -> Vec<u8> {
        let mut transmitter = Transmitter::<Vec<u8>>::new(commands.len());
        transmitter.set_digests(digests);
        for Kept { entry, data, is_intact } in commands {
            let length = data.len();
            // What had come broken has to be found broken again.
            let crc = crc32c(&data) ^ u32::from(!is_intact);
            transmitter.command(entry, (length > 0).then_some((data, length, crc)));
        }
        let mut bytes = Vec::with_capacity(transmitter.length());
        for part in transmitter.parts() {
            match part {
                Part::Bytes(part) => bytes.extend_from_slice(part),
                Part::Payload { payload, start, end } => bytes.extend_from_slice(&payload[start..end]),
            }
        }
        bytes
    }
}
