//! Comparison of the blocks of two paths: a few places are read by both. It writes nothing, and
//! what cannot be read speaks neither for nor against a path.

use std::time::Duration;

use nvme::io::IoCommand;

use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::driver::{Driver, QueueSet};
use crate::initiator::queue::Data;
use crate::initiator::{ConnectOptions, Controller, InitiatorError, NamespaceInfo};
use crate::limits::RECEIVE_LENGTH;
use crate::ring::{Buffer, Ring, RingOptions};

/// Bytes from the beginning, where tables of partitions and the first superblocks of file systems are.
const FIRST_BYTES: u64 = 128 << 10;
/// Other places, spread evenly up to the end, and bytes of each.
const PLACES: u64 = 7;
const PLACE_BYTES: u64 = 4 << 10;
/// Times that both are read: another host may write meanwhile.
const ROUNDS: usize = 3;
/// A connection or a read that takes longer is not worth the wait: other paths wait for their turn to join.
const TIMEOUT_MAX: Duration = Duration::from_secs(3);

/// Offset of the first difference between the blocks of two paths, in bytes; `None` if they do not
/// differ, or cannot be read.
pub(super) fn difference(one: &ConnectOptions, other: &ConnectOptions, nsid: u32) -> Option<u64> {
    match compare(one, other, nsid) {
        Ok(difference) => difference,
        Err(error) => {
            let (one, other) = (one.address, other.address);
            tracing::debug!(%one, %other, %error, "the blocks of two paths cannot be compared");
            None
        }
    }
}

fn compare(one: &ConnectOptions, other: &ConnectOptions, nsid: u32) -> Result<Option<u64>, InitiatorError> {
    // Controllers of their own, since the queues of those that are joined belong to the threads with commands.
    let (mut one, mut other) = (Reader::open(one, nsid)?, Reader::open(other, nsid)?);
    let mut places = places(one.info.size_bytes().min(other.info.size_bytes()), one.info.block_size.into());
    for _ in 0..ROUNDS {
        let before = one.read_all(&places)?;
        let there = other.read_all(&places)?;
        let after = one.read_all(&places)?;
        // What is written at this moment may be seen by one and not by the other; what stays as it is may not.
        let is_apart = |at: usize| before[at] == after[at] && before[at] != there[at];
        places = (0..places.len()).filter(|at| is_apart(*at)).map(|at| places[at]).collect();
    }
    Ok(places.first().map(|(offset, _)| *offset))
}

/// Reads a namespace through one controller, on the thread that asks.
struct Reader {
    driver: Driver<QueueSet, ()>,
    info: NamespaceInfo,
    /// Keeps the association alive.
    controller: Controller,
}

impl Reader {
    fn open(options: &ConnectOptions, nsid: u32) -> Result<Self, InitiatorError> {
        let connect_timeout = options.connect_timeout.min(TIMEOUT_MAX);
        let command_timeout = options.command_timeout.min(TIMEOUT_MAX);
        let options = ConnectOptions { io_queues: 1, connect_timeout, command_timeout, ..options.clone() };
        let engine = options.engine;
        let controller = Controller::connect(options)?;
        let info = controller.namespace(nsid)?;
        let ring = Ring::new(RingOptions { engine, poll_us_max: 0 });
        let mut ring = ring.map_err(InitiatorError::system("no ring to compare paths"))?;
        let mut queues = QueueSet::new(0, AuthenticationWorker::new(ring.waker()));
        queues.open(&mut ring, &[controller.queue_options(1)])?;
        Ok(Self { driver: Driver::new(ring, queues, RECEIVE_LENGTH), info, controller })
    }

    /// The bytes at these places, in pieces that one command transfers.
    fn read_all(&mut self, places: &[(u64, u64)]) -> Result<Vec<Vec<u8>>, InitiatorError> {
        let block = u64::from(self.info.block_size);
        let piece_max = self.controller.transfer_length_max() as u64;
        let piece_max = (piece_max - piece_max % block).max(block);
        let mut found: Vec<Vec<u8>> = Vec::with_capacity(places.len());
        for &(offset, length) in places {
            let mut bytes = Vec::with_capacity(length as usize);
            while (bytes.len() as u64) < length {
                let at = offset + bytes.len() as u64;
                let piece = piece_max.min(length - bytes.len() as u64);
                bytes.extend_from_slice(&self.read(at / block, (piece / block) as u32, piece as usize)?);
            }
            found.push(bytes);
        }
        Ok(found)
    }

    fn read(&mut self, start: u64, blocks: u32, length: usize) -> Result<Buffer, InitiatorError> {
        let command = IoCommand::Read { start, blocks, force_unit_access: false };
        self.driver.submit(command.encode(self.info.nsid), Data::Receive(Buffer::zeroed(length)), ());
        loop {
            self.driver.flush();
            if let Some((_, ended)) = self.driver.pop() {
                let completion = ended.answer().map_err(|lost| InitiatorError::clone(&lost.error))?;
                return match completion.data {
                    Some(data) if completion.status.is_success() => Ok(data),
                    _ => Err(InitiatorError::CommandFailed { what: "Read", status: completion.status }),
                };
            }
            self.driver.turn(None).map_err(InitiatorError::system("no ring to compare paths"))?;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.driver.close();
    }
}

/// Samples of a namespace of this many bytes, in whole blocks: offsets and lengths.
fn places(bytes: u64, block: u64) -> Vec<(u64, u64)> {
    let whole = |bytes: u64| bytes / block * block;
    let mut places = vec![(0, whole(FIRST_BYTES.min(bytes)))];
    let length = whole(PLACE_BYTES).max(block);
    for place in 1..=PLACES {
        // The last one ends where the namespace does.
        let end = whole((u128::from(bytes) * u128::from(place) / u128::from(PLACES)) as u64);
        let offset = end.saturating_sub(length);
        if offset >= FIRST_BYTES {
            places.push((offset, length));
        }
    }
    places.retain(|(_, length)| *length > 0);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_whole_blocks_within_and_reach_both_ends() {
        for (bytes, block) in
            [(0, 512), (512, 512), (4096, 4096), (1 << 20, 4096), (100 << 30, 512), (u64::MAX - 511, 512)]
        {
            let bytes = bytes / block * block;
            let places = places(bytes, block);
            for (offset, length) in &places {
                assert!(
                    offset % block == 0 && length % block == 0 && offset + length <= bytes,
                    "{bytes}: {places:?}"
                );
            }
            assert_eq!(places.is_empty(), bytes == 0);
            assert!(bytes == 0 || places[0].0 == 0);
            let (offset, length) = places.last().copied().unwrap_or_default();
            assert_eq!(offset + length, bytes, "{places:?}");
        }
    }
}
