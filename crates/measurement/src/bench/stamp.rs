//! Content of a verified block: every block of the namespace has its position, the count of its
//! writes, the writer and a checksum. The ledger decides which count is right.

use std::fmt;

use nvme::tcp::digest::crc32c;

use super::slot_sequence::mix;

/// "SLVG", which tells unstamped blocks from damaged ones.
const MAGIC: u32 = 0x4756_4c53;
/// Checksum, magic, position, generation and writer.
const HEADER_BYTES: usize = 32;

/// Origin and position of a written block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Byte offset in the namespace.
    pub position: u64,
    /// The how many-th write of this block it is; the first is 1.
    pub(crate) generation: u64,
    /// Identifier of one run of a bench.
    pub writer: u64,
}

/// Content that a read must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any content: the previous content is unknown.
    Anything,
    /// A whole stamp of any writer.
    AnyStamp,
    /// This generation of this writer.
    Exactly {
        /// The count.
        generation: u64,
        /// The writer.
        writer: u64,
    },
    /// After a crash: at least what was acknowledged before a completed Flush, at most what was submitted, each
    /// block of the namespace for itself. With a minimum of 0, what was there before may be there still.
    Between {
        /// The oldest that may be found.
        min: u64,
        /// The newest that may be found, if it is known.
        max: Option<u64>,
        /// The writer.
        writer: u64,
    },
}

/// Mismatch that a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No stamp.
    Unstamped,
    /// A stamp whose checksum does not hold: torn or damaged.
    Torn(Stamp),
    /// A whole stamp that should not be here.
    Other(Stamp),
}

/// A block that is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Byte offset in the namespace.
    pub position: u64,
    pub expected: Expected,
    pub found: Found,
}

/// Fills `data`, which belongs at `position`, with stamped blocks of `unit` bytes.
pub(crate) fn fill(data: &mut [u8], unit: usize, position: u64, generation: u64, writer: u64) {
    for (index, block) in data.chunks_exact_mut(unit).enumerate() {
        let stamp = Stamp { position: position + (index * unit) as u64, generation, writer };
        stamp.write(block);
    }
}

/// Checks `data`, read at `position`.
///
/// # Errors
/// The first block that is wrong.
pub(crate) fn check(data: &[u8], unit: usize, position: u64, expected: Expected) -> Result<(), Corruption> {
    if expected == Expected::Anything {
        return Ok(());
    }
    for (index, block) in data.chunks_exact(unit).enumerate() {
        let position = position + (index * unit) as u64;
        expected.admits(position, block).map_err(|found| Corruption { position, expected, found })?;
    }
    Ok(())
}

impl Stamp {
    fn write(self, block: &mut [u8]) {
        // The filler depends on the stamp, so that a block of which only a part was written never looks whole.
        let seed = mix(self.position ^ mix(self.generation ^ mix(self.writer)));
        let mut word = seed;
        for chunk in block[HEADER_BYTES..].chunks_exact_mut(8) {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&(word ^ (word >> 29)).to_le_bytes());
        }
        block[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..16].copy_from_slice(&self.position.to_le_bytes());
        block[16..24].copy_from_slice(&self.generation.to_le_bytes());
        block[24..32].copy_from_slice(&self.writer.to_le_bytes());
        let checksum = crc32c(&block[4..]);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The stamp of a block; `Found::Unstamped` or `Found::Torn` where it is none or does not hold.
    fn read(block: &[u8]) -> Result<Self, Found> {
        let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes"));
        if half(4) != MAGIC {
            return Err(Found::Unstamped);
        }
        let stamp = Self { position: word(8), generation: word(16), writer: word(24) };
        if crc32c(&block[4..]) == half(0) { Ok(stamp) } else { Err(Found::Torn(stamp)) }
    }
}

