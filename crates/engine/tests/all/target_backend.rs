//! The backend of a namespace may be wrong, in use, full or cut short: the error says why, and
//! others do not suffer.

use prerequisite::{LoopDevice, available, run, wait_until};
use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, SPACES, Space, TestTarget, assert_status, configure, pattern,
    subsystem,
};
use engine::backend::{BackendConfig, BackendError};
use engine::initiator::{ConnectOptions, Controller, Extent};
use engine::ring::Engine;
use engine::target::{NamespaceConfig, PortConfig, Target, TargetConfig, TargetError};
use nvme::Status;
use nvme::io::IoCommand;
use nvme::lba_status::{GetLbaStatus, LbaStatusDescriptor, LbaStatusList, condition};
use tempfile::TempDir;
use zerocopy::FromBytes as _;

/// A port that is free now, and the configuration of a target there with one namespace.
fn config(backend: BackendConfig, block_size: u32) -> TargetConfig {
    let free = prerequisite::free_address();
    let good = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 512);
    let namespace = NamespaceConfig::new(2, backend, block_size);
    let mut config =
        configure(Engine::Automatic, vec![subsystem(crate::raw_host::NQN, vec![good, namespace])]);
    config.fabric.ports = vec![PortConfig::new(1, free)];
    config
}

/// Tries to start; gives the error, its text without the namespace's name in front, and sees that nothing listens.
fn refusal(config: &TargetConfig) -> (BackendError, String) {
    let error = Target::start(config).expect_err("it cannot start");
    let address = config.fabric.ports[0].address.to_socket_addr();
    assert!(TcpListener::bind(address).is_ok(), "nothing listens on {address}");
    let text = error.to_string();
    let Some(text) = text.strip_prefix(&format!("namespace 2 of {}: ", crate::raw_host::NQN)) else {
        panic!("{text:?} names the namespace");
    };
    let text = text.to_owned();
    match error {
        TargetError::Namespace { nsid: 2, source, .. } => (source, text),
        other => panic!("{other:?}"),
    }
}

fn file(path: &Path, size: Option<u64>) -> BackendConfig {
    BackendConfig::File { path: path.to_owned(), size }
}

fn block(path: &Path) -> BackendConfig {
    BackendConfig::Block { path: path.to_owned() }
}

#[test]
fn a_missing_file_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing");
    let (error, text) = refusal(&config(file(&path, None), 512));
    assert!(matches!(error, BackendError::Open { .. }));
    assert!(text.starts_with(&format!("{}: No such file or directory", path.display())), "{text}");
    assert!(
        text.ends_with(&format!("; create it, or give a size (file:{},size=1g)", path.display())),
        "{text}"
    );
    assert!(!path.exists(), "nothing was made");
    let (error, _) = refusal(&config(block(&path), 512));
    assert!(matches!(error, BackendError::Open { .. }));
    let below = path.join("below/it");
    let (error, text) = refusal(&config(file(&below, Some(1 << 20)), 512));
    assert!(matches!(error, BackendError::Open { .. }), "a folder that is not there");
    assert!(text.ends_with(&format!("; the folder {} is missing: create it", path.display())), "{text}");
    for (device, what) in [
        ("/dev/zvol/no-such-pool/vm", "; there is no such volume: is its pool imported?"),
        ("/dev/no-such-device", "; there is no such device: is it attached?"),
    ] {
        for backend in [block(Path::new(device)), file(Path::new(device), None)] {
            let (_, text) = refusal(&config(backend, 512));
            assert!(text.ends_with(what), "{text}");
        }
    }
}

