//! A storage that loses what it has acknowledged: the sync that learns of it fails, and from then
//! on no write is acknowledged as durable, on any queue or to any host, until an operator reopens
//! the namespace.
//!
//! The storage is real: a file in the page cache of a file system on a loop device, whose own file has no room for what is
//! written back. The kernel reports that once.

use crate::bad_disks::{LyingDisk, text};
use crate::raw_host::{
    Client, ENGINES, Give, HOST_NQN, Host, Kind, NQN, Options, Space, TestTarget, pattern,
};
use engine::backend::BackendConfig;
use engine::target::{NamespaceConfig, NamespaceState, TargetError};
use nvme::Status;
use nvme::fabrics::{configuration, controller_status, property};
use nvme::features::{AsyncEvent, AsyncEventConfig, FeatureId};
use nvme::identify::Cns;
use nvme::identify::bits::attributes;
use nvme::io::{CopyFormat, IoCommand, encode_copy_ranges, encode_ranges};
use nvme::log_page::critical_warning;
use prerequisite::{available, wait_until};

/// The namespace that fails. Its blocks are smaller than what O_DIRECT takes there, so that it is in the page cache.
const SPACE: Space = Space { nsid: 20, kind: Kind::File, block: 512 };
const SIZE: u64 = 24 << 20;
const REFUSED: Status = Status::WRITE_FAULT.do_not_retry();

fn serve(engine: engine::ring::Engine, disk: &LyingDisk) -> TestTarget {
    TestTarget::start_with(engine, |config| {
        let backend = BackendConfig::File { path: disk.file(), size: Some(SIZE) };
        let namespace = NamespaceConfig::new(SPACE.nsid, backend, SPACE.block);
        config.fabric.subsystems[0].namespaces.push(namespace);
    })
}

fn flush(queue: &mut Client) -> Status {
    queue.run(IoCommand::Flush.encode(SPACE.nsid), Give::Nothing).status
}

fn write(queue: &mut Client, durable: bool) -> Status {
    let command = IoCommand::Write { start: 0, blocks: 8, force_unit_access: durable };
    queue.run(command.encode(SPACE.nsid), Give::Asked(&pattern(4096, 9))).status
}

/// The namespace as a host sees it: whether it is read-only, and what the health log warns of.
fn seen(host: &mut Host) -> (bool, u8) {
    let identify = host.admin.identified_namespace(SPACE.nsid);
    (identify.attributes & attributes::WRITE_PROTECTED != 0, host.admin.smart().critical_warning)
}

/// All that changes blocks, or promises that they last.
fn changes() -> Vec<(IoCommand, Vec<u8>)> {
    let (start, blocks, force_unit_access, format) = (0, 8, false, CopyFormat::Format0);
    vec![
        (IoCommand::Write { start, blocks, force_unit_access }, pattern(4096, 1)),
        (IoCommand::Write { start, blocks, force_unit_access: true }, pattern(4096, 1)),
        (IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate: true }, Vec::new()),
        (IoCommand::WriteUncorrectable { start, blocks }, Vec::new()),
        (IoCommand::DatasetManagement { ranges: 1, deallocate: true }, encode_ranges(&[(0, 8)])),
        (
            IoCommand::Copy { start: 64, ranges: 1, format, force_unit_access },
            encode_copy_ranges(format, &[(0, 8)]),
        ),
        (IoCommand::Flush, Vec::new()),
    ]
}

/// Has writes of both hosts acknowledged for which there is no room, and lost with a Flush. The disk is well afterwards.
fn lose_writes(disk: &LyingDisk, queues: &mut [Client; 2]) {
    disk.take_room(true);
    for (number, queue) in queues.iter_mut().enumerate() {
        for piece in 0..8 {
            let start = (1 + number as u64 * 8 + piece) * 2048;
            let reply = queue.write(SPACE, start, &pattern(1 << 20, start), false);
            assert_eq!(reply.status, Status::SUCCESS, "the page cache takes it");
        }
    }
    let first = flush(&mut queues[0]);
    assert_eq!(first.without_flags(), Status::WRITE_FAULT);
    // From here on a sync by anybody would succeed.
    disk.take_room(false);
}

/// No host changes anything, by whatever command.
fn refuses_changes(queues: &mut [Client; 2]) {
    assert_eq!(flush(&mut queues[1]), REFUSED, "the other host's writes are lost, too");
    assert_eq!(flush(&mut queues[0]), REFUSED, "a retry saves nothing");
    for (command, data) in changes() {
        for in_capsule in [true, false] {
            for queue in queues.iter_mut() {
                let give = if data.is_empty() {
                    Give::Nothing
                } else {
                    crate::raw_host::host::give(&data, in_capsule)
                };
                let status = queue.run(command.encode(SPACE.nsid), give).status;
                assert_eq!(status, REFUSED, "{command:?}");
            }
        }
    }
}

