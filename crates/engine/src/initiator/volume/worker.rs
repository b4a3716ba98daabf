//! A thread that does a volume's I/O: it drives its share of the queues and takes commands from any thread. How a
//! request is split into commands is decided by `AsyncVolume`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nvme::SubmissionEntry;

use super::VolumeOptions;
use super::local_volume::LocalVolume;
use super::replies::ReplyTo;
use super::route::Reachable;
use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::driver::{CommandQueues, Driver, QueueSet};
use crate::initiator::path::{PathQueues, Paths};
use crate::initiator::queue::Data;
use crate::initiator::{InitiatorError, QueueOptions};
use crate::limits::{POLL_USUAL_US, RECEIVE_LENGTH};
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{Engine, Ring, RingOptions, Waker};

const NO_RING: &str = "no ring for a volume's I/O";

/// Request to a thread.
pub(super) enum Job {
    /// A command, for any of its queues.
    Command { entry: SubmissionEntry, data: Data, reply: ReplyTo },
    /// The beginning of a task on it.
    Begin(Box<dyn FnOnce(&LocalVolume) + Send>),
}

/// Receiver of the end of a command.
enum EndOf {
    Request(ReplyTo),
    /// A command of one of the thread's own tasks, by its slot.
    Task(usize),
}

/// The handle of the thread. Dropping it closes the thread's queues, and waits until they are.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Sender<Job>,
    waker: Waker,
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Starts thread `number` of `count`, with its share of all paths' queues. It does not wait for them: commands do.
    pub(super) fn on_paths(
        reachable: &Arc<Reachable>,
        paths: &Arc<Paths>,
        options: &VolumeOptions,
        number: u16,
        count: u16,
    ) -> Result<Self, InitiatorError> {
        let engine = options.paths.paths.first().map_or_else(Default::default, |path| path.engine);
        let (depth, paths) = (options.depth, paths.clone());
        Self::start(number, engine, reachable.clone(), move |mut ring| {
            let queues = PathQueues::open(&paths, &mut ring, 0, number, count, depth);
            // `paths` ends here: it is the volume's to end.
            Ok(Driver::new(ring, queues, RECEIVE_LENGTH))
        })
    }

    /// Starts thread `number`, with these queues of one controller, and waits until they are live.
    pub(super) fn on_controller(
        reachable: &Arc<Reachable>,
        queues: Vec<QueueOptions>,
        engine: Engine,
        number: u16,
    ) -> Result<Self, InitiatorError> {
        Self::start(number, engine, reachable.clone(), move |mut ring| {
            let mut set = QueueSet::new(0, AuthenticationWorker::new(ring.waker()));
            set.open(&mut ring, &queues)?;
            let mut driver = Driver::new(ring, set, RECEIVE_LENGTH);
            while !driver.queues().is_live() {
                if let Some(error) = driver.queues().first_error().cloned() {
                    driver.close();
                    return Err(error);
                }
                driver.flush();
                driver.turn(None).map_err(InitiatorError::system(NO_RING))?;
            }
            Ok(driver)
        })
    }

    fn start<Q: CommandQueues + 'static>(
        number: u16,
        engine: Engine,
        reachable: Arc<Reachable>,
        open: impl FnOnce(Ring) -> Result<Driver<Q, EndOf>, InitiatorError> + Send + 'static,
    ) -> Result<Self, InitiatorError> {
        let (jobs, inbox) = channel();
        let (opened, outcome) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let theirs = stopping.clone();
        let thread = thread::Builder::new().name(format!("volume-{number}")).spawn(move || {
            // A program has other work for its processors, too.
            let ring = Ring::new(RingOptions { engine, poll_us_max: POLL_USUAL_US });
            match ring.map_err(InitiatorError::system(NO_RING)).and_then(open) {
                Ok(driver) => {
                    let waker = driver.ring().waker();
                    let _ = opened.send(Ok(waker.clone()));
                    serve(driver, &inbox, &theirs, &LocalVolume::new(reachable, waker));
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        let thread = thread.map_err(InitiatorError::system("no thread for a volume's I/O"))?;
        let ended = |_| Err(InitiatorError::system(NO_RING)(io::Error::other("its thread ended at once")));
        let waker = outcome.recv().unwrap_or_else(ended)?;
        Ok(Self { jobs, waker, stopping, thread: Mutex::new(Some(thread)) })
    }

    /// Gives the thread a command. A thread that is gone drops it, which is a reply, too.
    pub(super) fn submit(&self, job: Job) {
        let _ = self.jobs.send(job);
        self.waker.wake();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A task that this very thread woke for the last time may have been the last that had the volume.
        if let Some(thread) = thread
            && !thread::is_current(&thread)
        {
            let _ = thread.join();
        }
    }
}

fn serve<Q: CommandQueues>(
    mut driver: Driver<Q, EndOf>,
    inbox: &Receiver<Job>,
    stopping: &AtomicBool,
    volume: &LocalVolume,
) {
    while !stopping.load(Ordering::Acquire) {
        take_jobs(&mut driver, inbox, volume);
        volume.tasks().poll();
        while let Some((entry, data, slot)) = volume.next_command() {
            driver.submit(entry, data, EndOf::Task(slot));
        }
        driver.flush();
        let timeout = volume.tasks().are_woken().then_some(Duration::ZERO);
        if let Err(error) = driver.turn(timeout) {
            tracing::error!(%error, "the ring of a volume's thread failed; its commands are lost");
            break;
        }
        reply(&mut driver, volume);
    }
    driver.close();
    reply(&mut driver, volume);
    // This notifies the waiters of the tasks that the volume has ended.
    volume.tasks().end();
}

fn take_jobs<Q: CommandQueues>(driver: &mut Driver<Q, EndOf>, inbox: &Receiver<Job>, volume: &LocalVolume) {
    loop {
        match inbox.try_recv() {
            Ok(Job::Command { entry, data, reply }) => driver.submit(entry, data, EndOf::Request(reply)),
            Ok(Job::Begin(begin)) => volume.tasks().enter(|| begin(volume)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
        }
    }
}

fn reply<Q: CommandQueues>(driver: &mut Driver<Q, EndOf>, volume: &LocalVolume) {
    volume.tasks().enter(|| {
        while let Some((of, ended)) = driver.pop() {
            match of {
                EndOf::Request(reply) => reply.send(ended),
                EndOf::Task(slot) => volume.end(slot, ended),
            }
        }
    });
}
