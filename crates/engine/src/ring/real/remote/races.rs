//! Every order in which operations come back to a ring that falls asleep, is awake, or ends.

use std::sync::{Mutex, Weak};

use loom::sync::Arc as Shared;
use loom::thread;

use super::*;
use crate::sync::{SharedCell, model};

/// Storage that keeps what it is to do.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<RemoteOperation>>);

impl RemoteStorage for Kept {
    fn start(&self, operation: RemoteOperation) {
        self.0.lock().unwrap().push(operation);
    }
}

/// A ring's operations that are away, what wakes the ring, and the operations, with tokens from 0 on.
fn sent(count: u64) -> (Away, Waker, Vec<RemoteOperation>) {
    let waker = Waker::new().unwrap();
    let (mut away, storage) = (Away::new(waker.clone()), Kept::default());
    (0..count).for_each(|token| away.send(&storage, StorageOp::Sync, token));
    (away, waker, storage.0.into_inner().unwrap())
}

#[test]
fn every_operation_comes_back_once_and_a_ring_that_sleeps_is_woken() {
    model(|| {
        let (mut away, waker, operations) = sent(2);
        // Where a thread of the library writes, as it does into an operation's buffer.
        let cells = Shared::new([SharedCell::new(), SharedCell::new()]);
        let threads: Vec<_> = operations
            .into_iter()
            .enumerate()
            .map(|(token, operation)| {
                let cells = cells.clone();
                thread::spawn(move || {
                    cells[token].write(token as u64 + 7);
                    operation.end(Ok(token));
                })
            })
            .collect();
        let (mut events, mut came) = (Vec::new(), [false; 2]);
        while away.pending() > 0 {
            if away.falls_asleep() {
                waker.sleep();
            }
            away.take_back(&mut events);
            for event in events.drain(..) {
                let Event::Stored { token, result, .. } = event else { panic!("{event:?}") };
                let token = token as usize;
                assert_eq!(result.unwrap(), token);
                assert_eq!(cells[token].read(), token as u64 + 7, "what was read is not seen");
                assert!(!std::mem::replace(&mut came[token], true), "{token} came twice");
            }
        }
        assert_eq!(came, [true; 2]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_ring_that_ends_leaves_nothing_behind() {
    model(|| {
        let (away, _waker, operations) = sent(2);
        let home: Weak<Home> = Arc::downgrade(&away.home);
        let threads: Vec<_> =
            operations.into_iter().map(|operation| thread::spawn(move || operation.end(Ok(0)))).collect();
        away.falls_asleep();
        drop(away);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Each operation keeps its home.
        assert_eq!(home.strong_count(), 0, "an operation was forgotten");
    });
}