/// State of the namespace, and the reason, as the status says.
fn state(target: &TestTarget) -> (NamespaceState, Option<String>) {
    let namespaces = target.target().status().namespaces;
    let known = namespaces.into_iter().find(|known| known.nsid == SPACE.nsid).unwrap();
    (known.state, known.reason)
}

fn exposed(target: &TestTarget, value: u8) {
    let line = format!("selvedge_namespace_failed{{subsystem=\"{NQN}\",nsid=\"20\"}} {value}\n");
    assert!(target.target().metrics().to_prometheus().contains(&line));
}

#[test]
fn after_a_failed_sync_nothing_is_written_until_the_namespace_is_reopened() {
    for engine in ENGINES {
        let Some(disk) = available("nothing can be mounted here", LyingDisk::new()) else { return };
        let target = serve(engine, &disk);
        let other = Options { host_nqn: format!("{HOST_NQN}-2"), host_id: [8; 16], ..Options::default() };
        let mut hosts = [Host::connect(target.address()), Host::connect_with(target.address(), other)];
        let config = AsyncEventConfig::NAMESPACE_ATTRIBUTE | u32::from(critical_warning::RELIABILITY);
        for host in &mut hosts {
            host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, config, false, Give::Nothing);
        }
        let mut queues = [hosts[0].io(1), hosts[1].io(1)];
        assert_eq!(write(&mut queues[0], false), Status::SUCCESS);
        assert_eq!((flush(&mut queues[0]), flush(&mut queues[1])), (Status::SUCCESS, Status::SUCCESS));
        assert_eq!(seen(&mut hosts[0]), (false, 0));
        assert!(target.target().reopen(NQN, SPACE.nsid).is_err(), "nothing has failed");

        lose_writes(&disk, &mut queues);
        refuses_changes(&mut queues);
        // Reads go on, and so do others.
        assert_eq!(queues[1].read(SPACE, 0, 8).data, pattern(4096, 9));
        let memory = crate::raw_host::SPACES[0];
        assert_eq!(queues[0].write(memory, 0, &pattern(4096, 1), true).status, Status::SUCCESS);

        for host in &mut hosts {
            assert_eq!(seen(host), (true, critical_warning::RELIABILITY));
        }
        let (state_now, reason) = state(&target);
        assert_eq!(state_now, NamespaceState::Failed);
        let reason = reason.unwrap();
        assert!(
            reason.starts_with("fdatasync failed: ") && reason.ends_with(&text(&disk.file())),
            "{reason}"
        );
        exposed(&target, 1);
        assert_eq!(target.target().failures().len(), 1);
        events(&mut hosts);

        let gone = target.target().reopen(NQN, 19).unwrap_err();
        assert!(matches!(gone, TargetError::Reopen { nsid: 19, .. }), "{gone}");
        target.target().reopen(NQN, SPACE.nsid).unwrap();
        assert_eq!((state(&target), target.target().failures().len()), ((NamespaceState::Ready, None), 0));
        exposed(&target, 0);
        for (host, queue) in hosts.iter_mut().zip(&mut queues) {
            assert_eq!(seen(host), (false, 0));
            assert_eq!(
                (write(queue, false), flush(queue), write(queue, true)),
                (Status::SUCCESS, Status::SUCCESS, Status::SUCCESS)
            );
        }
        drop((queues, hosts));
    }
}

/// Shuts the host's controller down; true if it reports a fatal error then (CSTS.CFS).
fn shutdown_fails(host: &mut Host) -> bool {
    let value = configuration::ENABLE
        | configuration::SUBMISSION_ENTRY_SIZE
        | configuration::COMPLETION_ENTRY_SIZE
        | configuration::SHUTDOWN_NORMAL;
    assert_eq!(host.admin.set_property(property::CONFIGURATION, value.into()).status, Status::SUCCESS);
    let mut status = 0;
    wait_until("the shutdown is complete", || {
        status = host.admin.property(property::STATUS, false).result as u32;
        status & controller_status::SHUTDOWN_MASK == controller_status::SHUTDOWN_COMPLETE
    });
    status & controller_status::FATAL != 0
}

#[test]
fn a_shutdown_that_cannot_make_writes_durable_reports_a_fatal_error() {
    for engine in ENGINES {
        let Some(disk) = available("nothing can be mounted here", LyingDisk::new()) else { return };
        let target = serve(engine, &disk);
        let connect = || Host::with_queue(target.address());
        let (mut first, mut queue) = connect();
        assert_eq!(write(&mut queue, false), Status::SUCCESS);
        assert!(!shutdown_fails(&mut first), "the disk is well");
        // What the page cache has taken is written by the shutdown's own Flush, and lost.
        let (mut second, mut queue) = connect();
        disk.take_room(true);
        for piece in 1..9 {
            let reply = queue.write(SPACE, piece * 2048, &pattern(1 << 20, piece), false);
            assert_eq!(reply.status, Status::SUCCESS, "the page cache takes it");
        }
        assert!(shutdown_fails(&mut second), "there is no room for the writes");
        disk.take_room(false);
        // From here on a sync succeeds, and the writes stay lost.
        assert!(shutdown_fails(&mut connect().0), "writes of this subsystem are lost");
        target.target().reopen(NQN, SPACE.nsid).unwrap();
        assert!(!shutdown_fails(&mut connect().0), "an operator has reopened the namespace");
    }
}

