//! The commands of one queue that wait for the limits of one namespace, and what each of them costs.
//! When a command may start is the shaper's decision.

use std::sync::Arc;

use nvme::io::{DatasetRange, copy_ranges};
use zerocopy::FromBytes;

use super::work::Work;
use crate::limits::{DEALLOCATE_COST_BYTES_MAX, UNCORRECTABLE_COST_BYTES};
use crate::target::qos::{Backlog, Cost, Direction, ShaperView};
use crate::target::served::Namespace;

/// The commands of one queue that wait for the limits of one namespace.
#[derive(Debug)]
pub(super) struct Throttle {
    pub(super) namespace: Arc<Namespace>,
    pub(super) view: ShaperView,
    pub(super) backlogs: [Backlog<u16>; 2],
}

impl Throttle {
    pub(super) fn new(namespace: &Arc<Namespace>) -> Self {
        Self {
            namespace: namespace.clone(),
            view: ShaperView::new(namespace.shaper.clone()),
            backlogs: [Backlog::new(Direction::Read), Backlog::new(Direction::Write)],
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // What was entered for commands that never start is given back to the others.
        for backlog in &mut self.backlogs {
            backlog.close(&mut self.view).for_each(drop);
        }
    }
}

/// Limits that apply to a command, and its cost. Bytes count whether or not they travel to a host:
/// the load on the storage and on its other users is the same.
pub(super) fn measure(work: &Work, data: &[u8], block_shift: u32) -> Option<(Direction, Cost)> {
    let bytes = |blocks: u32| u64::from(blocks) << block_shift;
    match *work {
        Work::Read { range } | Work::Compare { range } | Work::Verify { range } => {
            Some((Direction::Read, Cost::read(range.length)))
        }
        Work::Write { range, .. } | Work::Zero { range, .. } => {
            Some((Direction::Write, Cost::written(range.length)))
        }
        // It writes a note, however long its range is.
        Work::MarkUncorrectable { .. } => Some((Direction::Write, Cost::written(UNCORRECTABLE_COST_BYTES))),
        Work::Deallocate { next, ranges } => {
            let list = data.chunks_exact(size_of::<DatasetRange>()).take(usize::from(ranges));
            let ranges =
                list.skip(usize::from(next)).filter_map(|range| DatasetRange::read_from_bytes(range).ok());
            let costs = ranges.map(|range| bytes(range.blocks.get()).min(DEALLOCATE_COST_BYTES_MAX));
            Some((Direction::Write, Cost::written(costs.sum())))
        }
        Work::Copy { ranges, format, .. } => {
            // A list that is not one is refused when it is looked at, and costs no more than a command.
            let list = copy_ranges(format, ranges, data).ok();
            let length = list.map_or(0, |list| list.map(|(_, blocks)| bytes(blocks)).sum());
            Some((Direction::Write, Cost { read_bytes: length, written_bytes: length }))
        }
        Work::Flush | Work::Reservation { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use nvme::io::{CopyFormat, encode_copy_ranges, encode_ranges};

    use super::*;
    use crate::backend::ZeroMethod;
    use crate::target::served::ByteRange;

    #[test]
    fn commands_cost_what_they_do_to_the_storage() {
        const PAGE: u64 = 4096;
        let range = ByteRange { offset: 0, length: 5 * PAGE };
        let written = |bytes| Some((Direction::Write, Cost::written(bytes)));
        let read = |bytes| Some((Direction::Read, Cost::read(bytes)));
        let zero = |method| Work::Zero { range, method, deallocate: false, durable: false };
        let copy = |ranges| {
            let format = CopyFormat::Format0;
            Work::Copy { next: 0, ranges, format, durable: false, done: 0, to: 0 }
        };
        let sources = encode_copy_ranges(CopyFormat::Format0, &[(0, 3), (9, 2)]);
        // One that is shorter than what is free, one that is longer, and one that the command does not name.
        let list = encode_ranges(&[(0, 2), (100, 1 << 20), (7, 1)]);
        let both = Cost { read_bytes: 5 * PAGE, written_bytes: 5 * PAGE };
        for (work, data, expected) in [
            (Work::Read { range }, &[][..], read(5 * PAGE)),
            (Work::Compare { range }, &[], read(5 * PAGE)),
            (Work::Verify { range }, &[], read(5 * PAGE)),
            (Work::Write { range, durable: false }, &[], written(5 * PAGE)),
            (zero(ZeroMethod::Write), &[], written(5 * PAGE)),
            (zero(ZeroMethod::Allocate(0)), &[], written(5 * PAGE)),
            (Work::MarkUncorrectable { range }, &[], written(UNCORRECTABLE_COST_BYTES)),
            (Work::Deallocate { next: 0, ranges: 2 }, &list, written(2 * PAGE + DEALLOCATE_COST_BYTES_MAX)),
            // A hint without "deallocate" does nothing.
            (Work::Deallocate { next: 2, ranges: 2 }, &list, written(0)),
            (copy(2), &sources, Some((Direction::Write, both))),
            (copy(3), &sources, Some((Direction::Write, Cost::default()))),
            (Work::Flush, &[], None),
        ] {
            assert_eq!(measure(&work, data, PAGE.ilog2()), expected, "{work:?}");
        }
    }
}