#[test]
fn an_image_that_is_made_is_its_owners_alone_and_one_that_was_there_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let made = folder.path().join("made");
    drop(Target::start(&config(file(&made, Some(1 << 20)), 512)).unwrap());
    assert_eq!(mode(&made), 0o600, "others would read what hosts wrote");
    // The operator's own, also by a link.
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o644)).unwrap();
    let link = folder.path().join("link");
    symlink(&made, &link).unwrap();
    for path in [&made, &link] {
        drop(Target::start(&config(file(path, Some(1 << 20)), 512)).unwrap());
        assert_eq!(mode(&made), 0o644);
    }
    // A link to nothing is not the target's to follow: it would make a file wherever an attacker wants one.
    let nowhere = folder.path().join("nowhere");
    symlink(folder.path().join("elsewhere"), &nowhere).unwrap();
    let (_, text) = refusal(&config(file(&nowhere, Some(1 << 20)), 512));
    assert!(text.contains("nowhere: it is a link that leads nowhere"), "{text}");
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn a_file_too_small_is_reported_with_both_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let (error, text) = refusal(&config(file(&path, Some(2 << 20)), 512));
    assert!(
        matches!(error, BackendError::TooSmall { length: 1_048_576, wanted: 2_097_152, .. }),
        "{error:?}"
    );
    let name = path.display();
    let expected = format!(
        "{name} has 1048576 bytes, less than the 2097152 of the namespace; grow it with `truncate -s 2097152`"
    );
    assert_eq!(text, expected);
    for (length, block_size) in [(0, 512), (511, 512), (512, 4096), (4095, 4096)] {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        let (error, _) = refusal(&config(file(&path, None), block_size));
        assert!(matches!(error, BackendError::TooSmall { .. }), "{length} bytes for blocks of {block_size}");
    }
    OpenOptions::new().write(true).open(&path).unwrap().set_len(10_000).unwrap();
    let target = Target::start(&config(file(&path, None), 4096)).unwrap();
    let mut host = Host::connect(target.ports()[0]);
    let identify = host.admin.identified_namespace(2);
    assert_eq!(identify.size_blocks.get(), 2, "a part of a block is left out");
}

#[test]
fn a_file_that_grows_is_noticed_without_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grows");
    let set = |length| OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
    File::create(&path).unwrap();
    set(1 << 20);
    let target = Target::start(&config(file(&path, None), 4096)).unwrap();
    let mut host = Host::connect(target.ports()[0]);
    let mut blocks = || host.admin.identified_namespace(2).size_blocks.get();
    assert!(!target.notice_growth().unwrap());
    set((1 << 20) + 4095);
    assert!(!target.notice_growth().unwrap(), "less than a block");
    assert_eq!(blocks(), 256);
    set(2 << 20);
    assert!(target.notice_growth().unwrap());
    assert_eq!(blocks(), 512);
    assert!(!target.notice_growth().unwrap(), "it has grown");
    // What is cut off is found by the next read, and stays an error of that: blocks do not vanish by themselves.
    set(1 << 20);
    assert!(!target.notice_growth().unwrap());
    assert_eq!(blocks(), 512);
    drop(target);
    let target = Target::start(&config(file(&path, Some(1 << 20)), 4096)).unwrap();
    set(2 << 20);
    assert!(!target.notice_growth().unwrap(), "a size that was named stays");
}

#[test]
fn controllers_say_which_blocks_of_a_file_are_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let sparse = File::create(&path).unwrap();
    sparse.set_len(64 << 20).unwrap();
    for at in [16u64 << 20, 32 << 20] {
        sparse.write_all_at(&[1; 8192], at).unwrap();
    }
    sparse.sync_all().unwrap();
    let target = Target::start(&config(file(&path, None), 4096)).unwrap();
    let controller =
        Controller::connect(ConnectOptions::new(target.ports()[0], crate::raw_host::NQN)).unwrap();
    let extent = |nsid, start, blocks| {
        controller.extent(nsid, start, blocks, prerequisite::patience()).unwrap().expect("it says so")
    };
    let hole = |blocks| Extent { blocks, is_allocated: false };
    let data = |blocks| Extent { blocks, is_allocated: true };
    assert_eq!(extent(2, 0, 16_384), hole(4096));
    assert_eq!(extent(2, 4096, 100), data(2));
    assert_eq!(extent(2, 4097, 1), data(1));
    assert_eq!(extent(2, 4098, 100), hole(100));
    assert_eq!(extent(2, 8194, 8190), hole(8190));
    // Memory does not say, and counts as allocated.
    assert_eq!(extent(1, 0, 100), data(100));
    for (nsid, start) in [(2, 16_384), (9, 0)] {
        let refused = controller.extent(nsid, start, 1, prerequisite::patience()).unwrap_err();
        assert!(refused.status().is_some(), "{refused}");
    }
    let list = GetLbaStatus { start: 0, room_bytes: 24, blocks: 0 };
    let reply = controller.admin(list.encode(2), None, 24).unwrap().success("Get LBA Status").unwrap().data;
    let (head, entry) = LbaStatusList::read_from_prefix(&reply).unwrap();
    assert_eq!((head.count.get(), head.condition), (1, condition::INCOMPLETE), "there is room for one");
    let entry = LbaStatusDescriptor::read_from_bytes(entry).unwrap();
    assert_eq!((entry.start.get(), entry.blocks.get()), (4096, 2));
    let room = GetLbaStatus { start: 0, room_bytes: 4096, blocks: 0 };
    let refused = controller.admin(room.encode(2), None, 24).unwrap();
    assert!(!refused.status.is_success(), "the host has less room than it says");
}