/// A namespace that hosts know by another name is another disk to them: Linux takes the one that it has away.
#[test]
fn a_reopened_namespace_keeps_its_name_where_only_its_place_distinguishes_it() {
    let Some(disk) = available("nothing can be mounted here", LyingDisk::nameless()) else { return };
    let target = serve(ENGINES[0], &disk);
    let mut hosts =
        [[7; 16], [8; 16]].map(|host_id| Options { host_id, ..Options::default() }).map(|options| {
            let host_nqn = format!("{HOST_NQN}-{}", options.host_id[0]);
            Host::connect_with(target.address(), Options { host_nqn, ..options })
        });
    let mut queues = [hosts[0].io(1), hosts[1].io(1)];
    // NGUID and UUID.
    let mut names =
        |host: usize| hosts[host].admin.identified(SPACE.nsid, Cns::NAMESPACE_DESCRIPTORS)[..40].to_vec();
    let before = names(0);
    assert_eq!(before, names(1));
    lose_writes(&disk, &mut queues);
    assert_eq!(names(0), before);
    target.target().reopen(NQN, SPACE.nsid).unwrap();
    assert_eq!((names(0), names(1)), (before.clone(), before));
    assert_eq!((write(&mut queues[1], false), flush(&mut queues[1])), (Status::SUCCESS, Status::SUCCESS));
    drop((queues, hosts));
}

/// The operator says by reopening that the storage is in order, and may have put another file there.
#[test]
fn a_file_that_was_put_in_the_place_of_a_failed_one_is_another_disk() {
    let Some(disk) = available("nothing can be mounted here", LyingDisk::new()) else { return };
    let target = serve(ENGINES[0], &disk);
    let mut host = Host::connect(target.address());
    let mut queues = [host.io(1), host.io(2)];
    let mut name = || host.admin.identified(SPACE.nsid, Cns::NAMESPACE_DESCRIPTORS)[..40].to_vec();
    let before = name();
    let spoil = IoCommand::WriteUncorrectable { start: 0, blocks: 8 };
    assert_eq!(queues[0].run(spoil.encode(SPACE.nsid), Give::Nothing).status, Status::SUCCESS);
    assert!(!queues[0].read(SPACE, 0, 8).status.is_success());
    lose_writes(&disk, &mut queues);
    let new = disk.file().with_extension("new");
    std::fs::File::create(&new).and_then(|file| file.set_len(SIZE)).unwrap();
    std::fs::rename(&new, disk.file()).unwrap();
    target.target().reopen(NQN, SPACE.nsid).unwrap();
    assert_ne!(name(), before);
    let read = queues[0].read(SPACE, 0, 8);
    assert_eq!(
        (read.status, read.data),
        (Status::SUCCESS, vec![0; 8 * 512]),
        "the marks were the other one's"
    );
}

/// Takes the events of both hosts: the namespace's change, and the critical warning.
fn events(hosts: &mut [Host; 2]) {
    for host in hosts {
        let request = || nvme::SubmissionEntry::new(nvme::command::admin_opcode::ASYNC_EVENT_REQUEST, 0);
        let mut found: Vec<u32> =
            (0..2).map(|_| host.admin.run(request(), Give::Nothing).result as u32).collect();
        found.sort_unstable();
        let mut expected = [AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED, AsyncEvent::RELIABILITY_DEGRADED]
            .map(|event| event.encode());
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_durable_write_that_fails_counts_like_a_sync() {
    for engine in ENGINES {
        let Some(disk) = available("nothing can be mounted here", LyingDisk::new()) else { return };
        let target = serve(engine, &disk);
        let (host, mut queue) = Host::with_queue(target.address());
        disk.take_room(true);
        let mut status = Status::SUCCESS;
        for piece in 0..16 {
            let command = IoCommand::Write { start: piece * 2048, blocks: 2048, force_unit_access: true };
            status = queue.run(command.encode(SPACE.nsid), Give::Asked(&pattern(1 << 20, piece))).status;
            if !status.is_success() {
                break;
            }
        }
        disk.take_room(false);
        let failed = status.without_flags();
        // Where the system says that there is no room, nothing was acknowledged that could be lost.
        if failed == Status::CAPACITY_EXCEEDED {
            assert_eq!(flush(&mut queue), Status::SUCCESS, "{engine:?}");
            continue;
        }
        assert_eq!(failed, Status::WRITE_FAULT, "{engine:?}");
        assert_eq!((write(&mut queue, false), flush(&mut queue)), (REFUSED, REFUSED), "{engine:?}");
        target.target().reopen(NQN, SPACE.nsid).unwrap();
        assert_eq!(
            (write(&mut queue, false), flush(&mut queue)),
            (Status::SUCCESS, Status::SUCCESS),
            "{engine:?}"
        );
        drop((queue, host));
    }
}
