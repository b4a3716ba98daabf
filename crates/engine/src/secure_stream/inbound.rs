//! The receiving half of a secure stream. A record is opened when all of it has come; the beginning of one is kept until then,
//! and a stream that is quiet keeps nothing.

use std::io;
use std::ops::Range;

use secure_channel::{DirectionState, Opened, OpenedInto, Opener, Peer, RecordError, TrafficSecret};

use crate::ring::{Socket, SpanMut};

/// Next piece of the space that was received into.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Data.
    Data(Range<usize>),
    /// This number of bytes of data, which were opened into their place.
    Placed(usize),
    /// The peer has a new key, and wants one in return.
    AsksForUpdate,
    /// The peer has said that it sends no more.
    End,
    /// End of the space: all of it was taken.
    Nothing,
}

/// The receiving half.
#[derive(Debug)]
pub struct Inbound {
    opener: Opener,
    /// The beginning of a record whose end has not come.
    begun: Vec<u8>,
}

impl Inbound {
    pub(super) fn new(secret: &TrafficSecret, peer: Peer) -> Self {
        Self { opener: Opener::new(secret, peer), begun: Vec::new() }
    }

    /// The half of a stream that another process had, with the beginning of a record that it had received.
    pub(super) fn going_on(state: &DirectionState, peer: Peer, begun: Vec<u8>) -> Self {
        Self { opener: Opener::going_on(state, peer), begun }
    }

    /// State for another process that continues the stream. `None` if it has ended, or within a
    /// message about keys.
    pub(super) fn state(&self) -> Option<(DirectionState, Vec<u8>)> {
        Some((self.opener.state()?, self.begun.clone()))
    }

    /// Records that the peer has sealed with its present key.
    pub const fn records(&self) -> u64 {
        self.opener.records()
    }

    /// Number of the peer's key updates.
    pub const fn updates(&self) -> u64 {
        self.opener.updates()
    }

    /// Makes one receive call into the space, behind what is kept of a record: the bytes that stand
    /// there now. 0 received bytes are the end of the stream.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn receive(&mut self, socket: &Socket, space: &mut [u8]) -> io::Result<Option<usize>> {
        let kept = self.begun.len();
        let received = socket.receive(&mut [SpanMut::new(&mut space[kept..])])?;
        if received == 0 {
            return Ok(None);
        }
        space[..kept].copy_from_slice(&self.begun);
        self.begun.clear();
        Ok(Some(kept + received))
    }

    /// The next piece of what was received, from `at` on, which moves on past its record. `place` is where the next data goes:
    /// data is opened into it at once if all of its record fits there. Bytes of the place behind that data are undefined then.
    ///
    /// # Errors
    /// When the record is not one that the peer may send.
    pub fn next(&mut self, space: &mut [u8], at: &mut usize, place: &mut [u8]) -> Result<Piece, RecordError> {
        while *at < space.len() {
            let begin = *at;
            let opened = match self.opener.open_into(&mut space[begin..], place)? {
                OpenedInto::Place { record_bytes, data_bytes } => {
                    *at += record_bytes;
                    return Ok(Piece::Placed(data_bytes));
                }
                OpenedInto::Record(opened) => opened,
            };
            let (record_bytes, piece) = match opened {
                Opened::Incomplete { .. } => {
                    self.begun.extend_from_slice(&space[begin..]);
                    *at = space.len();
                    return Ok(Piece::Nothing);
                }
                Opened::Closed => {
                    *at = space.len();
                    return Ok(Piece::End);
                }
                Opened::Data { record_bytes, data } => {
                    (record_bytes, Some(Piece::Data(begin + data.start..begin + data.end)))
                }
                Opened::KeyUpdate { record_bytes, asks_back: true } => {
                    (record_bytes, Some(Piece::AsksForUpdate))
                }
                Opened::KeyUpdate { record_bytes, .. } | Opened::Nothing { record_bytes } => {
                    (record_bytes, None)
                }
            };
            *at += record_bytes;
            if let Some(piece) = piece {
                return Ok(piece);
            }
        }
        Ok(Piece::Nothing)
    }

    /// True if it keeps memory for the beginning of a record.
    pub const fn keeps_memory(&self) -> bool {
        self.begun.capacity() > 0
    }

    /// Gives memory back that a quiet stream has no use for.
    pub fn trim(&mut self) {
        if self.begun.is_empty() {
            self.begun = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use secure_channel::{DATA_BYTES_MAX, OVERHEAD_BYTES, RecordLimit, Sealer, Suite};

    use super::*;

    #[test]
    fn data_is_opened_into_its_place_as_long_as_records_fit_there() {
        let secret = TrafficSecret::new(Suite::Aes128Gcm, &[7; 32]).unwrap();
        let mut sealer = Sealer::new(&secret, RecordLimit::default());
        let mut inbound = Inbound::new(&secret, Peer::Host);
        let data: Vec<u8> = (0..3 * DATA_BYTES_MAX).map(|at| (at % 251) as u8).collect();
        let mut space = Vec::new();
        for data in data.chunks(DATA_BYTES_MAX) {
            let mut record = vec![0; data.len() + OVERHEAD_BYTES];
            sealer.seal_from(data, &mut record).unwrap();
            space.extend(record);
        }
        space.extend(sealer.update(true).unwrap());
        let (mut at, mut placed, mut place) = (0, 0, vec![0; data.len()]);
        for _ in 0..2 {
            let piece = inbound.next(&mut space, &mut at, &mut place[placed..]).unwrap();
            assert_eq!(piece, Piece::Placed(DATA_BYTES_MAX));
            placed += DATA_BYTES_MAX;
        }
        // The last one ends with the place, in which its type has no room.
        let begin = at;
        let Piece::Data(range) = inbound.next(&mut space, &mut at, &mut place[placed..]).unwrap() else {
            panic!("data in its record")
        };
        assert_eq!(range.start, begin + secure_channel::HEADER_BYTES);
        place[placed..].copy_from_slice(&space[range]);
        assert!(place == data);
        assert_eq!(inbound.next(&mut space, &mut at, &mut place).unwrap(), Piece::AsksForUpdate);
        assert_eq!(inbound.next(&mut space, &mut at, &mut place).unwrap(), Piece::Nothing);
        assert_eq!(at, space.len());
    }
}
