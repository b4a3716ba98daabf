//! Volumes: blocks over several paths from any thread or task, while targets come and go.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::paths_lab::{BLOCK, Host, Link, NQN, file, memory, options, start};
use engine::initiator::{
    AsyncVolume, Data, InitiatorError, PathOptions, PathState, Paths, Request, Volume, VolumeOptions,
};
use engine::ring::Buffer;
use engine::target::Target;
use nvme::io::IoCommand;
use prerequisite::wait_until;
use uuid::Uuid;

/// Blocks that the tests write to.
const BLOCKS: u64 = 64;

/// A block that tells its place and its age.
fn block(place: u64, age: u64) -> Vec<u8> {
    [place.to_le_bytes(), age.to_le_bytes()].concat().repeat(BLOCK / 16)
}

fn ports(target: &Target) -> Vec<SocketAddr> {
    target.ports()
}

/// Writes blocks in turn, each newer than the one before, until `is_over`; returns the age of each
/// block's last write.
fn write_until(volume: &Volume, is_over: &AtomicBool, written: &AtomicU64) -> Vec<u64> {
    let mut ages = vec![0; BLOCKS as usize];
    for age in 1.. {
        let place = age % BLOCKS;
        volume.write_at(place * BLOCK as u64, &block(place, age)).expect("a write fails over");
        ages[place as usize] = age;
        written.fetch_add(1, Ordering::Release);
        if is_over.load(Ordering::Acquire) {
            break;
        }
    }
    ages
}

#[test]
fn a_target_that_is_killed_costs_no_write_and_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let both = || {
        let mut fabric = file(&folder.path().join("disk"));
        fabric.subsystems[0].namespaces[0].shared_storage = true;
        start(fabric)
    };
    let (first, second) = (both(), both());
    let links = [&first, &second].map(|target| Link::to(ports(target)[0]));
    let volume = Volume::connect(options(&links.each_ref().map(|link| link.address))).unwrap();
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let live = |at: usize| volume.status()[at].state == PathState::Live;
    wait_until("two live paths", || live(0) && live(1));
    let ages = thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&volume, &is_over, &written));
        wait_until("some writes", || written.load(Ordering::Acquire) > 200);
        links[0].sever();
        drop(first);
        wait_until("the loss of a path", || !live(0));
        let then = written.load(Ordering::Acquire);
        wait_until("writes after it", || written.load(Ordering::Acquire) > then + 200);
        is_over.store(true, Ordering::Release);
        writer.join().unwrap()
    });
    assert!(live(1), "the other target still serves");
    let reader = Volume::connect(PathOptions::once(options(&ports(&second)).paths.remove(0), 1)).unwrap();
    for (place, age) in (0..).zip(ages) {
        let mut found = vec![0; BLOCK];
        reader.read_at(place * BLOCK as u64, &mut found).unwrap();
        assert!(found == block(place, age), "block {place} is not what was acknowledged last");
    }
}

#[test]
fn a_path_that_was_lost_comes_back() {
    let target = start(memory(2));
    let links: Vec<Link> = ports(&target).into_iter().map(Link::to).collect();
    let volume = Volume::connect(options(&[links[0].address, links[1].address])).unwrap();
    let live = |at: usize| volume.status()[at].state == PathState::Live;
    wait_until("two live paths", || live(0) && live(1));
    links[0].cut();
    volume.write_at(0, &block(0, 7)).unwrap();
    wait_until("the loss of a path", || !live(0));
    links[0].restore();
    wait_until("its coming back", || live(0));
    let mut found = vec![0; BLOCK];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == block(0, 7));
    assert!(volume.compare(0, &found).unwrap());
}

