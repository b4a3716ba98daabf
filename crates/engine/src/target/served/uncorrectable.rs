//! Blocks of a namespace that hosts marked with Write Uncorrectable, so that reads of them fail until they
//! are written. It knows block numbers only; whether they lie within the namespace was checked before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ranges of marked blocks of one namespace: 64 KiB, and far more than the tests and repairs that mark blocks
/// need. A host that marks every other block gets no further.
pub(crate) const UNCORRECTABLE_RANGES_MAX: usize = 4096;

/// The marked blocks would fall into more ranges than are kept. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRanges;

/// Marked blocks from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

/// The marked blocks of one namespace. Where there are none, as almost always, the data path pays one relaxed
/// load.
///
/// Marks do not outlive the target: they say that a host wants to see an error, as tests of error handling do, and nothing of
/// the medium, which has the data from before; a host that repairs blocks writes them. Commands that run at the same time on the same blocks have no order, so a
/// read that overlaps with the marking may see either; one that starts after the marking completed sees it,
/// since the completion went through the system's sockets in between.
#[derive(Debug, Default)]
pub(crate) struct Uncorrectable {
    /// Number of ranges; written under the lock only.
    count: AtomicUsize,
    /// In ascending order; no two overlap or touch.
    ranges: Mutex<Vec<Range>>,
}

impl Uncorrectable {
    /// True if no block is marked.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Has the marks that another has, and no others.
    pub(crate) fn copy(&self, other: &Self) {
        let ranges = other.lock().clone();
        let mut own = self.lock();
        self.count.store(ranges.len(), Ordering::Relaxed);
        *own = ranges;
    }

    /// The marked blocks: the first of some, and how many.
    pub(crate) fn marked(&self) -> Vec<(u64, u64)> {
        self.lock().iter().map(|range| (range.start, range.end - range.start)).collect()
    }

    /// Marks `blocks` blocks from `start` on.
    ///
    /// # Errors
    /// When that would need more than `UNCORRECTABLE_RANGES_MAX` ranges: the command fails.
    pub(crate) fn mark(&self, start: u64, blocks: u64) -> Result<(), TooManyRanges> {
        let Some(marked) = range(start, blocks) else { return Ok(()) };
        let mut ranges = self.lock();
        // What touches the new range becomes one with it.
        let first = ranges.partition_point(|range| range.end < marked.start);
        let behind = ranges.partition_point(|range| range.start <= marked.end);
        let merged = ranges[first..behind].iter().fold(marked, |merged, range| Range {
            start: merged.start.min(range.start),
            end: merged.end.max(range.end),
        });
        self.replace(&mut ranges, first..behind, &[merged])
    }

    /// Checks that [`Self::clear`] would succeed. Called before the medium is written: data whose
    /// mark cannot be cleared could never be read, and must not be written.
    ///
    /// # Errors
    /// As `clear`.
    pub(crate) fn check_clear(&self, start: u64, blocks: u64) -> Result<(), TooManyRanges> {
        self.clear_if(start, blocks, false)
    }

    /// Makes `blocks` blocks from `start` on good again, as a write does that has come to the medium: one that fails leaves
    /// them as they were.
    ///
    /// # Errors
    /// When a range would fall in two and there are `UNCORRECTABLE_RANGES_MAX` already: the write fails.
    pub(crate) fn clear(&self, start: u64, blocks: u64) -> Result<(), TooManyRanges> {
        self.clear_if(start, blocks, true)
    }

    fn clear_if(&self, start: u64, blocks: u64, is_meant: bool) -> Result<(), TooManyRanges> {
        if self.is_empty() {
            return Ok(());
        }
        let Some(good) = range(start, blocks) else { return Ok(()) };
        let mut ranges = self.lock();
        let first = ranges.partition_point(|range| range.end <= good.start);
        let behind = ranges.partition_point(|range| range.start < good.end);
        let (Some(left), Some(right)) = (ranges[first..behind].first(), ranges[first..behind].last()) else {
            return Ok(());
        };
        // Of the first and the last range, the parts outside remain.
        let left = Range { start: left.start, end: good.start };
        let right = Range { start: good.end, end: right.end };
        let remain = [left, right];
        let from = usize::from(left.start >= left.end);
        let to = if right.start >= right.end { 1 } else { 2 };
        let remain = remain.get(from..to).unwrap_or(&[]);
        if is_meant {
            return self.replace(&mut ranges, first..behind, remain);
        }
        check_count(&ranges, behind - first, remain.len()).map(drop)
    }

    /// True if one of the `blocks` blocks from `start` on is marked.
    pub(crate) fn touches(&self, start: u64, blocks: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(asked) = range(start, blocks) else { return false };
        let ranges = self.lock();
        let first = ranges.partition_point(|range| range.end <= asked.start);
        ranges.get(first).is_some_and(|range| range.start < asked.end)
    }

