//! The ring on a real machine: io_uring or epoll below, and a bounded time of polling before it sleeps.
//! `simulated` has another with the same methods.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use super::clock::now;
use super::epoll::Epoll;
use super::poll::{GAP, Outstanding, Plan, PollWindows, Yielding};
use super::remote::{Away, RemoteStorage};
use super::storage::Storage;
use super::uring::Uring;
use super::waker::Waker;
use crate::ring::{Engine, Event, Moment, RingOptions, StorageOp, core};

/// Naps by which the first ring of a process measures the cost of a wake-up: together half a millisecond.
const NAPS: usize = 5;
/// Length of a nap: as short as waits for which the cost counts, in which a core does not fall into a deeper sleep.
const NAP: Duration = Duration::from_micros(50);
/// Least time of a step of polling, in nanoseconds: fewer than its looks take.
const STEP_NS_MIN: u128 = 32;

enum Machinery {
    IoUring(Box<Uring>),
    Epoll(Box<Epoll>),
}

/// Access of one thread to the machine.
pub struct Ring {
    machinery: Machinery,
    windows: PollWindows,
    yielding: Yielding,
    waker: Waker,
    away: Away,
    /// Set if the storage operation begun last is large.
    is_large: bool,
    waited: Duration,
}

/// Outcome of polling.
#[derive(Clone, Copy, Default)]
struct Polled {
    took: Duration,
    has_found: bool,
    /// Set if another thread had the core meanwhile, or the clock was set back.
    was_lost: bool,
}

impl Ring {
    /// A ring for the calling thread, which alone may use it.
    ///
    /// # Errors
    /// When the operating system gives neither io_uring nor epoll.
    pub fn new(options: RingOptions) -> io::Result<Self> {
        let waker = Waker::new()?;
        let machinery = match options.engine {
            Engine::Epoll => Machinery::Epoll(Box::new(Epoll::new(&waker)?)),
            Engine::IoUring => Machinery::IoUring(Box::new(Uring::new(&waker)?)),
            Engine::Automatic => match Uring::new(&waker) {
                Ok(uring) => Machinery::IoUring(Box::new(uring)),
                Err(error) => {
                    // Logged once, not by each reactor.
                    static LOGGED: Once = Once::new();
                    LOGGED.call_once(|| {
                        tracing::warn!(%error, "io_uring is not available; falling back to epoll");
                    });
                    Machinery::Epoll(Box::new(Epoll::new(&waker)?))
                }
            },
        };
        // Sleeps of epoll end whole milliseconds late.
        let pays = matches!(machinery, Machinery::IoUring(_)) && core::processors() > 1;
        let windows = PollWindows::new(options.poll_us_max, pays);
        let (yielding, away) = (Yielding::default(), Away::new(waker.clone()));
        let (is_large, waited) = (false, Duration::ZERO);
        let mut ring = Self { machinery, windows, yielding, waker, away, is_large, waited };
        if ring.windows.is_adaptive() {
            // Measured once, not by each ring.
            static WAKE_UP: OnceLock<Option<Duration>> = OnceLock::new();
            if let Some(cost) = WAKE_UP.get_or_init(|| ring.measured_wake_up()) {
                ring.windows.set_wake_up(*cost);
            }
        }
        Ok(ring)
    }

    /// The cost of a wake-up, unless the ring cannot sleep: then it begins with the least and learns.
    fn measured_wake_up(&mut self) -> Option<Duration> {
        self.wake_up_cost()
            .inspect(|cost| tracing::debug!(?cost, "measured a wake-up of a ring's thread"))
            .inspect_err(|error| tracing::debug!(%error, "cannot measure a wake-up of a ring's thread"))
            .ok()
    }

    /// Measures the time from an event until a thread that slept for it runs. The event is a timer's, since it alone needs no
    /// second thread. The ring must be new: nothing else can happen to it.
    fn wake_up_cost(&mut self) -> io::Result<Duration> {
        let (mut events, mut costs) = (Vec::new(), [Duration::ZERO; NAPS]);
        for cost in &mut costs {
            let began = self.now();
            self.harvest(Some(NAP), &mut events)?;
            *cost = self.now().since(began).saturating_sub(NAP);
        }
        costs.sort_unstable();
        // A low one: the others may have stolen time in them.
        Ok(costs[NAPS / 4])
    }

