//! Submissions of the ring on io_uring, and their times; the rest of it is tested through `Ring`.

use std::io::Write;
use std::os::unix::fs::FileExt;

use super::*;

const BLOCK: usize = 4096;
const BLOCKS: usize = 96;

/// A ring, and a file whose blocks are full of their numbers; nothing where the machine refuses io_uring.
fn ring_and_file() -> Option<(Uring, std::fs::File)> {
    let waker = Waker::new().unwrap();
    let uring = prerequisite::available("io_uring", Uring::new(&waker))?;
    let mut file = tempfile::tempfile().unwrap();
    (0..BLOCKS).for_each(|block| file.write_all(&[block as u8; BLOCK]).unwrap());
    Some((uring, file))
}

fn read(block: usize) -> StorageOp {
    StorageOp::Read { buffer: Buffer::zeroed(BLOCK), offset: (block * BLOCK) as u64 }
}

fn write(block: usize, byte: u8) -> StorageOp {
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.fill(byte);
    StorageOp::Write { buffer, offset: (block * BLOCK) as u64, durable: false }
}

/// Operations that have not been submitted.
fn waiting(uring: &mut Uring) -> usize {
    uring.ring.submission().len()
}

/// Waits for all operations: their tokens in order, and the first byte of what each has read or written.
fn ended(uring: &mut Uring) -> Vec<(u64, u8)> {
    let mut events = Vec::new();
    while uring.stores_pending() > 0 {
        uring.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
    }
    let mut ended: Vec<_> = events
        .into_iter()
        .map(|event| match event {
            Event::Stored { token, result, buffer } => {
                assert_eq!(result.unwrap(), BLOCK);
                let buffer = buffer.unwrap();
                assert!(buffer.iter().all(|byte| *byte == buffer[0]));
                (token, buffer[0])
            }
            other => panic!("{other:?}"),
        })
        .collect();
    ended.sort_unstable();
    ended
}

#[test]
fn storage_without_work_gets_the_first_operation_at_once() {
    let Some((mut uring, file)) = ring_and_file() else { return };
    let storage = Storage::new(file);
    uring.store(&storage, read(7), 1);
    assert_eq!(waiting(&mut uring), 0, "no wait for events has begun yet");
    assert_eq!(ended(&mut uring), [(1, 7)]);
}

#[test]
fn the_more_storage_has_to_do_the_more_operations_are_submitted_together() {
    let Some((mut uring, file)) = ring_and_file() else { return };
    let storage = Storage::new(file);
    let mut longest = 0;
    for block in 0..BLOCKS {
        uring.store(&storage, read(block), block as u64);
        let waiting = waiting(&mut uring);
        let submitted = block + 1 - waiting;
        assert!(waiting < STORES_WAITING_MAX, "{waiting} wait");
        assert!(waiting <= submitted / 4, "{waiting} wait beside {submitted}");
        longest = longest.max(waiting);
    }
    assert_eq!(longest, STORES_WAITING_MAX - 1, "a system call is shared where there is enough to do");
    let all: Vec<_> = (0..BLOCKS).map(|block| (block as u64, block as u8)).collect();
    assert_eq!(ended(&mut uring), all, "each ends once, with its own bytes");
}

#[test]
fn what_waits_when_the_turn_ends_is_submitted_then() {
    let Some((mut uring, file)) = ring_and_file() else { return };
    let storage = Storage::new(file.try_clone().unwrap());
    let mut written = 0;
    while waiting(&mut uring) == 0 {
        uring.store(&storage, write(written, 200), written as u64);
        written += 1;
    }
    assert!(ended(&mut uring).iter().all(|(_, byte)| *byte == 200));
    for block in 0..=written {
        let mut found = [0; BLOCK];
        file.read_exact_at(&mut found, (block * BLOCK) as u64).unwrap();
        assert!(found.iter().all(|byte| *byte == if block < written { 200 } else { block as u8 }));
    }
}

#[test]
fn a_write_that_is_held_back_goes_together_with_its_delay() {
    let Some((mut uring, file)) = ring_and_file() else { return };
    let storage = Storage::new(file);
    storage.set_write_delay_ms(20);
    let began = std::time::Instant::now();
    (0..8).for_each(|block| uring.store(&storage, write(block, 9), block as u64));
    assert_eq!(ended(&mut uring).len(), 8);
    assert!(began.elapsed() >= Duration::from_millis(20), "none came early");
}
