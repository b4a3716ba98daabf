//! Which blocks of a namespace are allocated, as its controller says by Get LBA Status.

use std::time::Duration;

use nvme::identify::bits::optional_admin_commands;
use nvme::lba_status::{
    DESCRIPTOR_BYTES, GetLbaStatus, LIST_HEAD_BYTES, LbaStatusDescriptor, LbaStatusList, condition,
};
use zerocopy::FromBytes;

use super::controller::Controller;
use crate::initiator::InitiatorError;

/// Entries that are asked for: what begins a range, and what may follow it directly.
const ENTRIES: usize = 8;
const LIST_BYTES: usize = LIST_HEAD_BYTES + ENTRIES * DESCRIPTOR_BYTES;

/// Contiguous blocks that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of blocks.
    pub blocks: u64,
    /// False where they are deallocated.
    pub is_allocated: bool,
}

impl Controller {
    /// Extent of equal state from `start` on, of at most `blocks` blocks; `None` where the controller does not say, and for all
    /// targets but Selvedge's. Waits no longer than `timeout`.
    ///
    /// # Errors
    /// When the connection is lost, or the controller refuses or answers late.
    pub fn extent(
        &self,
        nsid: u32,
        start: u64,
        blocks: u64,
        timeout: Duration,
    ) -> Result<Option<Extent>, InitiatorError> {
        let commands = self.identify().optional_admin_commands.get();
        let is_offered = commands & optional_admin_commands::GET_LBA_STATUS != 0;
        // Only Selvedge's own targets: another one that ignored the kind of list, and answered with its
        // list of damaged blocks, would have clients take data for holes.
        if !is_offered || !self.identify().has_command_stages() || blocks == 0 {
            return Ok(None);
        }
        let blocks = blocks.min(u16::MAX.into());
        let command = GetLbaStatus { start, room_bytes: LIST_BYTES as u64, blocks: blocks as u16 };
        let reply = self.admin_reads_within(command.encode(nsid), LIST_BYTES, timeout)?;
        Ok(first_extent(&reply.success("Get LBA Status")?.data, start, blocks))
    }
}

/// Returns the extent that a list describes at `start`; `None` if it is ambiguous.
fn first_extent(list: &[u8], start: u64, blocks: u64) -> Option<Extent> {
    let (head, entries) = LbaStatusList::read_from_prefix(list).ok()?;
    let count = (head.count.get() as usize).min(ENTRIES);
    let entries = entries.chunks_exact(DESCRIPTOR_BYTES).take(count);
    let (end, mut at) = (start + blocks, start);
    for entry in entries.filter_map(|entry| LbaStatusDescriptor::read_from_bytes(entry).ok()) {
        let (first, count) = (entry.start.get(), u64::from(entry.blocks.get()));
        let last = first.checked_add(count)?;
        // A list is in order, and begins within the range.
        if first < at || last <= first || first >= end {
            return if at > start { Some(allocated(at.min(end) - start)) } else { None };
        }
        if first > at {
            return Some(match at > start {
                true => allocated(at - start),
                false => Extent { blocks: first - start, is_allocated: false },
            });
        }
        at = last;
    }
    if at > start {
        return Some(allocated(at.min(end) - start));
    }
    // Nothing is allocated, if all was looked at.
    (head.condition == condition::COMPLETE && head.count.get() == 0)
        .then_some(Extent { blocks, is_allocated: false })
}

const fn allocated(blocks: u64) -> Extent {
    Extent { blocks, is_allocated: true }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;
    use zerocopy::little_endian::{U32, U64};

    use super::*;

    fn list(condition: u8, entries: &[(u64, u32)]) -> Vec<u8> {
        let head = LbaStatusList { count: U32::new(entries.len() as u32), condition, reserved: [0; 3] };
        let mut bytes = head.as_bytes().to_vec();
        for (start, blocks) in entries {
            let entry =
                LbaStatusDescriptor { start: U64::new(*start), blocks: U32::new(*blocks), reserved: [0; 4] };
            bytes.extend_from_slice(entry.as_bytes());
        }
        bytes.resize(LIST_BYTES, 0);
        bytes
    }

    #[test]
    fn the_first_blocks_that_are_alike_are_found() {
        let hole = |blocks| Some(Extent { blocks, is_allocated: false });
        let data = |blocks| Some(allocated(blocks));
        let all = condition::COMPLETE;
        for (list, expected) in [
            (list(all, &[]), hole(100)),
            (list(all, &[(10, 100)]), data(100)),
            (list(all, &[(10, 200)]), data(100)),
            (list(all, &[(10, 5)]), data(5)),
            (list(all, &[(10, 5), (15, 5), (30, 1)]), data(10)),
            (list(all, &[(20, 5)]), hole(10)),
            (list(condition::INCOMPLETE, &[(20, 5)]), hole(10)),
            // Of what a controller does not say, nothing is taken for a hole.
            (list(condition::INCOMPLETE, &[]), None),
            (list(0, &[]), None),
            (list(all, &[(5, 10)]), None),
            (list(all, &[(110, 10)]), None),
            (list(all, &[(10, 0)]), None),
            (list(all, &[(u64::MAX, 2)]), None),
            (vec![2, 0, 0], None),
        ] {
            assert_eq!(first_extent(&list, 10, 100), expected, "{list:?}");
        }
    }
}