    /// `io_uring` or `epoll`.
    pub const fn engine_name(&self) -> &'static str {
        match self.machinery {
            Machinery::IoUring(_) => "io_uring",
            Machinery::Epoll(_) => "epoll",
        }
    }

    /// The time now.
    pub fn now(&self) -> Moment {
        now()
    }

    /// Time spent waiting for events, polling and asleep. The rest of the thread's time is work.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// A handle with which other threads wake this ring's `wait`.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Watches `socket` with `token` for things to read, until `unwatch`. Edges are reported: after an event, read
    /// until a call returns less than was asked for, and after one that says `ended` until the end shows.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn watch(&mut self, socket: &impl AsRawFd, token: u32) -> io::Result<()> {
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.watch(socket.as_raw_fd(), token),
            Machinery::Epoll(epoll) => epoll.watch(socket.as_raw_fd(), token),
        }
    }

    /// Reports once when `socket`, watched with `token`, has room to write.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn await_writable(&mut self, socket: &impl AsRawFd, token: u32) -> io::Result<()> {
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.await_writable(socket.as_raw_fd(), token),
            Machinery::Epoll(epoll) => epoll.await_writable(socket.as_raw_fd(), token),
        }
    }

    /// Stops watching `socket`; afterwards its token may be used again. Call it before the socket is closed.
    pub fn unwatch(&mut self, socket: &impl AsRawFd, token: u32) {
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.unwatch(token),
            Machinery::Epoll(epoll) => epoll.unwatch(socket.as_raw_fd()),
        }
    }

    /// Starts a storage operation. Its end is an `Event::Stored` with `token` and the buffer, exactly once.
    /// Errors, too, come that way.
    pub fn store(&mut self, storage: &Storage, operation: StorageOp, token: u64) {
        self.is_large = Outstanding::is_large(&operation);
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.store(storage, operation, token),
            Machinery::Epoll(epoll) => epoll.store(storage, operation, token),
        }
    }

    /// The same on storage that a library works on.
    pub fn store_remote(&mut self, storage: &dyn RemoteStorage, operation: StorageOp, token: u64) {
        self.is_large = Outstanding::is_large(&operation);
        self.away.send(storage, operation, token);
    }

    /// Storage operations that have not ended.
    pub fn stores_pending(&self) -> usize {
        let own = match &self.machinery {
            Machinery::IoUring(uring) => uring.stores_pending(),
            Machinery::Epoll(epoll) => epoll.stores_pending(),
        };
        own + self.away.pending()
    }

    /// Adds what has happened to `events`; when nothing has, waits for the first event or until `timeout` is over.
    /// `None` waits for as long as it takes.
    ///
    /// # Errors
    /// When the operating system's wait fails, which leaves nothing to do but to end.
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before_events = events.len();
        self.harvest(Some(Duration::ZERO), events)?;
        if events.len() > before_events || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let began = self.now();
        // As it is now: events take operations off.
        let outstanding = Outstanding::of(self.stores_pending(), self.is_large);
        let Plan { doze, poll } = self.windows.plan(outstanding, began);
        let left = |now: Moment| timeout.map(|timeout| timeout.saturating_sub(now.since(began)));
        let mut now = began;
        if !doze.is_zero() {
            let doze = timeout.map_or(doze, |timeout| timeout.min(doze));
            self.harvest(Some(doze), events)?;
            now = self.now();
            self.windows.dozed(doze, now.since(began), events.len() > before_events);
        }
        let mut polled = Polled::default();
        if events.len() == before_events {
            let window = left(now).map_or(poll, |left| left.min(poll));
            polled = self.poll(window, now, events)?;
            if !polled.has_found {
                let left = left(now.after(polled.took));
                self.harvest(left, events)?;
            }
        }
        let ended = if polled.has_found { now.after(polled.took) } else { self.now() };
        let waited = ended.since(began);
        self.waited += waited;
        // The length of a wait without the time that was lost in it is unknown.
        if polled.was_lost {
            return Ok(());
        }
        if polled.has_found {
            self.windows.found(outstanding, waited);
        } else if events.len() > before_events {
            self.windows.slept(outstanding, waited, polled.took);
        } else {
            self.windows.expired(waited);
        }
        Ok(())
    }

    /// Polls from `began`, which is now, for up to `window`.
    fn poll(&mut self, window: Duration, began: Moment, events: &mut Vec<Event>) -> io::Result<Polled> {
        let before_events = events.len();
        let (mut polled, mut before) = (Polled::default(), began);
        let mut steps_left = window.as_nanos() / STEP_NS_MIN + 1;
        while polled.took < window && !polled.was_lost && steps_left > 0 {
            steps_left -= 1;
            if self.spin() {
                self.harvest(Some(Duration::ZERO), events)?;
                polled.has_found = events.len() > before_events;
            }
            let mut now = self.now();
            if !polled.has_found && self.yielding.is_due(now.since(began)) {
                core::make_way();
                let yielded_at = std::mem::replace(&mut now, self.now());
                let has_news = self.has_news();
                self.yielding.yielded(now.since(yielded_at), has_news);
            }
            polled.was_lost = self.was_lost(before, now);
            polled.took = now.since(began);
            if polled.has_found {
                break;
            }
            before = now;
        }
        if steps_left == 0 && polled.took < window && !polled.has_found {
            // A clock that stands still does not keep the ring from its sleep, nor the next time from the beginning.
            self.windows.lost(window, before);
            polled.was_lost = true;
        }
        Ok(polled)
    }

    /// True if another thread had the core during a step of polling, or the clock was set back; the windows then count it.
    fn was_lost(&mut self, before: Moment, now: Moment) -> bool {
        let gap = now.since(before);
        let was_lost = gap > GAP || now < before;
        if was_lost {
            self.windows.lost(gap, now);
        }
        was_lost
    }

    /// Looks for news some times in a row: for about as long as making way for other threads takes.
    fn spin(&mut self) -> bool {
        const LOOKS: u32 = 32;
        (0..LOOKS).any(|_| {
            std::hint::spin_loop();
            self.has_news()
        })
    }

    fn has_news(&mut self) -> bool {
        if self.away.has_news() {
            return true;
        }
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.has_news(),
            Machinery::Epoll(_) => true,
        }
    }

    fn harvest(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        // An operation that comes back from here on wakes the ring; while the ring is awake that is
        // not necessary.
        let is_awake = timeout == Some(Duration::ZERO) || !self.away.falls_asleep();
        let timeout = if is_awake { Some(Duration::ZERO) } else { timeout };
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.wait(timeout, events)?,
            Machinery::Epoll(epoll) => epoll.wait(timeout, events)?,
        }
        self.away.take_back(events);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll::Outstanding::{self, Large, Many, Nothing, Small};
    use super::*;
    use crate::limits::{POLL_US_MAX, POLL_USUAL_US, WAKE_UP_US_MAX};
    use crate::ring::core;

    /// A ring that may poll for as long as reactors do by default, where a wake-up costs 25 µs; nothing where the machine
    /// refuses the engine.
    fn ring(engine: Engine) -> Option<Ring> {
        let ring = Ring::new(RingOptions { engine, poll_us_max: POLL_US_MAX });
        let mut ring = prerequisite::available("io_uring", ring)?;
        ring.windows.set_wake_up(Duration::from_micros(25));
        Some(ring)
    }

    /// True if the ring ever follows waits of a length that a ring with exact timers dozes or polls for.
    fn follows(ring: &mut Ring, outstanding: Outstanding) -> bool {
        let usual = Plan { doze: Duration::ZERO, poll: Duration::from_micros(2 * POLL_USUAL_US) };
        (5..5 * WAKE_UP_US_MAX).step_by(5).any(|wait_us| {
            (0..2000).any(|_| {
                let plan = ring.windows.plan(outstanding, Moment(0));
                ring.windows.slept(outstanding, Duration::from_micros(wait_us), Duration::ZERO);
                plan.doze > usual.doze || plan.poll > usual.poll
            })
        })
    }

    #[test]
    fn a_ring_on_epoll_never_dozes() {
        let mut ring = ring(Engine::Epoll).unwrap();
        assert!(
            [Nothing, Small, Large, Many].into_iter().all(|outstanding| !follows(&mut ring, outstanding))
        );
    }

    #[test]
    fn a_ring_on_io_uring_follows_its_disk() {
        let Some(mut ring) = ring(Engine::IoUring) else { return };
        assert_eq!(follows(&mut ring, Small), core::processors() > 1);
    }
}