#[test]
fn a_wrong_kind_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    for (backend, expected) in [
        (
            block(&path),
            format!("{} is a regular file, not a block device; the backend `file` serves it", path.display()),
        ),
        (block(folder.path()), format!("{} is a folder, not a block device", folder.path().display())),
        (block(Path::new("/dev/null")), "/dev/null is a character device, not a block device".to_owned()),
        (file(folder.path(), None), format!("{} is a folder, not a regular file", folder.path().display())),
        (
            file(Path::new("/dev/null"), Some(1 << 20)),
            "/dev/null is a character device, not a regular file".to_owned(),
        ),
    ] {
        let (error, text) = refusal(&config(backend, 512));
        assert!(matches!(error, BackendError::WrongKind { .. }), "{error:?}");
        assert_eq!(text, expected);
    }
    // Without a size of blocks, the device is asked for its own first.
    let (_, text) = refusal(&config(block(&path), 0));
    let expected = "it is a regular file, not a block device; the backend `file` serves it";
    assert_eq!(text, format!("{}: {expected}", path.display()));
}

#[test]
fn a_file_serves_one_target_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let first = Target::start(&config(file(&path, Some(1 << 20)), 512)).unwrap();
    let (error, text) = refusal(&config(file(&path, None), 512));
    assert!(matches!(error, BackendError::Locked { .. }), "{error:?}");
    let path_shown = path.display();
    assert!(text.starts_with(&format!("{path_shown} is in use by another process")), "{text}");
    assert!(text.ends_with("; end it first, or serve a copy"), "{text}");
    let mut twice = config(file(&path, None), 512);
    twice.fabric.subsystems[0].namespaces[0].backend = file(&folder.path().join("other"), Some(1 << 20));
    twice.fabric.subsystems[0].namespaces[1].backend = file(&folder.path().join("other"), None);
    let error = Target::start(&twice).expect_err("nor for two namespaces");
    assert!(matches!(&error, TargetError::Config(what) if what.contains("other")), "{error:?}");
    first.shutdown();
    Target::start(&config(file(&path, None), 512)).expect("free again").shutdown();
}

#[test]
fn sizes_that_cannot_be_had_are_refused() {
    for (size, shown) in [(0, "0 bytes"), (1, "1 byte"), (100, "100 bytes")] {
        for backend in [BackendConfig::Memory { size }, BackendConfig::Null { size }] {
            let (error, text) = refusal(&config(backend, 512));
            assert!(matches!(error, BackendError::NoBlock { .. }), "{size}: {error:?}");
            assert_eq!(text, format!("a size of {shown} is less than one block of 512 bytes"));
        }
    }
    let (error, _) = refusal(&config(BackendConfig::Memory { size: u64::MAX }, 512));
    assert!(matches!(error, BackendError::Memory { .. }), "{error:?}");
}

