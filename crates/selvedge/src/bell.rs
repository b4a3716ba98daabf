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
pub(crate) struct Bell {
    heard: UnixStream,
    rope: Rope,
    signals: Vec<SigId>,
}

/// Waker of a `Bell`, for other threads.
#[derive(Clone, Debug)]
pub(crate) struct Rope(Arc<UnixStream>);

impl Bell {
    /// Creates a bell that the stop signals ring, too.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn hang() -> io::Result<Self> {
        let (heard, rope) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let mut bell = Self { heard, rope: Rope(Arc::new(rope)), signals: Vec::new() };
        for signal in crate::stop::asking() {
            bell.signals.push(low_level::pipe::register(signal, bell.rope.0.try_clone()?)?);
        }
        Ok(bell)
    }

    /// Another handle of the bell's waker.
    pub(crate) fn rope(&self) -> Rope {
        self.rope.clone()
    }

    /// Sleeps for a time, or until the bell is rung. A bell rung before the sleep ends it at once.
    pub(crate) fn sleep(&self, time: Duration) {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // A signal interrupts it, which is as good as its byte.
        let _ = poll(&mut [PollFd::new(&self.heard, PollFlags::IN)], Some(&time));
        while matches!((&self.heard).read(&mut [0; 64]), Ok(1..)) {}
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        for signal in self.signals.drain(..) {
            low_level::unregister(signal);
        }
    }
}

impl Rope {
    /// Ends the sleep, or the next one.
    pub(crate) fn pull(&self) {
        // Where there is no room, it has been rung often enough.
        let _ = (&*self.0).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn many_rings_wake_the_sleeper_once() {
        let bell = Bell::hang().unwrap();
        let rope = bell.rope();
        (0..100_000).for_each(|_| rope.pull());
        bell.sleep(LONG);
        let before = Instant::now();
        bell.sleep(Duration::from_millis(30));
        assert!(before.elapsed() >= Duration::from_millis(30), "it was heard once");
        std::thread::scope(|scope| {
            scope.spawn(|| bell.rope().pull());
            bell.sleep(LONG);
        });
    }
}