#[test]
fn a_volume_is_found_by_its_uuid_and_by_discovery() {
    let target = start(memory(2));
    let uuid = Uuid::from_u128(0x5e1f);
    let volume = Volume::open(&ports(&target), NQN, uuid).unwrap();
    assert_eq!((volume.info().nsid, volume.status().len()), (1, 2));
    let volume = Volume::discover(ports(&target)[1], NQN, 1).unwrap();
    let mut addresses: Vec<_> = volume.status().iter().map(|path| path.address).collect();
    addresses.sort();
    let mut served = ports(&target);
    served.sort();
    assert_eq!(addresses, served, "all ports are paths");
    let missing = Volume::open(&ports(&target), NQN, Uuid::from_u128(1)).unwrap_err();
    assert!(matches!(missing, InitiatorError::NotFound { .. }), "{missing}");
    let missing = Volume::discover(ports(&target)[0], "nqn.2014-08.org.example:other", 1).unwrap_err();
    assert!(matches!(missing, InitiatorError::NotFound { .. }), "{missing}");
    assert!(matches!(Volume::open(&[], NQN, 1), Err(InitiatorError::ApiMisuse(_))));
    assert!(matches!(Volume::open(&[], NQN, uuid), Err(InitiatorError::ApiMisuse(_))));
}

#[test]
fn many_threads_share_a_volume() {
    let target = start(memory(2));
    let options = VolumeOptions::from(options(&ports(&target))).with_threads(2).with_depth(8);
    let volume = Volume::connect(options).unwrap();
    thread::scope(|scope| {
        for number in 0..8_u64 {
            let volume = volume.clone();
            scope.spawn(move || {
                // Longer than one command, and all together more commands than may be outstanding.
                let offset = number << 20;
                for age in 0..20 {
                    let written = block(number, age).repeat(256);
                    volume.write_at(offset, &written).unwrap();
                    let mut found = vec![0; written.len()];
                    volume.read_at(offset, &mut found).unwrap();
                    assert!(found == written, "thread {number}, round {age}");
                }
            });
        }
    });
    volume.flush().unwrap();
    volume.write_zeroes(0, 8 << 20, true).unwrap();
    volume.deallocate(8 << 20, 1 << 20).unwrap();
    let mut found = vec![1; 1 << 20];
    volume.read_at(7 << 20, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
}

/// Wakes the thread that waits for a future: the smallest executor there is.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn a_volume_is_awaited_without_an_executor_of_its_own() {
    let target = start(memory(2));
    let volume = AsyncVolume::open(&ports(&target), NQN, 1).unwrap();
    block_on(async {
        volume.write_at(0, &block(0, 3)).await.unwrap();
        volume.flush().await.unwrap();
        let mut found = vec![0; BLOCK];
        volume.read_at(0, &mut found).await.unwrap();
        assert!(found == block(0, 3));
    });
}

