//! Sleep that a signal or another thread ends. It keeps out what either means.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::low_level;

/// Interruptible sleep of one thread.
#[derive(Debug)]
pub(crate) struct Sleeper {
    receiver: UnixStream,
    waker: Waker,
    signals: Vec<SigId>,
}

/// Waker of a `Sleeper`, for other threads.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<UnixStream>);

impl Sleeper {
    /// Creates a sleeper that the stop signals wake, too.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        let (receiver, waker) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let mut sleeper = Self { receiver, waker: Waker(Arc::new(waker)), signals: Vec::new() };
        for signal in crate::stop::asking() {
            sleeper.signals.push(low_level::pipe::register(signal, sleeper.waker.0.try_clone()?)?);
        }
        Ok(sleeper)
    }

    /// Another handle of the sleeper's waker.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sleeps for a time, or until it is woken. A wake-up before the sleep ends it at once.
    pub(crate) fn sleep(&self, time: Duration) {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // A signal interrupts it, which is as good as its byte.
        let _ = poll(&mut [PollFd::new(&self.receiver, PollFlags::IN)], Some(&time));
        while matches!((&self.receiver).read(&mut [0; 64]), Ok(1..)) {}
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        for signal in self.signals.drain(..) {
            low_level::unregister(signal);
        }
    }
}

impl Waker {
    /// Ends the sleep, or the next one.
    pub(crate) fn wake(&self) {
        // Where there is no room, it has been woken often enough.
        let _ = (&*self.0).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn many_wake_ups_end_one_sleep() {
        let sleeper = Sleeper::new().unwrap();
        let waker = sleeper.waker();
        (0..100_000).for_each(|_| waker.wake());
        sleeper.sleep(LONG);
        let before = Instant::now();
        sleeper.sleep(Duration::from_millis(30));
        assert!(before.elapsed() >= Duration::from_millis(30), "it was woken once");
        std::thread::scope(|scope| {
            scope.spawn(|| sleeper.waker().wake());
            sleeper.sleep(LONG);
        });
    }
}