#[test]
fn a_block_device_is_served_in_blocks_no_smaller_than_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    File::create(&path).unwrap().set_len(4 << 20).unwrap();
    let Some(device) =
        available("no loop device is available", LoopDevice::attach(&path, &["--sector-size", "4096"]))
    else {
        return;
    };
    let name = device.path().display();
    let (error, text) = refusal(&config(block(device.path()), 512));
    assert!(matches!(error, BackendError::BlockSize { device: 4096, block: 512, .. }), "{error:?}");
    assert_eq!(
        text,
        format!("{name} has 4096-byte sectors, larger than block_size=512; use block_size=4096")
    );
    for engine in ENGINES {
        let target = Target::start(&TargetConfig { engine, ..config(block(device.path()), 4096) }).unwrap();
        let (error, _) = refusal(&config(block(device.path()), 4096));
        assert!(matches!(error, BackendError::Locked { .. }), "{error:?}");
        let host = Host::connect(target.ports()[0]);
        let (mut queue, space) = (host.io(1), Space { nsid: 2, kind: Kind::File, block: 4096 });
        let data = pattern(64 << 10, 4);
        assert_eq!(queue.write(space, 3, &data, false).status, Status::SUCCESS);
        let command =
            IoCommand::WriteZeroes { start: 5, blocks: 2, force_unit_access: true, deallocate: true };
        assert_eq!(queue.run(command.encode(2), Give::Nothing).status, Status::SUCCESS);
        let read = queue.read(space, 3, 16).data;
        assert!(read[..8192] == data[..8192] && read[16384..] == data[16384..], "{engine:?}");
        assert!(read[8192..16384].iter().all(|byte| *byte == 0), "{engine:?}");
        assert_eq!(queue.run(IoCommand::Flush.encode(2), Give::Nothing).status, Status::SUCCESS);
    }
}

#[test]
fn hosts_learn_where_blocks_may_tear_when_the_power_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    File::create(&path).unwrap().set_len(4 << 20).unwrap();
    // Its writes go through the page cache, whatever it says of its sectors.
    let Some(device) =
        available("no loop device is available", LoopDevice::attach(&path, &["--sector-size", "512"]))
    else {
        return;
    };
    for block_size in [512, 4096] {
        let target = Target::start(&config(block(device.path()), block_size)).unwrap();
        let mut host = Host::connect(target.ports()[0]);
        for (nsid, boundary) in [(1, 0), (2, 1)] {
            let identify = host.admin.identified_namespace(nsid);
            let units = [identify.atomic_write_unit, identify.atomic_write_unit_power_fail];
            assert_eq!(units.map(|unit| unit.get()), [0, 0], "a block, as everybody promises");
            let boundaries = [
                identify.atomic_boundary_size,
                identify.atomic_boundary_size_power_fail,
                identify.atomic_boundary_offset,
            ];
            assert_eq!(boundaries.map(|known| known.get()), [boundary; 3], "namespace {nsid}");
            let may_tear =
                target.status().namespaces.iter().find(|known| known.nsid == nsid).unwrap().may_tear;
            assert_eq!(may_tear, boundary > 0);
        }
    }
}

/// A file system of 2 MiB, unmounted at the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let at = folder.path().display().to_string();
        run("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs", &at])?;
        Ok(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, since a test that failed may have left something open there.
        if let Err(error) = run("umount", &["--lazy", &self.0.path().display().to_string()]) {
            println!("{error}");
        }
    }
}

fn media_errors(host: &mut Host) -> u128 {
    host.admin.smart().media_errors.get()
}

