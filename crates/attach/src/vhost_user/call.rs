//! Notification of a guest (a call), which never waits for the guest's monitor. The eventfd and its flags are shared: a monitor
//! that fills the counter and makes writes wait would block a thread that writes, and with it all guests of that thread.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Entries of the ring: each call is submitted at once.
const RING_ENTRIES: u32 = 2;

/// The eventfd by which a guest is notified of used entries of a virtqueue.
pub(super) struct Call {
    event: Arc<OwnedFd>,
    /// Ring whose completions the kernel counts on the eventfd, which does not wait; `None` where there is no io_uring.
    ring: Option<Box<IoUring>>,
}

impl Call {
    /// Call by this eventfd.
    pub(super) fn new(event: Arc<OwnedFd>) -> Self {
        let ring = ring(&event);
        if let Err(error) = &ring {
            tracing::debug!(%error, "guests are notified without io_uring");
        }
        Self { event, ring: ring.ok().map(Box::new) }
    }

    /// The same without io_uring.
    pub(super) const fn plain(event: Arc<OwnedFd>) -> Self {
        Self { event, ring: None }
    }

    /// Notifies the guest. A full counter notifies as well.
    pub(super) fn signal(&mut self) {
        let is_done = self.ring.as_deref_mut().is_some_and(|ring| complete(ring).is_ok());
        if !is_done {
            self.write();
        }
    }

    /// Writes to the eventfd if its counter has room. A monitor that fills it at this moment, and has made writes wait, blocks
    /// this thread until it reads.
    fn write(&self) {
        let mut polled = [PollFd::new(&self.event, PollFlags::OUT)];
        if poll(&mut polled, Some(&Timespec::default())).is_ok()
            && polled[0].revents().contains(PollFlags::OUT)
        {
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({}, by a ring: {})", self.event.as_raw_fd(), self.ring.is_some())
    }
}

fn ring(event: &OwnedFd) -> io::Result<IoUring> {
    let ring = IoUring::new(RING_ENTRIES)?;
    ring.submitter().register_eventfd(event.as_raw_fd())?;
    Ok(ring)
}

/// Has an operation that does nothing completed.
fn complete(ring: &mut IoUring) -> io::Result<()> {
    // A full queue has operations that were refused before, which notify as well.
    // SAFETY: the operation refers to no memory.
    #[allow(unsafe_code)]
    let _ = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    ring.submit()?;
    ring.completion().for_each(drop);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use prerequisite::patience;
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn both() -> [(Arc<OwnedFd>, Call); 2] {
        [Call::new, Call::plain].map(|call| {
            // As one that its monitor has made wait.
            let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
            (event.clone(), call(event))
        })
    }

    fn read(event: &OwnedFd) -> u64 {
        let mut counter = [0; 8];
        rustix::io::read(event, &mut counter).unwrap();
        u64::from_ne_bytes(counter)
    }

    #[test]
    fn each_call_is_counted() {
        for (event, mut call) in both() {
            for calls in [1, 5] {
                (0..calls).for_each(|_| call.signal());
                assert_eq!(read(&event), calls, "{call:?}");
            }
        }
    }

    #[test]
    fn operations_that_were_refused_are_made_up_for() {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let mut call = Call::new(event.clone());
        let Some(ring) = call.ring.as_deref_mut() else { return prerequisite::missing("io_uring") };
        let nop = opcode::Nop::new().build();
        while !ring.submission().is_full() {
            // SAFETY: the operation refers to no memory.
            #[allow(unsafe_code)]
            let pushed = unsafe { ring.submission().push(&nop) };
            pushed.expect("there is room");
        }
        call.signal();
        assert!(read(&event) >= 1);
        let ring = call.ring.as_deref_mut().expect("it is still there");
        assert!(ring.submission().is_empty(), "each further call would be a write that may wait");
    }

    #[test]
    fn a_full_counter_that_makes_writes_wait_is_not_waited_for() {
        for (event, mut call) in both() {
            rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            let (tell, ended) = channel();
            let thread = std::thread::spawn(move || {
                (0..10).for_each(|_| call.signal());
                let _ = tell.send(());
            });
            let outcome = ended.recv_timeout(patience());
            // A thread that waits goes on.
            assert!(read(&event) >= u64::MAX - 1);
            assert!(outcome.is_ok(), "it has waited");
            thread.join().unwrap();
        }
    }
}
