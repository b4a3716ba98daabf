//! Chunks of a memory that have been written since they were blank. A blank chunk is not read in
//! place: pages of a file in memory are taken from the system when they are read, too, and a host
//! that reads a large blank disk would take them all.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a chunk: what one huge page holds.
pub(super) const CHUNK: u64 = 2 << 20;

/// A bit for each chunk. It is changed under the locks of pages in the chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenChunks<'a>(&'a [AtomicU64]);

impl<'a> WrittenChunks<'a> {
    /// Words that it takes for this many bytes.
    pub(super) const fn words(bytes: u64) -> usize {
        (bytes.div_ceil(CHUNK * u64::BITS as u64)) as usize
    }

    pub(super) const fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// True if all chunks of these bytes are blank.
    pub(super) fn are_blank(self, bytes: &Range<u64>) -> bool {
        chunks_of(bytes).all(|chunk| !self.is_written(chunk))
    }

    /// These bytes are written from now on; the chunks that were blank.
    pub(super) fn mark(self, bytes: &Range<u64>) -> impl Iterator<Item = u64> + use<'a> {
        // Cache lines stay shared, but for the first write of a chunk.
        chunks_of(bytes).filter(move |chunk| !self.is_written(*chunk) && self.set(*chunk))
    }

    /// Marks a chunk; true if it was blank.
    pub(super) fn set(self, chunk: u64) -> bool {
        self.word(chunk).fetch_or(bit(chunk), Ordering::Relaxed) & bit(chunk) == 0
    }

    /// Marks those that another one has marked.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn copy(self, other: Self) {
        for (word, other) in self.0.iter().zip(other.0) {
            // Most are blank, and their pages of this table are taken from the system when they are written.
            let bits = other.load(Ordering::Relaxed);
            if bits != 0 {
                word.fetch_or(bits, Ordering::Relaxed);
            }
        }
    }

    /// All chunks that are marked, which are not from now on.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn take(self) -> Vec<u64> {
        let mut taken = Vec::new();
        for (at, word) in self.0.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                taken.push(at as u64 * u64::from(u64::BITS) + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        taken
    }

    /// The chunks that lie within these bytes are blank again.
    pub(super) fn clear(self, bytes: &Range<u64>) {
        for chunk in bytes.start.div_ceil(CHUNK)..bytes.end / CHUNK {
            self.word(chunk).fetch_and(!bit(chunk), Ordering::Relaxed);
        }
    }

    pub(super) fn is_written(self, chunk: u64) -> bool {
        self.word(chunk).load(Ordering::Relaxed) & bit(chunk) != 0
    }

    fn word(self, chunk: u64) -> &'a AtomicU64 {
        &self.0[(chunk / u64::from(u64::BITS)) as usize]
    }
}

const fn bit(chunk: u64) -> u64 {
    1 << (chunk % u64::BITS as u64)
}

const fn chunks_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / CHUNK..bytes.end.div_ceil(CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_blank_until_it_is_written_and_after_all_of_it_is_cleared() {
        let words: Vec<AtomicU64> =
            (0..WrittenChunks::words(100 * CHUNK)).map(|_| AtomicU64::new(0)).collect();
        assert_eq!(words.len(), 2);
        let chunks = WrittenChunks::new(&words);
        assert!(chunks.are_blank(&(0..100 * CHUNK)));
        let mark = |bytes: Range<u64>| chunks.mark(&bytes).collect::<Vec<u64>>();
        assert_eq!(mark(70 * CHUNK - 1..70 * CHUNK + 1), [69, 70]);
        assert!(mark(70 * CHUNK..71 * CHUNK).is_empty());
        assert!(
            !chunks.are_blank(&(69 * CHUNK..69 * CHUNK + 1)) && !chunks.are_blank(&(70 * CHUNK..71 * CHUNK))
        );
        assert!(chunks.are_blank(&(0..69 * CHUNK)) && chunks.are_blank(&(71 * CHUNK..100 * CHUNK)));
        chunks.clear(&(69 * CHUNK + 1..71 * CHUNK));
        assert!(!chunks.are_blank(&(69 * CHUNK..70 * CHUNK)), "a part of it was not cleared");
        assert!(chunks.are_blank(&(70 * CHUNK..100 * CHUNK)));
        assert!(chunks.set(3) && !chunks.set(3));
        assert_eq!(chunks.take(), [3, 69]);
        assert!(chunks.take().is_empty());
    }
}
