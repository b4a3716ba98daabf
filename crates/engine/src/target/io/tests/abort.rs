//! Commands that are taken back.

use std::time::Duration;

use nvme::Status;
use nvme::io::{Fused, IoCommand};

use super::rig::{Rig, block};
use crate::target::config::QosConfig;

fn read(start: u64) -> IoCommand {
    IoCommand::Read { start, blocks: 1, force_unit_access: false }
}

fn abort(rig: &mut Rig, command_id: u16) -> bool {
    let mut was_taken_back = false;
    rig.act(|commands, ctx| {
        let answer = commands.abort(command_id, ctx);
        was_taken_back = answer.is_some();
        answer.into_iter().collect()
    });
    was_taken_back
}

#[test]
fn what_waits_for_a_limit_is_taken_back() {
    let mut rig = Rig::with_limits(4, QosConfig { iops: Some(1), ..QosConfig::default() });
    for command_id in 0..3 {
        rig.send(command_id, &read(0), &[], false);
    }
    let at_once = rig.answers().len() as u16;
    assert!(at_once < 3 && abort(&mut rig, 2));
    assert_eq!(rig.statuses(), [(2, Status::ABORT_REQUESTED)]);
    assert!(!abort(&mut rig, 2), "it is answered");
    rig.wait(Duration::from_secs(5));
    assert_eq!(rig.answers().len(), usize::from(2 - at_once), "the others begin all the same");
    assert_eq!(rig.commands.slots.busy(), 0);
}

#[test]
fn what_the_storage_has_is_not_taken_back() {
    let mut rig = Rig::on_disk(4);
    rig.send(1, &read(0), &[], false);
    assert!(!abort(&mut rig, 1) && !abort(&mut rig, 99));
    rig.store(&block(5));
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
}

#[test]
fn half_a_pair_that_waits_is_taken_back_and_its_other_half_fails() {
    let mut rig = Rig::on_memory(4);
    rig.send_fused(1, &IoCommand::Compare { start: 0, blocks: 1 }, (&block(0), true), Fused::First);
    assert!(abort(&mut rig, 1));
    let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
    rig.send_fused(2, &write, (&block(1), true), Fused::Second);
    assert_eq!(rig.statuses(), [(1, Status::ABORT_REQUESTED), (2, Status::ABORTED_FAILED_FUSED)]);
    assert_eq!((rig.memory(0, 4096), rig.commands.slots.busy()), (block(0), 0));
}

#[test]
fn a_stopped_queue_answers_nothing_and_keeps_only_what_the_storage_has() {
    let mut rig = Rig::on_disk(4);
    rig.send(1, &read(0), &[], false);
    rig.send_fused(2, &IoCommand::Compare { start: 1, blocks: 1 }, (&block(0), true), Fused::First);
    rig.act(|commands, ctx| {
        commands.stop(ctx.pool);
        Vec::new()
    });
    assert_eq!(rig.commands.slots.kept(), 1);
    rig.store(&block(5));
    assert_eq!((rig.answers(), rig.commands.slots.kept()), (vec![], 0));
}