#[test]
fn a_full_disk_costs_the_writes_that_do_not_fit() {
    for engine in ENGINES {
        let Some(disk) = available("nothing can be mounted here", SmallDisk::new()) else { return };
        let ballast = disk.0.path().join("ballast");
        std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
        let config =
            TargetConfig { engine, ..config(file(&disk.0.path().join("sparse"), Some(8 << 20)), 4096) };
        let target = Target::start(&config).unwrap();
        let (mut host, mut queue) = Host::with_queue(target.ports()[0]);
        let (full, memory) = (Space { nsid: 2, kind: Kind::File, block: 4096 }, SPACES[0]);
        let kept = pattern(256 << 10, 1);
        assert_eq!(queue.write(full, 0, &kept, false).status, Status::SUCCESS, "there is room yet");
        // More and more until it does not fit; then in every way a write can come.
        let piece = pattern(256 << 10, 2);
        let filled =
            (1..32).find(|number| !queue.write(full, number * 64, &piece, false).status.is_success());
        let filled = filled.expect("8 MiB do not fit into 2");
        assert!(filled >= 3, "1 MiB was free, and 4 pieces are that much, less what the file system needs");
        for in_capsule in [true, false] {
            let status = queue.write(full, 2000, &pattern(8192, 3), in_capsule).status;
            assert_status(status, Status::CAPACITY_EXCEEDED, "a write to a full disk");
        }
        let durable = IoCommand::Write { start: 2000, blocks: 2, force_unit_access: true }.encode(2);
        let status = queue.run(durable, Give::Asked(&pattern(8192, 3))).status;
        assert_status(status, Status::CAPACITY_EXCEEDED, "a durable one");
        // Blocks that cannot be read stay so when what should replace them did not come to the medium.
        let spoil = IoCommand::WriteUncorrectable { start: 2000, blocks: 2 }.encode(2);
        assert_eq!(queue.run(spoil, Give::Nothing).status, Status::SUCCESS);
        let copy = nvme::io::encode_copy_ranges(nvme::io::CopyFormat::Format0, &[(0, 2)]);
        let copy_command = |start| {
            let format = nvme::io::CopyFormat::Format0;
            IoCommand::Copy { start, ranges: 1, format, force_unit_access: false }.encode(2)
        };
        for status in [
            queue.write(full, 2000, &pattern(8192, 3), true).status,
            queue.run(durable, Give::Asked(&pattern(8192, 3))).status,
            queue.run(copy_command(2000), Give::Capsule(&copy)).status,
        ] {
            assert_status(status, Status::CAPACITY_EXCEEDED, "a write over unreadable blocks");
            for start in 2000..2002 {
                let status = queue.read(full, start, 1).status;
                assert_status(status, Status::UNRECOVERED_READ_ERROR, "it failed, and they are as they were");
            }
        }
        let deallocate = IoCommand::DatasetManagement { ranges: 1, deallocate: true }.encode(2);
        let ranges = nvme::io::encode_ranges(&[(2000, 2)]);
        assert_eq!(queue.run(deallocate, Give::Capsule(&ranges)).status, Status::SUCCESS);
        assert!(media_errors(&mut host) > 0, "the health log counts them");
        let read = queue.read(full, 0, 64);
        assert!(read.status.is_success() && read.data == kept, "what was there can be read");
        assert!(queue.read(full, 2000, 2).data.iter().all(|byte| *byte == 0), "what failed was not written");
        assert_eq!(queue.write(full, 0, &piece, false).status, Status::SUCCESS, "over what is there");
        assert_eq!(queue.write(memory, 0, &piece, false).status, Status::SUCCESS, "other namespaces go on");
        assert_eq!(queue.read(memory, 0, 512).data, piece);
        std::fs::remove_file(&ballast).unwrap();
        assert_eq!(queue.write(full, 1000, &piece, false).status, Status::SUCCESS, "there is room again");
        assert!(queue.read(full, 1000, 64).data == piece);
        // Room can also be made by the host itself.
        let ranges = nvme::io::encode_ranges(&[(0, 64)]);
        let deallocate = IoCommand::DatasetManagement { ranges: 1, deallocate: true }.encode(2);
        assert_eq!(queue.run(deallocate, Give::Capsule(&ranges)).status, Status::SUCCESS);
        target.shutdown();
    }
}

