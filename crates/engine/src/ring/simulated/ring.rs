//! A ring of a simulated machine: the same methods and promises as the real one's.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock;
use super::disk::Storage;
use super::remote::{RemoteOperation, RemoteStorage};
use super::scheduler::{self, FiberId, ProcessId, World};
use crate::ring::{Buffer, Event, Moment, Readiness, RingOptions, StorageOp};

/// State of a ring in the world.
#[derive(Debug)]
pub(super) struct RingState {
    pub(super) process: ProcessId,
    waits: Option<FiberId>,
    is_woken: bool,
    /// Readiness of watched sockets, by their tokens.
    ready: BTreeMap<u32, Readiness>,
    stored: VecDeque<(u64, io::Result<usize>, Option<Buffer>)>,
    pending: usize,
}

impl RingState {
    /// Empties a ring that is no longer used.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.stored.clear();
        self.waits = None;
    }
}

impl World {
    fn wake_ring(&mut self, ring: usize) {
        if let Some(waits) = self.rings[ring].waits.take() {
            self.unpark(waits);
        }
    }

    /// A watched socket is ready for something.
    pub(super) fn ready_on(&mut self, (ring, token): (usize, u32), readiness: Readiness) {
        let known = self.rings[ring].ready.entry(token).or_default();
        known.readable |= readiness.readable;
        known.writable |= readiness.writable;
        known.ended |= readiness.ended;
        self.wake_ring(ring);
    }

    /// A storage operation has ended.
    pub(super) fn stored_on(
        &mut self,
        ring: usize,
        token: u64,
        result: io::Result<usize>,
        buffer: Option<Buffer>,
    ) {
        if self.is_alive(self.rings[ring].process) {
            self.rings[ring].stored.push_back((token, result, buffer));
            self.wake_ring(ring);
        }
    }

    fn has_events(&self, ring: usize) -> bool {
        let state = &self.rings[ring];
        state.is_woken || !state.ready.is_empty() || !state.stored.is_empty()
    }

    fn take_events(&mut self, ring: usize, events: &mut Vec<Event>) {
        let state = &mut self.rings[ring];
        state.waits = None;
        if std::mem::take(&mut state.is_woken) {
            events.push(Event::Woken);
        }
        for (token, readiness) in std::mem::take(&mut state.ready) {
            events.push(Event::Ready { token, readiness });
        }
        while let Some((token, result, buffer)) = state.stored.pop_front() {
            state.pending -= 1;
            events.push(Event::Stored { token, result, buffer });
        }
        if events.len() > 1 && self.random.chance(500) {
            let middle = self.random.below(events.len() as u64) as usize;
            events.rotate_left(middle);
        }
    }
}

/// Wakes one ring's `wait`.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Waking>);

#[derive(Debug)]
struct Waking {
    ring: usize,
    is_pending: AtomicBool,
}

impl Waker {
    /// Makes the ring's current or next `wait` return with `Event::Woken`.
    pub fn wake(&self) {
        if !self.0.is_pending.swap(true, Ordering::AcqRel) {
            scheduler::with_if(|world| {
                world.rings[self.0.ring].is_woken = true;
                world.wake_ring(self.0.ring);
            });
        }
    }
}

/// Access of one fiber to its machine.
#[derive(Debug)]
pub struct Ring {
    id: usize,
    waker: Waker,
    waited: Duration,
}

impl Ring {
    /// A ring for the running fiber.
    ///
    /// # Errors
    /// When the process gets none.
    pub fn new(_: RingOptions) -> io::Result<Self> {
        scheduler::with(|world| world.spare())?;
        let id = scheduler::with(|world| {
            let process = world.running().expect("a ring belongs to a process");
            world.rings.push(RingState {
                process,
                waits: None,
                is_woken: false,
                ready: BTreeMap::new(),
                stored: VecDeque::new(),
                pending: 0,
            });
            world.rings.len() - 1
        });
        let waker = Waker(Arc::new(Waking { ring: id, is_pending: AtomicBool::new(false) }));
        Ok(Self { id, waker, waited: Duration::ZERO })
    }

    /// `simulated`.
    pub const fn engine_name(&self) -> &'static str {
        "simulated"
    }

    /// The virtual time now.
    pub fn now(&self) -> Moment {
        clock::now()
    }

    /// Time spent waiting for events.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// A handle with which others wake this ring's `wait`.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Watches a socket, or an event descriptor.
    ///
    /// # Errors
    /// Never.
    pub fn watch(&mut self, socket: &impl AsRawFd, token: u32) -> io::Result<()> {
        let descriptor = socket.as_raw_fd();
        scheduler::with(|world| {
            if !world.watch_event(descriptor, (self.id, token)) {
                world.watch(descriptor, (self.id, token));
            }
        });
        Ok(())
    }

    /// Reports once when the socket has room to write.
    ///
    /// # Errors
    /// Never.
    pub fn await_writable(&mut self, socket: &impl AsRawFd, _: u32) -> io::Result<()> {
        scheduler::with(|world| world.await_writable(socket.as_raw_fd(), self.id));
        Ok(())
    }

    /// Stops watching a socket, or an event descriptor.
    pub fn unwatch(&mut self, socket: &impl AsRawFd, token: u32) {
        scheduler::with_if(|world| {
            if !world.unwatch_event(socket.as_raw_fd(), self.id) {
                world.unwatch(socket.as_raw_fd(), self.id);
            }
            world.rings[self.id].ready.remove(&token);
        });
    }

    /// Starts a storage operation.
    pub fn store(&mut self, storage: &Storage, operation: StorageOp, token: u64) {
        scheduler::with(|world| {
            world.rings[self.id].pending += 1;
            world.begin_operation(self.id, storage, operation, token);
        });
    }

    /// The same on storage that a library works on.
    pub fn store_remote(&mut self, storage: &dyn RemoteStorage, operation: StorageOp, token: u64) {
        scheduler::with(|world| world.rings[self.id].pending += 1);
        storage.start(RemoteOperation { ring: self.id, token, operation });
    }

    /// Storage operations that have not ended.
    pub fn stores_pending(&self) -> usize {
        scheduler::with_if(|world| world.rings[self.id].pending).unwrap_or(0)
    }

    /// Adds what has happened to `events`; when nothing has, waits for the first event or until `timeout` is over.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let began = clock::now();
        let deadline = timeout.map(|timeout| clock::now().after(timeout)).filter(|at| at.0 != u64::MAX);
        // Others have their turns between two looks, however busy this one is.
        if scheduler::with(|world| world.has_events(self.id)) {
            scheduler::step_aside();
        }
        loop {
            if scheduler::is_ending() {
                return Err(io::Error::other("the process has ended"));
            }
            let before = events.len();
            scheduler::with(|world| world.take_events(self.id, events));
            if events.iter().any(|event| matches!(event, Event::Woken)) {
                self.waker.0.is_pending.store(false, Ordering::Release);
            }
            if events.len() > before || deadline.is_some_and(|deadline| clock::now() >= deadline) {
                self.waited += clock::now().since(began);
                return Ok(());
            }
            scheduler::with(|world| {
                let waits = world.current();
                world.rings[self.id].waits = waits;
            });
            scheduler::park(deadline);
        }
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        -1
    }
}