impl Expected {
    fn admits(self, position: u64, block: &[u8]) -> Result<(), Found> {
        let unknown_before = matches!(self, Expected::Between { min: 0, .. });
        let stamp = match Stamp::read(block) {
            Ok(stamp) => stamp,
            Err(Found::Unstamped) if unknown_before => return Ok(()),
            Err(found) => return Err(found),
        };
        let right = stamp.position == position
            && match self {
                Expected::Anything | Expected::AnyStamp => true,
                Expected::Exactly { generation, writer } => {
                    stamp.generation == generation && stamp.writer == writer
                }
                Expected::Between { min, max, writer } if stamp.writer == writer => {
                    stamp.generation >= min && max.is_none_or(|max| stamp.generation <= max)
                }
                Expected::Between { .. } => unknown_before,
            };
        if right { Ok(()) } else { Err(Found::Other(stamp)) }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at offset {}: expected ", self.position)?;
        match self.expected {
            Expected::Anything => write!(f, "anything")?,
            Expected::AnyStamp => write!(f, "a block stamped by an earlier run with --verify")?,
            Expected::Exactly { generation, .. } => write!(f, "generation {generation}")?,
            Expected::Between { min, max: Some(max), .. } if min == max => write!(f, "generation {min}")?,
            Expected::Between { min, max: Some(max), .. } => write!(f, "generation {min} to {max}")?,
            Expected::Between { min, max: None, .. } => write!(f, "generation {min} or newer")?,
        }
        match self.found {
            Found::Unstamped => write!(f, ", found a block without a stamp"),
            Found::Torn(stamp) => {
                write!(f, ", found a torn or damaged block (generation {} at its head)", stamp.generation)
            }
            Found::Other(stamp) if stamp.position != self.position => {
                write!(f, ", found generation {} of offset {}", stamp.generation, stamp.position)
            }
            Found::Other(stamp) => match self.expected {
                Expected::Exactly { writer, .. } | Expected::Between { writer, .. }
                    if writer != stamp.writer =>
                {
                    write!(f, ", found generation {} of another run", stamp.generation)
                }
                _ => write!(f, ", found generation {}", stamp.generation),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: u64 = 77;

    fn block(position: u64, generation: u64) -> Vec<u8> {
        let mut data = vec![0; 4096];
        fill(&mut data, 512, position, generation, WRITER);
        data
    }

    fn exactly(generation: u64) -> Expected {
        Expected::Exactly { generation, writer: WRITER }
    }

    #[test]
    fn what_was_written_is_found() {
        let data = block(8192, 3);
        for expected in [
            Expected::Anything,
            Expected::AnyStamp,
            exactly(3),
            Expected::Between { min: 3, max: Some(3), writer: WRITER },
            Expected::Between { min: 1, max: None, writer: WRITER },
            Expected::Between { min: 0, max: Some(0), writer: 1 },
        ] {
            assert_eq!(check(&data, 512, 8192, expected), Ok(()), "{expected:?}");
        }
    }

    #[test]
    fn every_wrong_byte_is_found() {
        let data = block(0, 1);
        for at in 0..data.len() {
            let mut damaged = data.clone();
            damaged[at] ^= 0x10;
            let corruption = check(&damaged, 512, 0, exactly(1)).unwrap_err();
            assert_eq!(corruption.position, (at / 512 * 512) as u64, "byte {at}");
        }
    }

    #[test]
    fn old_misplaced_foreign_and_torn_blocks_are_found() {
        let old = check(&block(0, 1), 512, 0, exactly(2)).unwrap_err();
        assert_eq!(old.to_string(), "at offset 0: expected generation 2, found generation 1");
        let misplaced = check(&block(4096, 2), 512, 0, exactly(2)).unwrap_err();
        assert!(misplaced.to_string().contains("generation 2 of offset 4096"));
        let foreign =
            check(&block(0, 2), 512, 0, Expected::Exactly { generation: 2, writer: 1 }).unwrap_err();
        assert!(foreign.to_string().contains("another run"));
        let zeroes = check(&[0; 512], 512, 0, exactly(2)).unwrap_err();
        assert!(zeroes.to_string().contains("without a stamp"));
        for cut in [40, 256, 500] {
            let mut torn = block(0, 2);
            torn[cut..512].copy_from_slice(&block(0, 1)[cut..512]);
            let torn = check(&torn, 512, 0, exactly(2)).unwrap_err();
            assert!(matches!(torn.found, Found::Torn(_)), "{torn}");
        }
    }

    #[test]
    fn after_a_crash_a_range_is_admitted() {
        let between = |min, max| Expected::Between { min, max, writer: WRITER };
        assert!(check(&block(0, 5), 512, 0, between(5, Some(9))).is_ok());
        assert!(check(&block(0, 9), 512, 0, between(5, Some(9))).is_ok());
        assert!(check(&block(0, 4), 512, 0, between(5, Some(9))).is_err());
        assert!(check(&block(0, 10), 512, 0, between(5, Some(9))).is_err());
        assert!(check(&[0; 512], 512, 0, between(0, Some(1))).is_ok());
        assert!(check(&[0; 512], 512, 0, between(1, Some(1))).is_err());
        // Each block of the namespace stands for itself: a write of several may have come half through.
        let mut half = block(0, 6);
        half[2048..].copy_from_slice(&block(0, 5)[2048..]);
        assert!(check(&half, 512, 0, between(5, Some(6))).is_ok());
        assert!(check(&half, 512, 0, exactly(6)).is_err());
    }
}
