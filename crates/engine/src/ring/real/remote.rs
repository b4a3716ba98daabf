//! Storage that is reached by a library of its own, on threads of its own: an operation goes out
//! with its buffer, and comes back to the ring it came from without a lock on the way. The library
//! belongs to the implementation of `RemoteStorage`.

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::ptr;
use std::sync::Arc;

use super::waker::Waker;
use crate::limits::REMOTE_OPERATIONS_KEPT_MAX;
use crate::ring::{Event, StorageOp};
use crate::sync::atomic::{AtomicPtr, Ordering};

/// Storage that does operations on its own threads.
pub trait RemoteStorage: Send + Sync + fmt::Debug {
    /// Starts an operation. It never waits; its end is a call of [`RemoteOperation::end`], from any thread, exactly once,
    /// until which the storage must stay.
    fn start(&self, operation: RemoteOperation);
}

/// State of an operation while it is away. Nodes are used again.
struct Node {
    /// The next in a list of those that have come back.
    next: *mut Node,
    token: u64,
    operation: StorageOp,
    result: io::Result<usize>,
    home: Arc<Home>,
}

/// An operation that is away, with the buffer lent to it.
pub struct RemoteOperation(Box<Node>);

// SAFETY: the pointer in it is used only while it is in a list, which has one owner at a time; all else may be sent.
#[allow(unsafe_code)]
unsafe impl Send for RemoteOperation {}

impl fmt::Debug for RemoteOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteOperation").field(&self.0.operation).finish()
    }
}

impl RemoteOperation {
    /// The operation. Its buffer stays in place until the end.
    pub fn operation(&mut self) -> &mut StorageOp {
        &mut self.0.operation
    }

    /// Sends it back with its outcome: bytes moved, or what went wrong.
    pub fn end(mut self, result: io::Result<usize>) {
        self.0.result = result;
        come_home(self.0);
    }

    /// Makes it a pointer, for a library that knows nothing else; [`Self::from_pointer`] makes it an operation again.
    pub(crate) fn into_pointer(self) -> *mut c_void {
        Box::into_raw(self.0).cast()
    }

    /// # Safety
    /// The pointer has to come from [`Self::into_pointer`], and is used up.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn from_pointer(pointer: *mut c_void) -> Self {
        // SAFETY: by the caller's promise it is a box without another owner.
        Self(unsafe { Box::from_raw(pointer.cast()) })
    }
}

/// Return address of operations: a list that any thread adds to and the ring's thread empties, and
/// the ring's waker.
struct Home {
    /// The operation that came back last; null while the ring is awake and all are taken; else `asleep` or `closed`.
    returned: AtomicPtr<Node>,
    waker: Waker,
}

/// Head of the list while it is empty and its ring sleeps, or is about to; not a node.
const fn asleep() -> *mut Node {
    ptr::without_provenance_mut(1)
}

/// Head of the list once its ring is gone; not a node.
const fn closed() -> *mut Node {
    ptr::without_provenance_mut(2)
}

/// Puts an operation into its home's list, and wakes the ring if it was asleep there: an awake one
/// looks before it sleeps. As sleeping is marked in the word that operations come into, either the
/// ring's mark or the operation is the later one, and sees the other.
fn come_home(node: Box<Node>) {
    let node = Box::into_raw(node);
    // SAFETY: the node is this thread's until an exchange below succeeds, and keeps its home until then. From that moment on
    // both may be gone, which is why neither is borrowed for longer than a call on one atomic word.
    #[allow(unsafe_code)]
    unsafe {
        let home = Arc::as_ptr(&(*node).home);
        let mut first = (*home).returned.load(Ordering::Relaxed);
        while first != closed() {
            let is_asleep = first == asleep();
            let waker = is_asleep.then(|| (*home).waker.clone());
            (*node).next = if is_asleep { ptr::null_mut() } else { first };
            // Release: the reader of the list sees what is in the node.
            let exchanged =
                (*home).returned.compare_exchange_weak(first, node, Ordering::Release, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return waker.iter().for_each(Waker::wake),
                Err(now) => first = now,
            }
        }
        drop(Box::from_raw(node));
    }
}

/// A list of operations that came back, or `asleep`, owned by this.
struct Returned(*mut Node);

impl Iterator for Returned {
    type Item = Box<Node>;

