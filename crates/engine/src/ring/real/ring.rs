//! The ring on a real machine: io_uring or epoll below, and a bounded time of polling before it sleeps.
//! `simulated` has another with the same methods.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::time::Duration;

use super::clock::now;
use super::epoll::Epoll;
use super::poll::{GAP, PollWindows, Yielding};
use super::remote::{Away, RemoteStorage};
use super::storage::Storage;
use super::uring::Uring;
use super::waker::Waker;
use crate::ring::{Engine, Event, Moment, RingOptions, StorageOp, core};

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
    waited: Duration,
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
        let (windows, away) = (PollWindows::new(options.poll_us_max), Away::new(waker.clone()));
        let (yielding, waited) = (Yielding::default(), Duration::ZERO);
        Ok(Self { machinery, windows, yielding, waker, away, waited })
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
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.store(storage, operation, token),
            Machinery::Epoll(epoll) => epoll.store(storage, operation, token),
        }
    }

    /// The same on storage that a library works on.
    pub fn store_remote(&mut self, storage: &dyn RemoteStorage, operation: StorageOp, token: u64) {
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
        let pending = self.stores_pending();
        let window = self.windows.beside(pending).length(began);
        let mut polled = Duration::ZERO;
        let mut was_lost = false;
        if !window.is_zero() {
            let window = timeout.map_or(window, |timeout| timeout.min(window));
            let mut before = began;
            while polled < window {
                if self.spin() {
                    self.harvest(Some(Duration::ZERO), events)?;
                    if events.len() > before_events {
                        let now = self.now();
                        let waited = now.since(began);
                        self.waited += waited;
                        if !was_lost && !self.was_lost(before, now, pending) {
                            self.windows.beside(pending).found(waited);
                        }
                        return Ok(());
                    }
                }
                let mut now = self.now();
                if self.yielding.is_due(now.since(began)) {
                    core::make_way();
                    let yielded_at = std::mem::replace(&mut now, self.now());
                    let has_news = self.has_news();
                    self.yielding.yielded(now.since(yielded_at), has_news);
                }
                was_lost |= self.was_lost(before, now, pending);
                polled = now.since(began);
                before = now;
            }
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(polled));
        self.harvest(left, events)?;
        let waited = self.now().since(began);
        self.waited += waited;
        if !was_lost {
            self.windows.beside(pending).slept(waited, polled);
        }
        Ok(())
    }

    /// True if another thread had the core during a step of polling; the window then counts it.
    fn was_lost(&mut self, before: Moment, now: Moment, pending: usize) -> bool {
        let gap = now.since(before);
        if gap > GAP {
            self.windows.beside(pending).lost(gap, now);
        }
        gap > GAP
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
