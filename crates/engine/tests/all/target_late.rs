//! A storage that keeps a write for longer than the target promises: it is counted and shown, also when its host is gone, a
//! measured promise follows it, and a fixed one that the storage does not keep is refused.
//!
//! The storage really stands still: the file system below it is frozen, and thawed again.

use crate::bad_disks::Freezer;
use crate::raw_host::{ENGINES, Give, Host, Kind, NQN, Space, TestTarget, config_of, pattern};
use engine::backend::BackendConfig;
use engine::limits::COMMAND_QUIESCE_MS;
use engine::ring::Engine;
use engine::target::{CommandQuiesce, NamespaceConfig, NamespaceStatus, SubsystemStatus};
use nvme::Status;
use nvme::io::IoCommand;
use prerequisite::{available, wait_until};

const SPACE: Space = Space { nsid: 20, kind: Kind::File, block: 4096 };
const SIZE: u64 = 4 << 20;

fn serve(engine: Engine, freezer: &Freezer, quiesce: CommandQuiesce, quiesce_ms: Option<u16>) -> TestTarget {
    TestTarget::start_with(engine, |config| {
        let path = freezer.disk().join("namespace");
        let backend = BackendConfig::File { path, size: Some(SIZE) };
        let subsystem = &mut config.fabric.subsystems[0];
        subsystem.namespaces = vec![NamespaceConfig::new(SPACE.nsid, backend, SPACE.block)];
        (subsystem.command_quiesce, subsystem.command_quiesce_ms) = (quiesce, quiesce_ms);
    })
}

fn namespace(target: &TestTarget) -> NamespaceStatus {
    target.target().status().namespaces.remove(0)
}

fn subsystem(target: &TestTarget) -> SubsystemStatus {
    target.target().status().subsystems.remove(0)
}

fn promised(host: &mut Host) -> u16 {
    host.admin.identified_controller().command_quiesce_time_ms.get()
}

/// Late changes and others, as Prometheus reads them.
fn late(target: &TestTarget) -> [u64; 2] {
    let text = target.target().metrics().to_prometheus();
    ["change", "other"].map(|kind| {
        let name = "selvedge_storage_late_operations_total";
        let start = format!("{name}{{subsystem=\"{NQN}\",nsid=\"20\",kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
    })
}

#[test]
fn writes_that_outlive_the_promise_are_reported_with_and_without_their_host() {
    for engine in ENGINES {
        let Some(freezer) = available("nothing can be mounted here", Freezer::new()) else { return };
        let target = serve(engine, &freezer, CommandQuiesce::Fixed, Some(100));
        let (host, mut queue) = Host::with_queue(target.address());
        assert_eq!(queue.write(SPACE, 0, &pattern(4096, 1), true).status, Status::SUCCESS);
        let before = late(&target);
        let frozen = freezer.freeze();
        let write = IoCommand::Write { start: 1, blocks: 1, force_unit_access: false };
        let id = queue.submit(write.encode(SPACE.nsid), Give::Capsule(&pattern(4096, 2)));
        wait_until("it is seen", || namespace(&target).late_operations == 1);
        assert!(namespace(&target).oldest_operation_ms >= 100, "{engine:?}");
        let counted = || {
            late(&target).map(|count| count).into_iter().zip(before).map(|(a, b)| a - b).collect::<Vec<_>>()
        };
        assert_eq!(counted(), [1, 0], "{engine:?}");
        // Its host goes; the write does not.
        let (other, mut left) = Host::with_queue(target.address());
        left.submit(write.encode(SPACE.nsid), Give::Capsule(&pattern(4096, 3)));
        wait_until("the other is seen too", || namespace(&target).late_operations == 2);
        drop((left, other));
        wait_until("one host is left", || {
            let controllers = target.target().status().controllers;
            controllers.iter().filter(|controller| !controller.ending).count() == 1
        });
        wait_until("both are older", || namespace(&target).oldest_operation_ms >= 600);
        assert_eq!((namespace(&target).late_operations, counted()), (2, vec![2, 0]), "each is counted once");
        drop(frozen);
        let reply = queue.wait();
        assert_eq!((reply.command_id, reply.status), (id, Status::SUCCESS));
        wait_until("nothing is left", || {
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

#[test]
fn a_measured_promise_follows_the_storage() {
    let Some(freezer) = available("nothing can be mounted here", Freezer::new()) else { return };
    let target = serve(Engine::Automatic, &freezer, CommandQuiesce::Auto, None);
    let (mut host, mut other) = (Host::connect(target.address()), Host::connect(target.address()));
    let mut queue = host.io(1);
    assert_eq!(queue.write(SPACE, 0, &pattern(4096, 1), true).status, Status::SUCCESS);
    assert_eq!(promised(&mut host), COMMAND_QUIESCE_MS);
    let before = late(&target);
    let frozen = freezer.freeze();
    let write = IoCommand::Write { start: 1, blocks: 1, force_unit_access: false };
    queue.submit(write.encode(SPACE.nsid), Give::Capsule(&pattern(4096, 2)));
    // It changes while the write is still there: a host that connects now has to wait for it.
    wait_until("the promise follows", || promised(&mut other) > COMMAND_QUIESCE_MS + 500);
    // Its own host still goes by the earlier value.
    wait_until("it is late", || namespace(&target).late_operations == 1);
    assert_eq!(late(&target), [before[0] + 1, before[1]]);
    drop(frozen);
    assert_eq!(queue.wait().status, Status::SUCCESS);
    let now = subsystem(&target);
    assert!(now.longest_operation_ms >= u64::from(COMMAND_QUIESCE_MS), "{now:?}");
    let expected = 2 * now.longest_operation_ms + 500;
    assert!((expected..=expected + 2).contains(&promised(&mut host).into()), "{now:?}");
    drop((queue, host, other));
    drop(target);
}

#[test]
fn a_promise_that_the_storage_does_not_keep_is_refused() {
    let target = TestTarget::start(Engine::Automatic);
    // A loop device's file system has no time-out of its own here, and a delay is one.
    let refused = target.try_apply(|fabric| {
        fabric.subsystems[0].command_quiesce_ms = Some(3000);
        config_of(fabric, 7).write_delay_ms = 2501;
    });
    let what = refused.unwrap_err().to_string();
    assert!(what.contains("3000 ms cannot be kept") && what.contains("set 3001 ms or more"), "{what}");
    target.apply(|fabric| fabric.subsystems[0].command_quiesce = CommandQuiesce::Auto);
    let refused = target.try_apply(|fabric| fabric.subsystems[0].command_quiesce_ms = Some(3000));
    assert!(refused.unwrap_err().to_string().contains("measured (auto) cannot be fixed, too"));
}
