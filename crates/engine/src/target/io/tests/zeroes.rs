//! Write Zeroes and Deallocate above the limits that hosts read.

use nvme::Status;
use nvme::io::{IoCommand, encode_ranges};

use super::rig::Rig;
use crate::limits::{DEALLOCATE_LENGTH_MAX, WRITE_ZEROES_LENGTH_MAX};

/// Two of the longest pieces, and a block.
const BLOCKS: u64 = 2 * WRITE_ZEROES_LENGTH_MAX / 4096 + 1;

#[test]
fn a_disk_makes_long_zeroes_in_pieces_and_makes_them_durable_at_the_end() {
    let mut rig = Rig::on_disk(8 + BLOCKS);
    let (start, blocks) = (8, BLOCKS as u32);
    let command = IoCommand::WriteZeroes { start, blocks, force_unit_access: true, deallocate: true };
    rig.send(1, &command, &[], false);
    for operation in
        ["allocate 33554432 at 32768", "allocate 33554432 at 33587200", "allocate 4096 at 67141632", "sync"]
    {
        assert_eq!((rig.operations(), rig.answers()), (vec![operation.to_owned()], vec![]));
        rig.store(&[]);
    }
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
}

#[test]
fn a_piece_that_the_disk_has_no_room_for_fails_the_command() {
    let mut rig = Rig::on_disk(BLOCKS);
    let (start, blocks) = (0, BLOCKS as u32);
    let command = IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate: false };
    rig.send(1, &command, &[], false);
    rig.store(&[]);
    rig.store_with(0, Err(libc::ENOSPC));
    assert_eq!(rig.statuses(), [(1, Status::CAPACITY_EXCEEDED)]);
    assert_eq!(rig.stored_left(), 0, "nothing more is zeroed");
}

#[test]
fn no_further_piece_is_zeroed_once_another_host_has_reserved_the_namespace() {
    let mut rig = Rig::on_disk(BLOCKS);
    let (start, blocks) = (0, BLOCKS as u32);
    let command = IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate: false };
    rig.send(1, &command, &[], false);
    rig.reserve_for("nqn.2026-01.io.selvedge:other", [2; 16]);
    rig.store(&[]);
    assert_eq!(rig.statuses(), [(1, Status::RESERVATION_CONFLICT)]);
    assert_eq!(rig.stored_left(), 0);
}

#[test]
fn a_disk_gives_long_ranges_back_in_pieces() {
    let piece = (DEALLOCATE_LENGTH_MAX / 4096) as u32;
    let mut rig = Rig::on_disk(2 * u64::from(piece) + 2);
    let list = encode_ranges(&[(1, 2 * piece + 1), (7, 0), (0, piece), (0, 1)]);
    rig.send(1, &IoCommand::DatasetManagement { ranges: 4, deallocate: true }, &list, true);
    for operation in [
        "allocate 1073741824 at 4096",
        "allocate 1073741824 at 1073745920",
        "allocate 4096 at 2147487744",
        "allocate 1073741824 at 0",
        "allocate 4096 at 0",
    ] {
        assert_eq!((rig.operations(), rig.answers()), (vec![operation.to_owned()], vec![]));
        rig.store(&[]);
    }
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
}
