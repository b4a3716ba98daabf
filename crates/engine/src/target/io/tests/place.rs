//! Writes whose data may be received into memory itself, and reasons to look at it first.

use nvme::Status;
use nvme::io::{Fused, IoCommand};

use super::rig::{BLOCK, Rig};
use crate::limits::LARGE_DATA_LENGTH_MIN;
use crate::target::config::QosConfig;
use crate::target::telemetry::Operation;

/// Blocks of a large write.
const BLOCKS: u32 = LARGE_DATA_LENGTH_MIN.div_ceil(BLOCK) as u32;

fn write(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Write { start, blocks, force_unit_access: false }
}

fn data(byte: u8, blocks: u32) -> Vec<u8> {
    vec![byte; blocks as usize * BLOCK]
}

#[test]
fn a_large_write_is_answered_when_its_data_is_in_its_place() {
    let mut rig = Rig::on_memory(64);
    rig.send(1, &write(3, BLOCKS), &data(7, BLOCKS), false);
    rig.send(2, &write(20, BLOCKS - 1), &data(8, BLOCKS - 1), false);
    assert_eq!(rig.placed, [1], "the other one is small");
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    let large = data(7, BLOCKS);
    assert!(rig.memory(3 * BLOCK as u64, large.len()) == large);
    assert_eq!((rig.commands.slots.busy(), rig.commands.slots.kept()), (0, 0));
    let bytes = rig.counts().operations[Operation::Write as usize].bytes;
    assert_eq!(bytes, (2 * BLOCKS as usize - 1) as u64 * BLOCK as u64);
}

#[test]
fn a_write_that_has_to_be_looked_at_has_no_place() {
    let mut with_digest = Rig::on_memory(64);
    with_digest.commands.of.has_data_digest = true;
    let limit = QosConfig { iops: Some(1_000_000), ..QosConfig::default() };
    for mut rig in [with_digest, Rig::with_limits(64, limit)] {
        rig.send(1, &write(3, BLOCKS), &data(7, BLOCKS), false);
        assert_eq!((rig.placed.len(), rig.statuses()), (0, vec![(1, Status::SUCCESS)]));
    }
    let mut rig = Rig::on_disk(64);
    rig.send(1, &write(3, BLOCKS), &data(7, BLOCKS), false);
    assert_eq!((rig.placed.len(), rig.stored_left()), (0, 1));
}

#[test]
fn a_write_of_a_pair_has_no_place() {
    let mut rig = Rig::on_memory(64);
    let compare = IoCommand::Compare { start: 0, blocks: BLOCKS };
    rig.send_fused(1, &compare, (&data(1, BLOCKS), false), Fused::First);
    rig.send_fused(2, &write(0, BLOCKS), (&data(2, BLOCKS), false), Fused::Second);
    rig.read_messages();
    let expected = [(1, Status::COMPARE_FAILURE), (2, Status::ABORTED_FAILED_FUSED)];
    assert_eq!(rig.statuses(), expected);
    assert!(rig.memory(0, BLOCK).iter().all(|byte| *byte == 0) && rig.placed.is_empty());
}
