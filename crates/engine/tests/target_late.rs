//! A storage that keeps a write for longer than the target promises: it is counted and shown, also when its host is gone.
//!
//! The storage really stands still: the file system below it is frozen, and thawed again.

mod bad_disks;
mod raw_host;

use bad_disks::Freezer;
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{NamespaceConfig, NamespaceStatus, SubsystemStatus};
use nvme::Status;
use nvme::io::IoCommand;
use raw_host::{ENGINES, Give, Host, Kind, NQN, Space, TestTarget, eventually, pattern};

const SPACE: Space = Space { nsid: 20, kind: Kind::File, block: 4096 };
const SIZE: u64 = 4 << 20;

fn serve(engine: Engine, freezer: &Freezer, quiesce_ms: u16) -> TestTarget {
    TestTarget::start_with(engine, |config| {
        let path = freezer.disk().join("namespace");
        let backend = BackendConfig::File { path, size: Some(SIZE) };
        let subsystem = &mut config.fabric.subsystems[0];
        subsystem.namespaces = vec![NamespaceConfig::new(SPACE.nsid, backend, SPACE.block)];
        subsystem.command_quiesce_ms = Some(quiesce_ms);
    })
}

fn namespace(target: &TestTarget) -> NamespaceStatus {
    target.target().status().namespaces.remove(0)
}

fn subsystem(target: &TestTarget) -> SubsystemStatus {
    target.target().status().subsystems.remove(0)
}

/// Late changes and others, as Prometheus is told.
fn late(target: &TestTarget) -> [u64; 2] {
    let text = target.target().metrics().to_prometheus();
    ["change", "other"].map(|kind| {
        let name = "selvedge_storage_late_operations_total";
        let start = format!("{name}{{subsystem=\"{NQN}\",nsid=\"20\",kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
    })
}

#[test]
fn writes_that_outlive_the_promise_are_told_with_and_without_their_host() {
    for engine in ENGINES {
        let freezer = match Freezer::new() {
            Ok(freezer) => freezer,
            Err(reason) => return println!("not tested, for nothing can be mounted here: {reason}"),
        };
        let target = serve(engine, &freezer, 100);
        let host = Host::connect(target.address());
        let mut queue = host.io(1);
        assert_eq!(queue.write(SPACE, 0, &pattern(4096, 1), true).status, Status::SUCCESS);
        let before = late(&target);
        freezer.stand_still(true);
        let write = IoCommand::Write { start: 1, blocks: 1, force_unit_access: false };
        let id = queue.submit(write.encode(SPACE.nsid), Give::Capsule(&pattern(4096, 2)));
        eventually("it is seen", || namespace(&target).late_operations == 1);
        assert!(namespace(&target).oldest_operation_ms >= 100, "{engine:?}");
        let counted = || {
            late(&target).map(|count| count).into_iter().zip(before).map(|(a, b)| a - b).collect::<Vec<_>>()
        };
        assert_eq!(counted(), [1, 0], "{engine:?}");
        // Its host goes; the write does not.
        let other = Host::connect(target.address());
        let mut left = other.io(1);
        left.submit(write.encode(SPACE.nsid), Give::Capsule(&pattern(4096, 3)));
        eventually("the other is seen too", || namespace(&target).late_operations == 2);
        drop((left, other));
        eventually("one host is left", || target.target().status().controllers.len() == 1);
        std::thread::sleep(std::time::Duration::from_millis(600));
        assert_eq!((namespace(&target).late_operations, counted()), (2, vec![2, 0]), "each is counted once");
        freezer.stand_still(false);
        let reply = queue.wait();
        assert_eq!((reply.command_id, reply.status), (id, Status::SUCCESS));
        eventually("nothing is left", || {
            let now = namespace(&target);
            (now.late_operations, now.oldest_operation_ms) == (0, 0)
        });
        assert_eq!(counted(), [2, 0], "{engine:?}");
        assert!(subsystem(&target).longest_operation_ms >= 600, "{engine:?}");
        assert_eq!(subsystem(&target).command_quiesce_ms, 100, "what is fixed stays");
        drop((queue, host));
        drop(target);
    }
}
