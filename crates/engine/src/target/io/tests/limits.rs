//! Limits of a namespace, on virtual time.

use std::time::Duration;

use nvme::Status;
use nvme::io::IoCommand;

use super::rig::{Rig, block};
use crate::target::config::QosConfig;

const MS: Duration = Duration::from_millis(1);

fn read(start: u64) -> IoCommand {
    IoCommand::Read { start, blocks: 1, force_unit_access: false }
}

#[test]
fn commands_beyond_a_limit_begin_when_their_time_has_come() {
    let mut rig = Rig::with_limits(4, QosConfig { iops: Some(100), ..QosConfig::default() });
    let mut answered = 0;
    for command_id in 0..30 {
        rig.send(command_id, &read(0), &[], false);
        answered += rig.answers().len();
    }
    assert!((1..30).contains(&answered), "{answered} at once");
    for _ in 0..500 {
        let before = answered;
        rig.wait(MS);
        answered += rig.answers().len();
        assert!(answered - before <= 1, "at 100 each second, one in a millisecond at most");
    }
    assert_eq!(answered, 30);
}

#[test]
fn a_write_gets_its_buffer_when_its_time_has_come() {
    let mut rig = Rig::with_limits(4, QosConfig { write_iops: Some(10), ..QosConfig::default() });
    for command_id in 0..4 {
        let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
        rig.send(command_id, &write, &block(command_id as u8), command_id % 2 == 0);
    }
    for _ in 0..20 {
        rig.wait(50 * MS);
    }
    let mut statuses = rig.statuses();
    statuses.sort_unstable_by_key(|(command_id, _)| *command_id);
    assert_eq!(statuses, [0, 1, 2, 3].map(|command_id| (command_id, Status::SUCCESS)));
    assert_eq!(rig.commands.slots.busy(), 0);
}