    fn next(&mut self) -> Option<Box<Node>> {
        if self.0.is_null() || self.0 == asleep() {
            return None;
        }
        // SAFETY: nodes in the list are boxes without another owner.
        #[allow(unsafe_code)]
        let node = unsafe { Box::from_raw(self.0) };
        self.0 = node.next;
        Some(node)
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// A ring's operations that are away.
pub(super) struct Away {
    home: Arc<Home>,
    kept: Vec<RemoteOperation>,
    pending: usize,
}

impl Away {
    pub(super) fn new(waker: Waker) -> Self {
        let home = Home { returned: AtomicPtr::new(ptr::null_mut()), waker };
        Self { home: Arc::new(home), kept: Vec::new(), pending: 0 }
    }

    pub(super) fn send(&mut self, storage: &dyn RemoteStorage, operation: StorageOp, token: u64) {
        self.pending += 1;
        let away = match self.kept.pop() {
            Some(RemoteOperation(mut node)) => {
                node.token = token;
                node.operation = operation;
                RemoteOperation(node)
            }
            None => {
                let (next, home) = (ptr::null_mut(), self.home.clone());
                RemoteOperation(Box::new(Node { next, token, operation, result: Ok(0), home }))
            }
        };
        storage.start(away);
    }

    pub(super) const fn pending(&self) -> usize {
        self.pending
    }

    /// True if operations have come back. Call it while the ring is awake.
    pub(super) fn has_news(&self) -> bool {
        self.pending > 0 && !self.home.returned.load(Ordering::Relaxed).is_null()
    }

    /// Says that the ring sleeps from now on, until the next `take_back`; whether it may: nothing has come back.
    pub(super) fn falls_asleep(&self) -> bool {
        let returned = &self.home.returned;
        // It orders nothing: who finds it writes into the waker's descriptor, and the system orders that and the sleep.
        self.pending == 0
            || returned
                .compare_exchange(ptr::null_mut(), asleep(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Reports those that have come back, in the order in which they did.
    pub(super) fn take_back(&mut self, events: &mut Vec<Event>) {
        if !self.has_news() {
            return;
        }
        let began = events.len();
        // Acquire: what was written into the nodes and their buffers before they came is seen from here on.
        let returned = Returned(self.home.returned.swap(ptr::null_mut(), Ordering::Acquire));
        for mut node in returned {
            self.pending -= 1;
            let operation = std::mem::replace(&mut node.operation, StorageOp::Sync);
            let result = std::mem::replace(&mut node.result, Ok(0));
            events.push(Event::Stored { token: node.token, result, buffer: operation.into_buffer() });
            if self.kept.len() < REMOTE_OPERATIONS_KEPT_MAX {
                self.kept.push(RemoteOperation(node));
            }
        }
        // The last to come back is the first in the list.
        events[began..].reverse();
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // Operations that come back from now on are dropped on arrival.
        drop(Returned(self.home.returned.swap(closed(), Ordering::Acquire)));
    }
}

#[cfg(all(test, feature = "loom"))]
mod races;

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::ring::{Buffer, Engine, Ring, RingOptions};
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    /// Storage that hands all operations to threads.
    #[derive(Debug)]
    struct Threads(Mutex<Sender<RemoteOperation>>);

    impl RemoteStorage for Threads {
        fn start(&self, operation: RemoteOperation) {
            self.0.lock().unwrap().send(operation).unwrap();
        }
    }

    #[test]
    fn every_operation_comes_back_once_with_its_buffer() {
        let (sender, operations) = channel::<RemoteOperation>();
        let operations = Arc::new(Mutex::new(operations));
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let operations = operations.clone();
                thread::spawn(move || {
                    loop {
                        let next = operations.lock().unwrap().recv();
                        let Ok(mut operation) = next else { return };
                        let StorageOp::Read { buffer, offset } = operation.operation() else { panic!() };
                        buffer.fill(*offset as u8);
                        let length = buffer.len();
                        operation.end(Ok(length));
                    }
                })
            })
            .collect();
        let storage = Threads(Mutex::new(sender));
        let mut ring = Ring::new(RingOptions::default()).unwrap();
        let (mut events, mut seen) = (Vec::new(), vec![false; 10_000]);
        let (mut sent, mut came) = (0u64, 0);
        while came < seen.len() {
            while sent < seen.len() as u64 && ring.stores_pending() < 64 {
                let operation = StorageOp::Read { buffer: Buffer::zeroed(512), offset: sent };
                ring.store_remote(&storage, operation, sent);
                sent += 1;
            }
            ring.wait(Some(Duration::from_secs(5)), &mut events).unwrap();
            for event in events.drain(..) {
                let Event::Stored { token, result, buffer } = event else { continue };
                assert_eq!(result.unwrap(), 512);
                assert!(buffer.unwrap().iter().all(|byte| *byte == token as u8));
                assert!(!std::mem::replace(&mut seen[token as usize], true), "{token} came twice");
                came += 1;
            }
        }
        assert_eq!(ring.stores_pending(), 0);
        drop(storage);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }

    #[test]
    fn what_comes_back_wakes_a_ring_that_sleeps() {
        /// Longest sleep of a ring that is not woken.
        const SLEEP: Duration = Duration::from_secs(60);
        for engine in [Engine::Automatic, Engine::Epoll] {
            let (sender, operations) = channel::<RemoteOperation>();
            let worker = thread::spawn(move || operations.iter().for_each(|operation| operation.end(Ok(0))));
            let storage = Threads(Mutex::new(sender));
            // It goes to sleep at once, while the operation is on its way back.
            let mut ring = Ring::new(RingOptions { engine, poll_us_max: 0 }).unwrap();
            let mut events = Vec::new();
            for token in 0..5_000 {
                ring.store_remote(&storage, StorageOp::Sync, token);
                while ring.stores_pending() > 0 {
                    let began = ring.now();
                    ring.wait(Some(SLEEP), &mut events).unwrap();
                    assert!(ring.now().since(began) < SLEEP, "{engine:?} was not woken for {token}");
                }
                events.retain(|event| matches!(event, Event::Stored { .. }));
                let has_come = matches!(events[..], [Event::Stored { token: came, .. }] if came == token);
                assert!(has_come, "{engine:?}: {events:?} for {token}");
                events.clear();
            }
            drop(storage);
            worker.join().unwrap();
        }
    }

    #[test]
    fn what_comes_back_does_not_wake_a_ring_that_is_awake() {
        for engine in [Engine::Automatic, Engine::Epoll] {
            let (sender, operations) = channel::<RemoteOperation>();
            let storage = Threads(Mutex::new(sender));
            let mut ring = Ring::new(RingOptions { engine, ..RingOptions::default() }).unwrap();
            let mut events = Vec::new();
            for round in 0..3 {
                for token in 0..3 {
                    ring.store_remote(&storage, StorageOp::Sync, token);
                    operations.recv().unwrap().end(Ok(0));
                }
                ring.wait(None, &mut events).unwrap();
                let tokens = events.drain(..).map(|event| match event {
                    Event::Stored { token, .. } => token,
                    other => panic!("{engine:?}, round {round}: {other:?}"),
                });
                let tokens: Vec<_> = tokens.collect();
                assert_eq!(tokens, [0, 1, 2]);
                // A sleep in which nothing comes back changes nothing.
                ring.wait(Some(Duration::from_millis(1)), &mut events).unwrap();
                assert!(events.is_empty(), "{events:?}");
            }
        }
    }

    #[test]
    fn threads_give_back_what_they_wrote_with_or_without_a_ring() {
        let (sender, operations) = channel::<RemoteOperation>();
        let storage = Threads(Mutex::new(sender));
        let mut away = Away::new(Waker::new().unwrap());
        for round in 0..20u8 {
            for token in 0..3 {
                let buffer = Buffer::zeroed(16);
                away.send(&storage, StorageOp::Read { buffer, offset: token }, token);
            }
            let threads = [(); 3].map(|()| operations.recv().unwrap()).map(|mut operation| {
                thread::spawn(move || {
                    let StorageOp::Read { buffer, offset } = operation.operation() else { panic!() };
                    buffer.fill(*offset as u8 ^ round);
                    operation.end(Ok(16));
                })
            });
            let mut events = Vec::new();
            while away.pending() > 0 && round < 19 {
                away.falls_asleep();
                away.take_back(&mut events);
                thread::yield_now();
            }
            for event in events {
                let Event::Stored { token, buffer, .. } = event else { panic!("{event:?}") };
                assert!(buffer.unwrap().iter().all(|byte| *byte == token as u8 ^ round));
            }
            if round == 19 {
                away = Away::new(Waker::new().unwrap());
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        drop(away);
    }

    #[test]
    fn what_comes_back_after_its_ring_is_gone_is_dropped() {
        let (sender, operations) = channel::<RemoteOperation>();
        let storage = Threads(Mutex::new(sender));
        let mut ring = Ring::new(RingOptions::default()).unwrap();
        ring.store_remote(&storage, StorageOp::Sync, 1);
        drop(ring);
        operations.recv().unwrap().end(Ok(0));
    }
}
