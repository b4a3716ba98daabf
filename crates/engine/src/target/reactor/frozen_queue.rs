//! Bytes that a queue receives while it is quiesced for another process.

use nvme::SubmissionEntry;
use nvme::tcp::digest::crc32c;
use nvme::tcp::{Chunk, Digests, Transmitter};

use crate::ring::Moment;

/// Bytes and commands received by a queue that is being quiesced.
#[derive(Debug)]
pub(super) struct FrozenQueue {
    pub(super) commands: Vec<Kept>,
    /// The stream from here on, as it came: the new process, or this one if it goes on, begins with it.
    pub(super) received: Vec<u8>,
    /// Another process may have it: nothing is read, done or sent until it goes on.
    pub(super) is_handed: bool,
    /// Set when the queue is to resume, which it does once the PDU being received is complete: kept
    /// commands come before the next.
    pub(super) is_thawing: bool,
    /// Time at which bytes last arrived or left, with `unsent_bytes` as it was then.
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
    /// Creates the state of a queue that is to be quiesced.
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

    /// Creates the state of a quiesced queue, which resumes with `received`.
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
        for part in transmitter.chunks() {
            match part {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Payload { payload, start, end } => bytes.extend_from_slice(&payload[start..end]),
            }
        }
        bytes
    }
}
