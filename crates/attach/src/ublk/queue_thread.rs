//! The thread of one queue of a device: it opens what it needs, waits for the word, and then asks for requests.

use std::io;
use std::sync::atomic::Ordering;

use engine::ring::channel::{Receiver, Sender, channel};
use engine::ring::thread::{Builder, JoinHandle};
use engine::ring::{Ring, RingOptions, Waker};

use super::queue::{Plan, Queue};
use super::tally::DeviceTally;

pub(super) struct QueueThread {
    waker: Waker,
    thread: JoinHandle<DeviceTally>,
    begin: Sender<()>,
    started: Receiver<io::Result<()>>,
}

impl QueueThread {
    /// Starts it, and waits until it has opened what it needs.
    pub(super) fn start(plan: Plan, ring: RingOptions) -> io::Result<Self> {
        let (opened, outcome) = channel();
        let (begin, word) = channel();
        let (tell, started) = channel();
        let queue_control = plan.queue_control.clone();
        let thread = Builder::new().name(format!("ublk-{}", plan.number)).spawn(move || {
            let queue = Ring::new(ring).and_then(|ring| {
                let waker = ring.waker();
                Queue::open(ring, plan).map(|queue| (waker, queue))
            });
            let mut queue = match queue {
                Ok((waker, queue)) => {
                    let _ = opened.send(Ok(waker));
                    queue
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return DeviceTally::default();
                }
            };
            // The sender is dropped when another queue could not be opened.
            if word.recv().is_err() {
                return DeviceTally::default();
            }
            let begun = queue.fetch();
            let goes_on = begun.is_ok();
            let _ = tell.send(begun);
            let tally = if goes_on { queue.run() } else { DeviceTally::default() };
            queue_control.ended.fetch_add(1, Ordering::AcqRel);
            tally
        })?;
        let ended = |_| Err(io::Error::other("it ended at once"));
        let waker = outcome.recv().unwrap_or_else(ended)?;
        Ok(Self { waker, thread, begin, started })
    }

    /// Has it ask for requests.
    pub(super) fn begin(&self) {
        // One that has ended says so below.
        let _ = self.begin.send(());
    }

    /// Waits until it has asked for requests.
    pub(super) fn begun(&self) -> io::Result<()> {
        self.started.recv().unwrap_or_else(|_| Err(io::Error::other("it has ended")))
    }

    pub(super) const fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end.
    pub(super) fn join(self) -> DeviceTally {
        drop(self.begin);
        self.thread.join().unwrap_or_default()
    }
}
