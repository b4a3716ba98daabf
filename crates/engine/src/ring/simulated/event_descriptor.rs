//! Event descriptors of a simulation, as eventfd's are: processes that share one signal it, read it, watch it with a ring or wait
//! for it. A signal is there at once, also for a process that is paused, and stays until it is read.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use super::clock;
use super::scheduler::{self, FiberId, World};
use crate::ring::{Moment, Readiness};

/// Number of the first one, behind those of connections and listeners.
const EVENTS_AT: RawFd = 1 << 28;

/// State of an event descriptor in the world.
#[derive(Debug, Default)]
pub(super) struct EventState {
    signals: u64,
    /// Rings that watch it, with their tokens.
    watchers: Vec<(usize, u32)>,
    /// Fibers that wait for it.
    waits: Vec<FiberId>,
}

/// A descriptor by which one thread notifies another, of any process.
#[derive(Clone, Debug)]
pub struct EventDescriptor(RawFd);

impl EventDescriptor {
    /// Event descriptor without a signal.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        scheduler::with(|world| {
            world.spare()?;
            world.events.push(EventState::default());
            Ok(Self(EVENTS_AT + (world.events.len() - 1) as RawFd))
        })
    }

    /// Signals those that watch it or wait for it.
    pub fn signal(&self) {
        scheduler::with_if(|world| world.signal(self.0));
    }

    /// True if it was signalled since it was read.
    pub fn has_signal(&self) -> bool {
        scheduler::with_if(|world| world.event(self.0).signals > 0).unwrap_or(false)
    }

    /// Reads it: the number of signals since the last time.
    pub fn take(&self) -> u64 {
        scheduler::with_if(|world| std::mem::take(&mut world.event(self.0).signals)).unwrap_or(0)
    }

    /// Waits until one of these has a signal, or for `timeout`.
    pub fn wait_for_any(events: &[&Self], timeout: Option<Duration>) {
        let deadline = timeout.map(|timeout| clock::now().after(timeout)).filter(|at| at.0 != u64::MAX);
        while !scheduler::is_ending() && !Self::have_signal_or_wait(events, deadline) {
            scheduler::park(deadline);
        }
    }

    /// True if one has a signal or it is time. If not, the running fiber is woken by each of them.
    fn have_signal_or_wait(events: &[&Self], deadline: Option<Moment>) -> bool {
        scheduler::with(|world| {
            let is_due = deadline.is_some_and(|deadline| world.now >= deadline);
            if is_due || events.iter().any(|event| world.event(event.0).signals > 0) {
                return true;
            }
            for event in events {
                let current = world.current();
                let waits = &mut world.event(event.0).waits;
                waits.extend(current.filter(|current| !waits.contains(current)));
            }
            false
        })
    }
}

impl AsRawFd for EventDescriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl World {
    fn event(&mut self, descriptor: RawFd) -> &mut EventState {
        &mut self.events[(descriptor - EVENTS_AT) as usize]
    }

    fn signal(&mut self, descriptor: RawFd) {
        let state = self.event(descriptor);
        state.signals += 1;
        let (waits, mut watchers) = (std::mem::take(&mut state.waits), std::mem::take(&mut state.watchers));
        waits.into_iter().for_each(|fiber| self.unpark(fiber));
        watchers.retain(|(ring, _)| self.is_alive(self.rings[*ring].process));
        watchers.iter().for_each(|watcher| self.ready_on(*watcher, Readiness::READABLE));
        self.event(descriptor).watchers = watchers;
    }

    /// True if it is an event descriptor, which a ring watches from now on.
    pub(super) fn watch_event(&mut self, descriptor: RawFd, watcher: (usize, u32)) -> bool {
        if descriptor < EVENTS_AT {
            return false;
        }
        let state = self.event(descriptor);
        state.watchers.retain(|(ring, _)| *ring != watcher.0);
        state.watchers.push(watcher);
        if state.signals > 0 {
            self.ready_on(watcher, Readiness::READABLE);
        }
        true
    }

    /// The same of the end of that.
    pub(super) fn unwatch_event(&mut self, descriptor: RawFd, ring: usize) -> bool {
        if descriptor < EVENTS_AT {
            return false;
        }
        self.event(descriptor).watchers.retain(|(watching, _)| *watching != ring);
        true
    }
}
