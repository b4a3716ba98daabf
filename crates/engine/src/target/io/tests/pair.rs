//! Fused Compare and Write.

use nvme::Status;
use nvme::io::{Fused, IoCommand};

use super::rig::{Rig, block};
use crate::limits::HOST_BUFFER_BYTES_MAX;
use crate::target::io::{HostBuffers, Slots};

fn compare(start: u64) -> IoCommand {
    IoCommand::Compare { start, blocks: 1 }
}

fn write(start: u64) -> IoCommand {
    IoCommand::Write { start, blocks: 1, force_unit_access: false }
}

fn send_pair(rig: &mut Rig, compared: u8, written: u8) {
    rig.send_fused(1, &compare(0), (&block(compared), true), Fused::First);
    rig.send_fused(2, &write(0), (&block(written), false), Fused::Second);
}

#[test]
fn a_pair_writes_only_where_it_finds_what_it_compares() {
    let mut rig = Rig::on_memory(4);
    rig.fill(0, &block(1));
    send_pair(&mut rig, 1, 2);
    assert_eq!(rig.answers(), [], "it waits until no other command writes there");
    rig.read_messages();
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    assert_eq!(rig.memory(0, 4096), block(2));
    send_pair(&mut rig, 1, 3);
    rig.read_messages();
    let expected = [(1, Status::COMPARE_FAILURE), (2, Status::ABORTED_FAILED_FUSED)];
    assert_eq!((rig.statuses(), rig.memory(0, 4096)), (expected.to_vec(), block(2)));
    assert_eq!((rig.commands.slots.busy(), rig.commands.slots.kept()), (0, 0));
}

#[test]
fn other_writes_to_its_blocks_wait_for_it() {
    let mut rig = Rig::on_disk(4);
    send_pair(&mut rig, 1, 2);
    rig.read_messages();
    assert_eq!(rig.operations(), ["read 4096 at 0"]);
    rig.send(3, &write(0), &block(9), true);
    rig.send(4, &write(1), &block(9), true);
    assert_eq!(rig.operations(), ["read 4096 at 0", "write 4096 at 4096"], "only the one beside it begins");
    rig.store(&block(1));
    assert_eq!(rig.operations(), ["write 4096 at 4096", "write 4096 at 0"]);
    rig.store_with(1, Ok(&[]));
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    rig.read_messages();
    assert_eq!(rig.operations(), ["write 4096 at 4096", "write 4096 at 0"], "now the other one");
    rig.store(&[]);
    rig.store(&[]);
    assert_eq!(rig.statuses(), [(4, Status::SUCCESS), (3, Status::SUCCESS)]);
}

#[test]
fn a_pair_goes_on_while_other_queues_of_its_host_hold_all_buffers_of_its_share() {
    let (mut rig, mut hosts, mut greedy) = (Rig::on_disk(4), HostBuffers::default(), Slots::new(1));
    greedy.share(hosts.of(&rig.commands.of.controller.guest));
    greedy.count(HOST_BUFFER_BYTES_MAX);
    rig.commands.share_buffers(&mut hosts);
    let read = |start| IoCommand::Read { start, blocks: 1, force_unit_access: false };
    rig.send_fused(1, &compare(0), (&block(1), false), Fused::First);
    rig.send(3, &read(1), &[], false);
    rig.send(4, &read(2), &[], false);
    assert_eq!(rig.operations(), ["read 4096 at 4096"], "one at a time");
    rig.send_fused(2, &write(0), (&block(2), false), Fused::Second);
    for _ in 0..2 {
        rig.store(&block(7));
        // The data has left.
        rig.act(|_, _| Vec::new());
    }
    rig.read_messages();
    assert_eq!(rig.operations(), ["read 4096 at 0"], "the pair has its buffers");
    rig.store(&block(1));
    rig.store(&[]);
    assert_eq!(rig.statuses(), [3, 4, 1, 2].map(|command_id| (command_id, Status::SUCCESS)));
}

#[test]
fn halves_that_do_not_belong_together_are_refused() {
    let mut rig = Rig::on_memory(4);
    rig.send_fused(1, &write(0), (&block(1), true), Fused::Second);
    assert_eq!(rig.statuses(), [(1, Status::ABORTED_MISSING_FUSED)]);
    rig.send_fused(2, &compare(0), (&block(0), true), Fused::First);
    rig.send_fused(3, &compare(1), (&block(0), true), Fused::First);
    assert_eq!(rig.statuses(), [(2, Status::ABORTED_MISSING_FUSED)]);
    rig.send_fused(4, &write(2), (&block(1), true), Fused::Second);
    let expected = [(4, Status::INVALID_FIELD.do_not_retry()), (3, Status::ABORTED_FAILED_FUSED)];
    assert_eq!(rig.statuses(), expected);
    assert_eq!(rig.commands.slots.busy(), 0);
}

#[test]
fn a_disk_that_fails_the_second_half_fails_both() {
    let mut rig = Rig::on_disk(4);
    send_pair(&mut rig, 1, 2);
    rig.read_messages();
    rig.store(&block(1));
    rig.store_with(0, Err(libc::EIO));
    assert_eq!(rig.statuses(), [(2, Status::WRITE_FAULT), (1, Status::ABORTED_FAILED_FUSED)]);
    assert_eq!((rig.commands.slots.busy(), rig.commands.slots.kept()), (0, 0));
}
