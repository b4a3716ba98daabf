//! Limits of a namespace, on virtual time, and of a connection's buffers.

use std::time::Duration;

use nvme::Status;
use nvme::io::{CopyFormat, Fused, IoCommand, encode_copy_ranges};

use super::rig::{BLOCK, Rig, block};
use crate::backend::BackendConfig;
use crate::limits::{BUFFER_LENGTH_MAX, CONNECTION_BUFFER_BYTES_MAX};
use crate::target::config::{NamespaceConfig, QosConfig};
use crate::target::telemetry::Operation;

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

#[test]
fn writes_that_are_held_begin_when_they_are_let_go_or_the_time_is_over() {
    let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
    for qos in [QosConfig::default(), QosConfig { iops: Some(1_000_000), ..QosConfig::default() }] {
        for is_let_go in [true, false] {
            let mut rig = Rig::with_limits(4, qos);
            let until = rig.now.after(10_000 * MS);
            rig.namespace.hold_writes(until.0);
            // Other settings meanwhile do not end it; it begins without them, too.
            if is_let_go {
                let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 4 << 12 }, 4096);
                rig.namespace.configure(&NamespaceConfig { qos, ..namespace });
            }
            rig.send(1, &write, &block(7), true);
            rig.send(2, &IoCommand::Flush, &[], false);
            rig.send(3, &read(0), &[], false);
            let answered: Vec<u16> = rig.statuses().into_iter().map(|(command_id, _)| command_id).collect();
            assert_eq!(answered, [2, 3], "what writes nothing goes on");
            rig.wait(9_999 * MS);
            assert!(rig.statuses().is_empty() && rig.memory(0, 1) == [0]);
            if is_let_go {
                rig.namespace.hold_writes(0);
            }
            rig.wait(MS);
            assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
            assert_eq!(rig.memory(0, 1), [7]);
        }
    }
}

/// Times of a kind of commands by stage, in milliseconds, and all of it.
fn stages(rig: &Rig, operation: Operation) -> ([u64; 5], u64) {
    let counts = rig.counts();
    let counts = &counts.operations[operation as usize];
    let ms = |ns: u64| ns / 1_000_000;
    (counts.stages_ns().map(ms), ms(counts.latency.sum_ns))
}

#[test]
fn the_time_of_a_command_is_counted_by_stage() {
    let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
    // Ten seconds for the limits, then three until its data has come.
    let mut rig = Rig::with_limits(4, QosConfig::default());
    rig.data_takes = 3_000 * MS;
    rig.namespace.hold_writes(rig.now.after(10_000 * MS).0);
    rig.send(1, &write, &block(1), false);
    rig.wait(10_000 * MS);
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS)]);
    assert_eq!(stages(&rig, Operation::Write), ([3_000, 10_000, 0, 0, 0], 13_000));
    // Two for its data, five at the disk; and a read seven.
    let mut rig = Rig::on_disk(4);
    rig.data_takes = 2_000 * MS;
    rig.send(1, &write, &block(1), false);
    rig.wait(5_000 * MS);
    rig.store(&[]);
    rig.send(2, &read(0), &[], false);
    rig.wait(7_000 * MS);
    rig.store(&block(1));
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    assert_eq!(stages(&rig, Operation::Write), ([2_000, 0, 0, 5_000, 0], 7_000));
    assert_eq!(stages(&rig, Operation::Read), ([0, 0, 0, 7_000, 0], 7_000));
}

/// The first of a pair waits for the second, and other commands wait for both: that time belongs to
/// no other stage.
#[test]
fn what_is_left_of_a_commands_time_is_others() {
    let mut rig = Rig::on_memory(4);
    let compare = IoCommand::Compare { start: 0, blocks: 1 };
    rig.send_fused(1, &compare, (&block(0), true), Fused::First);
    rig.wait(4_000 * MS);
    let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
    rig.send_fused(2, &write, (&block(1), true), Fused::Second);
    rig.read_messages();
    assert_eq!(rig.statuses(), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    assert_eq!(stages(&rig, Operation::Compare), ([0, 0, 0, 0, 4_000], 4_000));
}

/// Sends as many of these commands as a queue has entries, and lets the disk end one operation after the other. No more of them
/// have buffers there than a connection may hold.
fn all_at_once(rig: &mut Rig, command: &IoCommand, list: &[u8]) {
    const COMMANDS: u16 = 32;
    let most = CONNECTION_BUFFER_BYTES_MAX / BUFFER_LENGTH_MAX;
    for command_id in 1..=COMMANDS {
        rig.send(command_id, command, list, !list.is_empty());
    }
    assert!(rig.stored_left() > 1, "some work beside each other");
    rig.act(|commands, ctx| commands.abort(COMMANDS, ctx).into_iter().collect());
    assert_eq!(rig.statuses(), [(COMMANDS, Status::ABORT_REQUESTED)], "one that waits can be taken back");
    let (zeroes, mut ended) = (vec![0; BUFFER_LENGTH_MAX], Vec::new());
    while rig.stored_left() > 0 {
        assert!(rig.stored_left() <= most, "{command:?}: {} at the disk", rig.stored_left());
        rig.store(&zeroes);
        ended.extend(rig.statuses());
    }
    ended.sort_unstable_by_key(|(command_id, _)| *command_id);
    let expected: Vec<(u16, Status)> = (1..COMMANDS).map(|id| (id, Status::SUCCESS)).collect();
    assert_eq!(ended, expected);
    assert_eq!(rig.commands.slots.busy(), 0);
}

#[test]
fn what_the_disk_reads_for_no_host_counts_as_buffers_of_its_connection() {
    let blocks = (BUFFER_LENGTH_MAX / BLOCK) as u32;
    let mut rig = Rig::on_disk(4 * u64::from(blocks));
    // In two pieces each.
    all_at_once(&mut rig, &IoCommand::Verify { start: 0, blocks: 2 * blocks }, &[]);
    let (start, format) = (2 * u64::from(blocks), CopyFormat::Format0);
    let copy = IoCommand::Copy { start, ranges: 1, format, force_unit_access: false };
    all_at_once(&mut rig, &copy, &encode_copy_ranges(format, &[(0, 2 * blocks)]));
}