#[test]
fn a_file_cut_short_costs_the_reads_behind_its_end() {
    for engine in ENGINES {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        for space in SPACES.into_iter().filter(|space| space.kind == Kind::File) {
            let data = pattern(1 << 20, 6);
            assert_eq!(queue.write(space, 0, &data, false).status, Status::SUCCESS);
            let cut = OpenOptions::new().write(true).open(target.file(space.nsid)).unwrap();
            // In the middle of a block, and of a page.
            cut.set_len((64 << 10) + 100).unwrap();
            let before = media_errors(&mut host);
            let per_64k = (64 << 10) / u64::from(space.block);
            let unreadable = |queue: &mut Client, start, blocks| {
                let reply = queue.read(space, start, blocks);
                assert_status(reply.status, Status::UNRECOVERED_READ_ERROR, &format!("{engine:?} {space:?}"));
                assert!(reply.data.is_empty(), "no data that is not there");
            };
            unreadable(&mut queue, per_64k, 1);
            unreadable(&mut queue, per_64k - 1, 2);
            unreadable(&mut queue, 4 * per_64k, 16);
            let compare = IoCommand::Compare { start: 2 * per_64k, blocks: 1 }.encode(space.nsid);
            let status = queue.run(compare, Give::Asked(&data[128 << 10..][..space.block as usize])).status;
            assert_status(status, Status::UNRECOVERED_READ_ERROR, "nothing there to compare with");
            assert_eq!(media_errors(&mut host), before + 4);
            let read = queue.read(space, 0, per_64k as u32);
            assert!(read.status.is_success() && read.data == data[..64 << 10], "{engine:?}: what is left");
            // A write behind the end makes the file longer again; what lies between are zeroes.
            assert_eq!(queue.write(space, 8 * per_64k, &data[..64 << 10], false).status, Status::SUCCESS);
            let read = queue.read(space, 8 * per_64k, per_64k as u32);
            assert!(read.status.is_success() && read.data == data[..64 << 10], "{engine:?}");
            assert!(queue.read(space, 4 * per_64k, 1).data.iter().all(|byte| *byte == 0), "{engine:?}");
        }
        drop((host, queue));
        wait_until("the connections are gone", || target.connections() == 0);
    }
}

/// Names the engine of a process of this program that has little stack on its threads.
const LITTLE_STACK: &str = "SELVEDGE_TEST_LITTLE_STACK";

#[test]
fn a_thousand_waiting_commands_that_fail_need_no_deep_stack() {
    let Ok(engine) = std::env::var(LITTLE_STACK) else {
        for engine in ENGINES {
            let mut program = Command::new(std::env::current_exe().unwrap());
            program.args([
                "--exact",
                "target_backend::a_thousand_waiting_commands_that_fail_need_no_deep_stack",
                "--nocapture",
            ]);
            program.env(LITTLE_STACK, format!("{engine:?}")).env("RUST_MIN_STACK", (192 << 10).to_string());
            let outcome = program.output().unwrap();
            let words = String::from_utf8_lossy(&outcome.stderr);
            assert!(outcome.status.success(), "{engine:?}: {}: {words}", outcome.status);
            let output = String::from_utf8_lossy(&outcome.stdout);
            assert!(output.contains("1 passed"), "the process has found its test: {output}");
        }
        return;
    };
    let engine = ENGINES.into_iter().find(|known| format!("{known:?}") == engine).unwrap();
    let target = TestTarget::start(engine);
    let options = crate::raw_host::Options { entries: 1024, ..crate::raw_host::Options::default() };
    let host = Host::connect_with(target.address(), options);
    let mut queue = host.io(1);
    let space = SPACES[5];
    let spoil = IoCommand::WriteUncorrectable { start: 2047, blocks: 1 }.encode(space.nsid);
    assert_eq!(queue.run(spoil, Give::Nothing).status, Status::SUCCESS);
    // What is not taken from the socket holds all the buffers that a connection may have; the others wait for one.
    let mut read = |start, blocks: u32| {
        let command = IoCommand::Read { start, blocks, force_unit_access: false };
        queue.submit(command.encode(space.nsid), Give::Room(blocks * space.block))
    };
    let large: Vec<u16> = (0..40).map(|_| read(0, 256)).collect();
    let failing: Vec<u16> = (0..980).map(|_| read(2047, 1)).collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut failed = 0;
    for _ in 0..large.len() + failing.len() {
        let reply = queue.wait();
        if large.contains(&reply.command_id) {
            assert_eq!(reply.status, Status::SUCCESS);
        } else {
            assert_status(reply.status, Status::UNRECOVERED_READ_ERROR, "its block cannot be read");
            failed += 1;
        }
    }
    assert_eq!(failed, failing.len());
}
