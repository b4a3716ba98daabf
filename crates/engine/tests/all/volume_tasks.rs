//! Tasks on a volume's own threads: they do what other users of a volume do, and their end ends no
//! other.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::paths_lab::{BLOCK, Link, NQN, memory, options, start};
use engine::initiator::{InitiatorError, LocalVolume, PathState, Volume};
use engine::ring::Buffer;
use prerequisite::wait_until;

/// A block that tells its place and its age.
fn block(place: u64, age: u64) -> Buffer {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.copy_from_slice(&[place.to_le_bytes(), age.to_le_bytes()].concat().repeat(BLOCK / 16));
    buffer
}

/// Writes a block again and again, and reads it back.
async fn write_and_read(volume: LocalVolume, place: u64, ages: u64) -> Result<(), InitiatorError> {
    let at = place * BLOCK as u64;
    for age in 0..ages {
        let written = volume.write(at, block(place, age)).await?;
        let found = volume.read(at, Buffer::zeroed(BLOCK)).await?;
        assert!(found[..] == written[..], "block {place}, age {age}");
    }
    volume.flush().await
}

#[test]
fn many_tasks_share_a_thread_of_the_volume() {
    let target = start(memory(2));
    let volume = Volume::open(&target.ports(), NQN, 1).unwrap();
    let all = volume.spawn(|volume| async move {
        let begin = |place| volume.spawn(write_and_read(volume.clone(), place, 20));
        let tasks: Vec<_> = (0..64).map(begin).collect();
        for task in tasks {
            task.await??;
        }
        Ok::<_, InitiatorError>(volume.size_bytes())
    });
    assert_eq!(all.wait().unwrap().unwrap(), volume.size_bytes());
}

#[test]
fn a_lost_path_costs_a_task_no_write() {
    let target = start(memory(2));
    let links: Vec<Link> = target.ports().into_iter().map(Link::to).collect();
    let volume = Volume::connect(options(&[links[0].address, links[1].address])).unwrap();
    wait_until("two live paths", || volume.status().iter().all(|path| path.state == PathState::Live));
    let (written, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let task = volume.spawn({
        let (written, is_over) = (written.clone(), is_over.clone());
        move |volume| async move {
            let mut age = 0;
            while !is_over.load(Ordering::Acquire) {
                age += 1;
                volume.write(0, block(0, age)).await?;
                written.store(age, Ordering::Release);
            }
            Ok::<_, InitiatorError>(age)
        }
    });
    wait_until("some writes", || written.load(Ordering::Acquire) > 100);
    links[0].cut();
    wait_until("the loss of a path", || volume.status()[0].state != PathState::Live);
    let then = written.load(Ordering::Acquire);
    wait_until("writes after it", || written.load(Ordering::Acquire) > then + 100);
    is_over.store(true, Ordering::Release);
    let age = task.wait().unwrap().unwrap();
    let mut found = vec![0; BLOCK];
    volume.read_at(0, &mut found).unwrap();
    assert!(found[..] == block(0, age)[..]);
}

#[test]
fn a_task_that_panics_ends_alone() {
    let target = start(memory(1));
    let volume = Volume::open(&target.ports(), NQN, 1).unwrap();
    let other = volume.spawn(|volume| write_and_read(volume, 1, 200));
    let broken = volume.spawn(|volume| async move {
        volume.write(0, block(0, 1)).await.unwrap();
        assert!(volume.block_size() == 1, "as expected");
    });
    assert!(catch_unwind(AssertUnwindSafe(|| broken.wait())).is_err(), "who waits for it panics too");
    // What makes a task is a part of it.
    let unmade = volume.spawn(|volume: LocalVolume| {
        assert!(volume.block_size() == 1, "as expected");
        async {}
    });
    assert!(catch_unwind(AssertUnwindSafe(|| unmade.wait())).is_err());
    // This one is not waited for.
    let caught = volume.spawn(|volume| async move {
        let own = volume.clone();
        drop(volume.spawn(async move { assert!(own.block_size() == 1, "as expected") }));
        write_and_read(volume, 2, 5).await
    });
    caught.wait().unwrap().unwrap();
    other.wait().unwrap().unwrap();
    volume.write_at(0, &block(0, 2)).unwrap();
}

#[test]
fn a_request_that_is_given_up_leaves_the_volume_as_it_is() {
    let target = start(memory(1));
    let volume = Volume::open(&target.ports(), NQN, 1).unwrap();
    let task = volume.spawn(|volume| async move {
        for place in 0..200 {
            let own = volume.clone();
            // Half of them are polled once, and dropped by the end of the other future; half never.
            let mut write = Box::pin(async move { own.write(place % 8 * BLOCK as u64, block(0, 1)).await });
            if place % 2 == 0 {
                std::future::poll_fn(|context| {
                    let _ = write.as_mut().poll(context);
                    std::task::Poll::Ready(())
                })
                .await;
            }
        }
        for place in 0..8 {
            write_and_read(volume.clone(), place, 3).await?;
        }
        Ok::<_, InitiatorError>(())
    });
    task.wait().unwrap().unwrap();
}

#[test]
fn requests_that_no_command_can_carry_are_refused() {
    let target = start(memory(1));
    let volume = Volume::open(&target.ports(), NQN, 1).unwrap();
    let task = volume.spawn(|volume| async move {
        for (at, length) in [(0, 0), (1, BLOCK), (0, BLOCK - 1), (volume.size_bytes(), BLOCK)] {
            let refused = volume.read(at, Buffer::zeroed(length)).await;
            assert!(matches!(refused, Err(InitiatorError::ApiMisuse(_))), "{length} bytes at {at}");
        }
        let longest = volume.length_max().min(volume.size_bytes()) as usize;
        volume.read(0, Buffer::zeroed(longest)).await.unwrap().len() == longest
    });
    assert!(task.wait().unwrap());
}

#[test]
fn tasks_are_woken_by_other_threads_and_await_other_requests() {
    let target = start(memory(2));
    let volume = Volume::open(&target.ports(), NQN, 1).unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let whole = volume.to_async();
    let task = volume.spawn(move |volume| async move {
        let age = receiver.await.unwrap();
        volume.write(0, block(0, age)).await.unwrap();
        // Longer than one command, over the threads of the volume.
        let mut all = vec![0; volume.size_bytes() as usize];
        whole.read_at(0, &mut all).await.unwrap();
        all[..BLOCK] == block(0, age)[..]
    });
    // It sleeps by then.
    thread::sleep(Duration::from_millis(50));
    sender.send(7).unwrap();
    assert!(task.wait().unwrap());
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn the_last_handle_ends_the_tasks() {
    let target = start(memory(1));
    let volume = Volume::open(&target.ports(), NQN, 1).unwrap();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let mine = Dropped(is_dropped.clone());
    let task = volume.spawn(move |volume| async move {
        let _mine = mine;
        volume.write(0, block(0, 1)).await.unwrap();
        // This one awaits the other, which never ends.
        volume.spawn(pending::<()>()).await
    });
    drop(volume);
    thread::sleep(Duration::from_millis(50));
    assert!(!is_dropped.load(Ordering::Acquire), "who awaits a task keeps the volume");
    assert_eq!(target.status().controllers.len(), 1);
    drop(task);
    wait_until("the end of the task", || is_dropped.load(Ordering::Acquire));
    wait_until("the end of all controllers", || target.status().controllers.is_empty());
}