#[test]
fn many_tasks_of_one_thread_wait_at_once() {
    let target = start(memory(2));
    let volume = Volume::open(&ports(&target), NQN, 1).unwrap().to_async();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let task = |place: u64| {
            let volume = volume.clone();
            tokio::spawn(async move {
                for age in 0..10 {
                    volume.write_at(place * BLOCK as u64, &block(place, age)).await?;
                    let mut found = vec![0; BLOCK];
                    volume.read_at(place * BLOCK as u64, &mut found).await?;
                    assert!(found == block(place, age), "task {place}, round {age}");
                }
                Ok::<(), InitiatorError>(())
            })
        };
        let tasks: Vec<_> = (0..BLOCKS).map(task).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_future_that_is_dropped_leaves_the_volume_as_it_is() {
    let target = start(memory(1));
    let volume = AsyncVolume::open(&ports(&target), NQN, 1).unwrap();
    for place in 0..100 {
        let data = block(place, 1);
        let mut future = Box::pin(volume.write_at(place * BLOCK as u64, &data));
        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    block_on(async {
        volume.write_at(0, &block(0, 2)).await.unwrap();
        let mut found = vec![0; BLOCK];
        volume.read_at(0, &mut found).await.unwrap();
        assert!(found == block(0, 2));
    });
}

#[test]
fn a_volume_that_is_dropped_leaves_nothing_behind() {
    let target = start(memory(2));
    let volume = Volume::open(&ports(&target), NQN, 1).unwrap();
    let clone = volume.to_async();
    volume.write_at(0, &block(0, 1)).unwrap();
    drop(volume);
    assert_eq!(target.status().controllers.len(), 2, "a clone is the same volume");
    // The last of it goes where it is used last: on the volume's own thread, which wakes its task.
    let task = LastTask::new(clone);
    Waker::from(task.clone()).wake();
    drop(task);
    wait_until("the end of all controllers", || target.status().controllers.is_empty());
    wait_until("the end of all connections", || target.connections() == 0);
}

/// A task that is held only by the waker that it waits with.
struct LastTask(std::sync::Mutex<Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl LastTask {
    fn new(volume: AsyncVolume) -> Arc<Self> {
        let future = async move {
            let mut found = vec![0; BLOCK];
            volume.read_at(0, &mut found).await.unwrap();
        };
        Arc::new(Self(std::sync::Mutex::new(Some(Box::pin(future)))))
    }
}

impl Wake for LastTask {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut future = self.0.lock().unwrap();
        let is_ready = future
            .as_mut()
            .is_some_and(|future| future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if is_ready {
            *future = None;
        }
    }
}

#[test]
fn without_a_path_requests_fail_with_the_reason() {
    let target = start(memory(1));
    let once = PathOptions::once(options(&ports(&target)).paths.remove(0), 1);
    let volume = Volume::connect(once).unwrap();
    volume.write_at(0, &block(0, 1)).unwrap();
    target.shutdown();
    let error = volume.write_at(0, &block(0, 2)).unwrap_err();
    let is_lost = matches!(error, InitiatorError::Closed { .. } | InitiatorError::Broken { .. });
    assert!(is_lost, "{error}");
    let error = volume.write_at(1, &[0; BLOCK]).unwrap_err();
    assert!(matches!(error, InitiatorError::ApiMisuse(_)), "{error}");
}

/// Commands that a target has done with its first namespace.
fn commands(target: &Target) -> u64 {
    let metrics = target.metrics();
    metrics.subsystems[0].namespaces[0].operations.iter().map(|operation| operation.commands()).sum()
}

/// Makes a target say that it takes 16 KiB at a time: MDTS of Identify Controller, which its model number is found by.
fn narrow(bytes: &mut [u8]) {
    const MODEL_AT: usize = 24;
    const TRANSFER_SIZE_AT: usize = 77;
    let model = b"test                ";
    if let Some(at) = bytes.windows(model.len()).position(|window| window == model)
        && let Some(size) = bytes.get_mut(at + TRANSFER_SIZE_AT - MODEL_AT)
    {
        *size = 2;
    }
}

#[test]
fn a_path_that_joins_and_takes_less_at_a_time_makes_commands_smaller() {
    let target = start(memory(2));
    let ports = ports(&target);
    let late = Link::changing(ports[1], narrow);
    late.cut();
    let mut options = options(&[ports[0], late.address]);
    options.policy = engine::initiator::IoPolicy::RoundRobin;
    options.paths[1].connect_timeout = Duration::from_secs(1);
    let volume = Volume::connect(options).unwrap();
    let mut data = vec![0; 1 << 20];
    volume.read_at(0, &mut data).unwrap();
    late.restore();
    wait_until("the second path", || volume.status()[1].state == PathState::Live);
    let narrow = volume.controllers().iter().map(|controller| controller.transfer_length_max()).min();
    assert_eq!(narrow, Some(16 << 10), "the link has changed what the target says");
    let written: Vec<u8> = (0..256).flat_map(|place| block(place, 1)).collect();
    volume.write_at(0, &written).unwrap();
    let before = commands(&target);
    volume.read_at(0, &mut data).unwrap();
    assert!(data == written);
    assert_eq!(commands(&target) - before, 64, "1 MiB in pieces of 16 KiB");
}

#[test]
fn a_command_that_is_too_long_for_a_path_takes_another() {
    let target = start(memory(2));
    let narrow = Link::changing(ports(&target)[0], narrow);
    let mut options = options(&[narrow.address, ports(&target)[1]]);
    options.policy = engine::initiator::IoPolicy::RoundRobin;
    let paths = Paths::connect(options).unwrap();
    let mut host = Host::new(&paths);
    let read = |blocks: u32| {
        let command = IoCommand::Read { start: 0, blocks, force_unit_access: false };
        let data = Data::Receive(Buffer::zeroed(blocks as usize * BLOCK));
        Request { entry: command.encode(1), data, user: 0 }
    };
    for blocks in [4, 4, 5, 5, 5] {
        host.submit(read(blocks));
        assert!(host.completion().status.is_success());
    }
    assert_eq!(host.carried(), [1, 4]);
}