    /// Makes all blocks good again.
    #[cfg(test)]
    pub(crate) fn clear_all(&self) {
        let mut ranges = self.lock();
        ranges.clear();
        self.count.store(0, Ordering::Relaxed);
    }

    fn replace(
        &self,
        ranges: &mut Vec<Range>,
        at: std::ops::Range<usize>,
        by: &[Range],
    ) -> Result<(), TooManyRanges> {
        let count = check_count(ranges, at.len(), by.len())?;
        ranges.splice(at, by.iter().copied());
        self.count.store(count, Ordering::Relaxed);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Range>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of ranges after `going` are removed and `coming` added.
fn check_count(ranges: &[Range], going: usize, coming: usize) -> Result<usize, TooManyRanges> {
    let count = ranges.len() - going + coming;
    // Fewer ranges than before are always taken, however many there are.
    if count > UNCORRECTABLE_RANGES_MAX && count > ranges.len() { Err(TooManyRanges) } else { Ok(count) }
}

/// No blocks are not a range; block numbers end at `u64::MAX`.
fn range(start: u64, blocks: u64) -> Option<Range> {
    let end = start.saturating_add(blocks);
    (start < end).then_some(Range { start, end })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Mark(u64, u64),
        Clear(u64, u64),
        ClearAll,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            10 => (0_u64..64, 0_u64..12).prop_map(|(start, blocks)| Step::Mark(start, blocks)),
            10 => (0_u64..64, 0_u64..12).prop_map(|(start, blocks)| Step::Clear(start, blocks)),
            1 => Just(Step::ClearAll),
        ];
        vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn it_knows_the_same_blocks_as_a_set_of_blocks(steps in steps()) {
            let uncorrectable = Uncorrectable::default();
            let mut model = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Mark(start, blocks) => {
                        uncorrectable.mark(start, blocks).expect("few ranges");
                        model.extend(start..start + blocks);
                    }
                    Step::Clear(start, blocks) => {
                        uncorrectable.clear(start, blocks).expect("few ranges");
                        model.retain(|block| !(start..start + blocks).contains(block));
                    }
                    Step::ClearAll => {
                        uncorrectable.clear_all();
                        model.clear();
                    }
                }
                prop_assert_eq!(uncorrectable.is_empty(), model.is_empty());
                for start in 0..80 {
                    for blocks in 0..4 {
                        let touches = model.range(start..start + blocks).next().is_some();
                        prop_assert_eq!(uncorrectable.touches(start, blocks), touches, "{} + {}", start, blocks);
                    }
                }
                let ranges = uncorrectable.lock();
                prop_assert_eq!(ranges.len(), uncorrectable.count.load(Ordering::Relaxed));
                prop_assert!(ranges.iter().all(|range| range.start < range.end));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", ranges);
            }
        }
    }

    #[test]
    fn more_ranges_than_the_limit_are_refused_and_nothing_is_changed() {
        let uncorrectable = Uncorrectable::default();
        let limit = UNCORRECTABLE_RANGES_MAX as u64;
        for at in 0..limit {
            uncorrectable.mark(at * 10, 3).expect("below the limit");
        }
        assert_eq!(uncorrectable.mark(limit * 10, 1), Err(TooManyRanges));
        assert!(!uncorrectable.touches(limit * 10, 1));
        assert_eq!(uncorrectable.check_clear(1, 1), Err(TooManyRanges), "one range would become two");
        assert_eq!(uncorrectable.check_clear(0, 3), Ok(()));
        assert!(uncorrectable.touches(0, 3), "it was only asked");
        assert_eq!(uncorrectable.clear(1, 1), Err(TooManyRanges), "one range would become two");
        assert!(uncorrectable.touches(1, 1));
        // What needs no further range still works: growing, shrinking, joining.
        assert_eq!(uncorrectable.mark(3, 2), Ok(()));
        assert_eq!(uncorrectable.clear(0, 1), Ok(()));
        assert_eq!(uncorrectable.mark(0, 10), Ok(()));
        assert_eq!(uncorrectable.mark(limit * 10, 1), Ok(()), "two have become one");
        assert_eq!(uncorrectable.clear(0, u64::MAX), Ok(()));
        assert!(uncorrectable.is_empty());
    }

    #[test]
    fn the_last_block_numbers_do_not_overflow() {
        let uncorrectable = Uncorrectable::default();
        uncorrectable.mark(u64::MAX - 1, 5).expect("one range");
        assert!(uncorrectable.touches(u64::MAX - 1, u64::MAX));
        assert!(!uncorrectable.touches(u64::MAX, 1), "no namespace has that block");
        uncorrectable.clear(u64::MAX - 1, 1).expect("no range");
        assert!(uncorrectable.is_empty());
    }
}
