//! Limits on bytes per second: which commands they hold back, also those that move no data of the host's. No test looks
//! at a clock: under a limit of one byte per second the second command of a kind waits for hours, or does not wait at all.

use crate::raw_host::admin::abort;
use crate::raw_host::{Client, ENGINES, Give, Host, SPACES, Space, TestTarget, assert_status};
use engine::target::QosConfig;
use nvme::Status;
use nvme::io::{CopyFormat, IoCommand, encode_copy_ranges, encode_ranges};
use prerequisite::wait_until;

/// Limits that a command has to come under.
#[derive(Clone, Copy)]
enum Counts {
    Read,
    Written,
    Both,
}

/// A command of each kind that is counted, with its data.
fn commands(space: Space) -> Vec<(&'static str, IoCommand, Vec<u8>, Counts)> {
    let per_page = 4096 / space.block;
    let at = |page: u64| page * u64::from(per_page);
    let (start, blocks, format) = (at(3), per_page, CopyFormat::Format0);
    let copy = IoCommand::Copy { start: at(8), ranges: 1, format, force_unit_access: false };
    let zeroes = IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate: false };
    let deallocate = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
    let list = encode_ranges(&[(start, blocks)]);
    vec![
        ("Copy", copy, encode_copy_ranges(format, &[(start, blocks)]), Counts::Both),
        ("Write Zeroes", zeroes, Vec::new(), Counts::Written),
        ("Dataset Management", deallocate, list, Counts::Written),
        ("Compare", IoCommand::Compare { start, blocks }, vec![0; 4096], Counts::Read),
        ("Verify", IoCommand::Verify { start, blocks }, Vec::new(), Counts::Read),
        // Last: its blocks cannot be read afterwards.
        ("Write Uncorrectable", IoCommand::WriteUncorrectable { start, blocks }, Vec::new(), Counts::Written),
    ]
}

fn submit(queue: &mut Client, space: Space, command: IoCommand, data: &[u8], in_capsule: bool) -> u16 {
    let give = match (data, in_capsule) {
        ([], _) => Give::Nothing,
        (data, true) => Give::Capsule(data),
        (data, false) => Give::Asked(data),
    };
    queue.submit(command.encode(space.nsid), give)
}

/// True if the command waits for its limit: then it is aborted. Else it has ended by itself.
fn waits(host: &mut Host, queue: &mut Client, id: u16, data_is_asked: bool, limited: bool) -> bool {
    if !limited {
        return !queue.wait().status.is_success();
    }
    if data_is_asked {
        // The queue answers the request for the data while it waits for what comes after.
        let flush = queue.submit(IoCommand::Flush.encode(SPACES[0].nsid), Give::Nothing);
        let reply = queue.wait();
        if reply.command_id == id {
            return false;
        }
        assert_eq!((reply.command_id, reply.status), (flush, Status::SUCCESS));
    }
    wait_until("the command waits", || {
        let abort = abort(1, id);
        host.admin.run(abort, Give::Nothing).result & 1 == 0
    });
    let reply = queue.wait();
    assert_eq!(reply.command_id, id);
    reply.status.without_flags() == Status::ABORT_REQUESTED
}

#[test]
fn limits_on_bytes_hold_back_what_moves_bytes_inside_the_target() {
    const ONE: Option<u64> = Some(1);
    let limits = [
        ("bytes", QosConfig { bytes: ONE, ..QosConfig::default() }),
        ("read_bytes", QosConfig { read_bytes: ONE, ..QosConfig::default() }),
        ("write_bytes", QosConfig { write_bytes: ONE, ..QosConfig::default() }),
    ];
    for engine in ENGINES {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        for space in SPACES {
            let set = |qos: QosConfig| drop(target.apply_to(space.nsid, |namespace| namespace.qos = qos));
            for (name, command, data, counts) in commands(space) {
                for (limit, qos) in limits {
                    let limited = match counts {
                        Counts::Both => true,
                        Counts::Read => limit != "write_bytes",
                        Counts::Written => limit != "read_bytes",
                    };
                    for in_capsule in [true, false] {
                        let what = format!("{name} on {space:?} under {limit}, in capsule: {in_capsule}");
                        // The same limits once more would give no new allowance, other ones do.
                        set(QosConfig::default());
                        set(qos);
                        let first = submit(&mut queue, space, command, &data, in_capsule);
                        let reply = queue.wait();
                        assert_eq!(reply.command_id, first, "{what}");
                        assert_status(reply.status, Status::SUCCESS, &what);
                        let second = submit(&mut queue, space, command, &data, in_capsule);
                        let asked = !in_capsule && !data.is_empty();
                        assert_eq!(waits(&mut host, &mut queue, second, asked, limited), limited, "{what}");
                    }
                }
            }
            set(QosConfig::default());
        }
    }
}
