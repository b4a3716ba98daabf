//! Each command is answered once, when what it promises is so, and with what it found.

use nvme::Status;
use nvme::io::IoCommand;
use proptest::prelude::*;

use super::rig::{Answer, BLOCK, Rig, block};

fn read(start: u64) -> IoCommand {
    IoCommand::Read { start, blocks: 1, force_unit_access: false }
}

fn write(start: u64) -> IoCommand {
    IoCommand::Write { start, blocks: 1, force_unit_access: false }
}

#[test]
fn what_was_written_in_a_capsule_or_on_request_is_read() {
    let mut rig = Rig::on_memory(4);
    rig.send(1, &write(0), &block(7), true);
    rig.send(2, &write(1), &block(8), false);
    rig.send(3, &read(0), &[], false);
    rig.send(4, &read(1), &[], false);
    let answer = |command_id, data| Answer { command_id, status: Status::SUCCESS, data };
    let expected = [answer(1, vec![]), answer(2, vec![]), answer(3, block(7)), answer(4, block(8))];
    assert_eq!(rig.answers(), expected);
}

#[test]
fn a_disk_is_asked_before_anything_is_answered() {
    let mut rig = Rig::on_disk(4);
    rig.send(1, &write(2), &block(7), true);
    rig.send(2, &IoCommand::Write { start: 3, blocks: 1, force_unit_access: true }, &block(8), false);
    rig.send(3, &IoCommand::Flush, &[], false);
    rig.send(4, &read(0), &[], false);
    let expected =
        ["write 4096 at 8192", "write 4096 at 12288 durably", "sync", "read 4096 at 0"].map(str::to_owned);
    assert_eq!((rig.operations(), rig.answers()), (expected.to_vec(), vec![]));
    rig.store(&[]);
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
    // The others end in another order than that in which they began.
    rig.store_with(2, Ok(&block(9)));
    assert_eq!(rig.answers(), [Answer { command_id: 4, status: Status::SUCCESS, data: block(9) }]);
    rig.store(&[]);
    rig.store(&[]);
    assert_eq!(rig.statuses(), [(2, Status::SUCCESS), (3, Status::SUCCESS)]);
    assert_eq!((rig.commands.slots.busy(), rig.commands.slots.kept()), (0, 0));
}

#[test]
fn an_error_of_the_disk_costs_its_command_alone() {
    let mut rig = Rig::on_disk(4);
    for (command_id, command) in [(1, read(0)), (2, read(1))] {
        rig.send(command_id, &command, &[], false);
    }
    rig.send(3, &write(2), &block(1), true);
    rig.send(4, &read(3), &[], false);
    rig.store_with(0, Err(libc::EIO));
    rig.store_with(1, Err(libc::ENOSPC));
    rig.store_with(1, Err(libc::ETIMEDOUT));
    rig.store(&block(3));
    let expected = [
        (1, Status::UNRECOVERED_READ_ERROR),
        (3, Status::CAPACITY_EXCEEDED),
        (4, Status::NAMESPACE_NOT_READY),
        (2, Status::SUCCESS),
    ];
    assert_eq!(rig.statuses(), expected);
    assert_eq!(rig.counts().media_errors, 1, "lack of room or of time is not an error of the medium");
}

#[test]
fn blocks_that_are_not_there_are_refused() {
    let mut rig = Rig::on_memory(4);
    rig.send(1, &read(4), &[], false);
    rig.send(2, &IoCommand::Write { start: 3, blocks: 2, force_unit_access: false }, &[0; 2 * BLOCK], true);
    rig.send(3, &read(u64::MAX), &[], false);
    let out_of_range = Status::LBA_OUT_OF_RANGE.do_not_retry();
    assert_eq!(rig.statuses(), [1, 2, 3].map(|command_id| (command_id, out_of_range)));
}

proptest! {
    #[test]
    fn every_command_is_answered_once_in_whatever_order_the_disk_ends(
        commands in proptest::collection::vec((0_u8..7, 0_u64..8, any::<bool>()), 1..24),
        order in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
    ) {
        let mut rig = Rig::on_disk(8);
        let mut ends = order.into_iter();
        let mut answered = Vec::new();
        for (number, (kind, start, flag)) in commands.iter().enumerate() {
            let (start, flag) = (*start, *flag);
            let (command, data) = match kind {
                0 => (read(start), vec![]),
                1 => (IoCommand::Write { start, blocks: 1, force_unit_access: flag }, block(1)),
                2 => (IoCommand::Compare { start, blocks: 1 }, block(2)),
                3 => (IoCommand::Verify { start, blocks: 1 }, vec![]),
                4 => (IoCommand::Flush, vec![]),
                5 => (IoCommand::DatasetManagement { ranges: 1, deallocate: true },
                      nvme::io::encode_ranges(&[(start, 1)])),
                _ => (IoCommand::WriteZeroes { start, blocks: 1, force_unit_access: flag, deallocate: flag },
                      vec![]),
            };
            let in_capsule = flag && !data.is_empty();
            rig.send(number as u16, &command, &data, in_capsule);
            if rig.stored_left() > 0 && let Some((which, is_well)) = ends.next() {
                end_one(&mut rig, which.index(1), is_well);
            }
            answered.extend(rig.statuses());
        }
        for _ in 0..1000 {
            if rig.stored_left() == 0 {
                break;
            }
            let (which, is_well) = ends.next().map_or((0, true), |(which, is_well)| (which.index(8), is_well));
            end_one(&mut rig, which, is_well);
            answered.extend(rig.statuses());
        }
        let mut ids: Vec<u16> = answered.iter().map(|(command_id, _)| *command_id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..commands.len() as u16).collect::<Vec<_>>());
        prop_assert_eq!((rig.commands.slots.busy(), rig.commands.slots.kept()), (0, 0));
    }
}

fn end_one(rig: &mut Rig, which: usize, is_well: bool) {
    let at = which % rig.stored_left();
    let is_read = rig.operations()[at].starts_with("read");
    match (is_well, is_read) {
        (true, true) => rig.store_with(at, Ok(&block(2))),
        (true, false) => rig.store_with(at, Ok(&[])),
        (false, _) => rig.store_with(at, Err(libc::EIO)),
    }
    rig.read_messages();
}
