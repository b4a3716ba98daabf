//! Copy, piece by piece.

use nvme::Status;
use nvme::io::{CopyFormat, IoCommand, encode_copy_ranges};

use super::rig::{Rig, block};

fn copy(start: u64, ranges: u16, is_durable: bool) -> IoCommand {
    IoCommand::Copy { start, ranges, format: CopyFormat::Format0, force_unit_access: is_durable }
}

#[test]
fn memory_is_copied_range_by_range() {
    let mut rig = Rig::on_memory(16);
    rig.fill(0, &[block(1), block(2), block(3)].concat());
    let list = encode_copy_ranges(CopyFormat::Format0, &[(2, 1), (0, 2)]);
    rig.send(1, &copy(8, 2, false), &list, false);
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
    assert_eq!(rig.memory(8 * 4096, 3 * 4096), [block(3), block(1), block(2)].concat());
}

#[test]
fn a_disk_reads_and_writes_in_turn_and_makes_it_durable_at_the_end() {
    let mut rig = Rig::on_disk(16);
    let list = encode_copy_ranges(CopyFormat::Format0, &[(2, 1), (5, 1)]);
    rig.send(1, &copy(8, 2, true), &list, true);
    for (operation, read) in [
        ("read 4096 at 8192", block(3)),
        ("write 4096 at 32768", vec![]),
        ("read 4096 at 20480", block(6)),
        ("write 4096 at 36864", vec![]),
        ("sync", vec![]),
    ] {
        assert_eq!((rig.operations(), rig.answers()), (vec![operation.to_owned()], vec![]));
        rig.store(&read);
    }
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
}

#[test]
fn nothing_is_copied_of_a_list_with_a_fault_in_it() {
    let refused = [
        (vec![(0, 1), (16, 1)], Status::LBA_OUT_OF_RANGE),
        (vec![(0, 1), (7, 2)], Status::OVERLAPPING_IO_RANGE),
    ];
    for (ranges, status) in refused {
        let list = encode_copy_ranges(CopyFormat::Format0, &ranges);
        let mut rig = Rig::on_memory(16);
        rig.fill(0, &block(1));
        rig.send(1, &copy(8, 2, false), &list, false);
        assert_eq!(rig.statuses(), [(1, status.do_not_retry())]);
        assert_eq!(rig.memory(8 * 4096, 4096), block(0));
    }
}

#[test]
fn a_copy_that_the_disk_fails_says_which_half_has_failed() {
    for (ended_well, status) in [(0, Status::UNRECOVERED_READ_ERROR), (1, Status::WRITE_FAULT)] {
        let mut rig = Rig::on_disk(16);
        let list = encode_copy_ranges(CopyFormat::Format0, &[(2, 1)]);
        rig.send(1, &copy(8, 1, false), &list, false);
        for _ in 0..ended_well {
            rig.store(&block(1));
        }
        rig.store_with(0, Err(libc::EIO));
        let answered = rig.statuses();
        // An error of the disk is reported as one of writing, except for short reads.
        assert_eq!(answered.len(), 1);
        assert!([status, Status::WRITE_FAULT].contains(&answered[0].1), "{answered:?}");
    }
}
