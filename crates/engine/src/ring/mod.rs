//! The seam between the engine and the machine: readiness of sockets, storage I/O, time, and waking another
//! thread. One ring belongs to one thread. It knows nothing of NVMe; a simulator can stand in its place.

mod buffer;
pub mod core;
mod epoll;
mod poll;
mod socket;
mod storage;
mod uring;
mod waker;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::time::{Duration, Instant};

pub use buffer::{Buffer, BufferPool};
pub(crate) use socket::bind_to_interface;
pub use socket::{Socket, Span, SpanMut};
pub use storage::{Storage, StorageOp};
pub use waker::Waker;

use poll::PollWindow;

/// A moment on the ring's clock, in nanoseconds since the process began to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The time from `earlier` to this moment; nothing when it is not earlier.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` later.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration.as_nanos() as u64))
    }
}

/// Which machinery is below a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// io_uring where it is allowed, else epoll.
    #[default]
    Automatic,
    /// io_uring or an error.
    IoUring,
    /// epoll, with threads for storage.
    Epoll,
}

/// How a ring is made.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Which machinery.
    pub engine: Engine,
    /// Longest time to poll before sleeping, in microseconds; 0 never polls.
    pub poll_us_max: u64,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { engine: Engine::Automatic, poll_us_max: crate::limits::POLL_US_MAX }
    }
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data, a connection to accept, or the end of the stream.
    pub readable: bool,
    /// Room in its send buffer. Reported only after `Ring::await_writable`.
    pub writable: bool,
    /// The peer sends no more, or the connection is broken. Data may still be there in front of the end, and no other
    /// event will come for it: read until the end shows, however short the reads.
    pub ended: bool,
}

impl Readiness {
    /// There may be something to read.
    pub const READABLE: Self = Self { readable: true, writable: false, ended: false };
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A watched socket may have something to read, room to write, or has come to its end.
    Ready {
        /// The token it is watched with.
        token: u32,
        /// What for.
        readiness: Readiness,
    },
    /// A storage operation ended.
    Stored {
        /// The token it was submitted with.
        token: u64,
        /// Bytes moved, or what went wrong.
        result: io::Result<usize>,
        /// The buffer that was lent to it.
        buffer: Option<Buffer>,
    },
    /// Somebody called `Waker::wake`.
    Woken,
}

enum Machinery {
    IoUring(Box<uring::Uring>),
    Epoll(Box<epoll::Epoll>),
}

/// One thread's view of the machine.
pub struct Ring {
    machinery: Machinery,
    window: PollWindow,
    waker: Waker,
}

impl Ring {
    /// A ring for the calling thread, which alone may use it.
    ///
    /// # Errors
    /// When the operating system gives neither io_uring nor epoll.
    pub fn new(options: RingOptions) -> io::Result<Self> {
        let waker = Waker::new()?;
        let machinery = match options.engine {
            Engine::Epoll => Machinery::Epoll(Box::new(epoll::Epoll::new(&waker)?)),
            Engine::IoUring => Machinery::IoUring(Box::new(uring::Uring::new(&waker)?)),
            Engine::Automatic => match uring::Uring::new(&waker) {
                Ok(uring) => Machinery::IoUring(Box::new(uring)),
                Err(error) => {
                    // Said once, not by each reactor.
                    static TOLD: Once = Once::new();
                    TOLD.call_once(|| {
                        tracing::warn!(%error, "io_uring is not to be had here; epoll and threads do instead");
                    });
                    Machinery::Epoll(Box::new(epoll::Epoll::new(&waker)?))
                }
            },
        };
        Ok(Self { machinery, window: PollWindow::new(options.poll_us_max), waker })
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

    /// Storage operations that have not ended.
    pub fn stores_pending(&self) -> usize {
        match &self.machinery {
            Machinery::IoUring(uring) => uring.stores_pending(),
            Machinery::Epoll(epoll) => epoll.stores_pending(),
        }
    }

    /// Adds what has happened to `events`; when nothing has, waits for the first event or until `timeout` is over.
    /// `None` waits for as long as it takes.
    ///
    /// # Errors
    /// When the operating system's wait fails, which leaves nothing to do but to end.
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        self.harvest(Some(Duration::ZERO), events)?;
        if events.len() > before || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let began = self.now();
        let window = self.window.length();
        if !window.is_zero() {
            let end = began.after(timeout.map_or(window, |timeout| timeout.min(window)));
            while self.now() < end {
                if self.spin() {
                    self.harvest(Some(Duration::ZERO), events)?;
                    if events.len() > before {
                        self.window.found(self.now().since(began));
                        return Ok(());
                    }
                }
                // The peer may be a thread of this very core, and then it answers only when it is let.
                core::make_way();
            }
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(self.now().since(began)));
        self.harvest(left, events)?;
        self.window.found(self.now().since(began));
        Ok(())
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
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.has_news(),
            Machinery::Epoll(_) => true,
        }
    }

    fn harvest(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        match &mut self.machinery {
            Machinery::IoUring(uring) => uring.wait(timeout, events),
            Machinery::Epoll(epoll) => epoll.wait(timeout, events),
        }
    }
}

/// The time now, on the clock of all rings.
pub fn now() -> Moment {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    Moment(START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor()
    }
}
