//! The threads that serve the blocking library: each has a ring and its share of the controller's I/O queues,
//! and takes jobs from any thread. What is split into which commands is decided in `namespace`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nvme::SubmissionEntry;

use super::queue::{Completion, Data, Queue, QueueState, Request};
use super::{InitiatorError, QueueOptions};
use crate::limits::RECEIVE_LENGTH;
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{BufferPool, Engine, Event, Readiness, Ring, RingOptions, Waker, core};

/// A command for any queue.
pub(super) struct Job {
    pub(super) entry: SubmissionEntry,
    pub(super) data: Data,
    pub(super) reply: ReplyTo,
}

/// How a job ended.
pub(super) struct JobReply {
    pub(super) user: u64,
    /// The completion, or why the job's queue is gone.
    pub(super) outcome: Result<Completion, InitiatorError>,
}

/// Who waits for a job's end. Each gets exactly one reply: when the job is dropped, too.
pub(super) struct ReplyTo {
    user: u64,
    sender: Option<Sender<JobReply>>,
    address: SocketAddr,
}

impl ReplyTo {
    fn send(mut self, outcome: Result<Completion, InitiatorError>) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(JobReply { user: self.user, outcome });
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let outcome = Err(InitiatorError::Disconnected { address: self.address });
            let _ = sender.send(JobReply { user: self.user, outcome });
        }
    }
}

/// All threads of a controller.
#[derive(Debug)]
pub(super) struct Workers {
    workers: Vec<Worker>,
    next: AtomicUsize,
    /// Buffers of requests, shared by whoever makes them.
    pub(super) buffers: Mutex<BufferPool>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Worker {
    jobs: Sender<Job>,
    waker: Waker,
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Workers {
    /// Starts threads for `queues`, no more than there are processors, and waits until all queues are live.
    pub(super) fn start(queues: Vec<QueueOptions>, engine: Engine) -> Result<Self, InitiatorError> {
        let Some(first) = queues.first() else {
            return Err(InitiatorError::ApiMisuse("there are no I/O queues to serve".to_owned()));
        };
        let address = first.address;
        let count = core::available().len().clamp(1, queues.len());
        let mut shares: Vec<Vec<QueueOptions>> = vec![Vec::new(); count];
        for (index, queue) in queues.into_iter().enumerate() {
            shares[index % count].push(queue);
        }
        let mut started = Self {
            workers: Vec::with_capacity(count),
            next: AtomicUsize::new(0),
            buffers: Mutex::new(BufferPool::new()),
            address,
        };
        for share in shares {
            started.workers.push(Worker::start(share, engine, address)?);
        }
        Ok(started)
    }

    /// Gives a command to the next thread. Exactly one reply with `user` comes to `sender`, whatever happens.
    pub(super) fn submit(&self, entry: SubmissionEntry, data: Data, user: u64, sender: &Sender<JobReply>) {
        let reply = ReplyTo { user, sender: Some(sender.clone()), address: self.address };
        let worker = &self.workers[self.next.fetch_add(1, Ordering::Relaxed) % self.workers.len()];
        // A thread that is gone drops the job, which replies.
        let _ = worker.jobs.send(Job { entry, data, reply });
        worker.waker.wake();
    }

    /// Closes all queues and ends the threads. Jobs under way end with an error.
    pub(super) fn stop(&self) {
        for worker in &self.workers {
            worker.stopping.store(true, Ordering::Release);
            worker.waker.wake();
        }
        for worker in &self.workers {
            let thread = worker.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Worker {
    fn start(queues: Vec<QueueOptions>, engine: Engine, address: SocketAddr) -> Result<Self, InitiatorError> {
        let (jobs, inbox) = channel();
        let (opened, outcome) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let theirs = stopping.clone();
        let thread = thread::Builder::new().name("io-queues".to_owned()).spawn(move || {
            let mut server = match Server::open(&queues, engine, inbox, theirs) {
                Ok(server) => server,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(server.ring.waker()));
            server.serve();
        });
        let thread = thread.map_err(InitiatorError::system("no thread for I/O queues"))?;
        let Ok(outcome) = outcome.recv() else { return Err(InitiatorError::Disconnected { address }) };
        Ok(Self { jobs, waker: outcome?, stopping, thread: Mutex::new(Some(thread)) })
    }
}

/// What a thread itself holds.
struct Server {
    ring: Ring,
    queues: Vec<Queue>,
    next: usize,
    scratch: Vec<u8>,
    events: Vec<Event>,
    inbox: Receiver<Job>,
    /// Jobs that wait for a free slot, bounded by what the callers have outstanding.
    backlog: VecDeque<Job>,
    /// Who waits for which command.
    waiting: Vec<Option<ReplyTo>>,
    free: Vec<usize>,
    stopping: Arc<AtomicBool>,
}

impl Server {
    fn open(
        options: &[QueueOptions],
        engine: Engine,
        inbox: Receiver<Job>,
        stopping: Arc<AtomicBool>,
    ) -> Result<Self, InitiatorError> {
        let ring = Ring::new(RingOptions { engine, ..RingOptions::default() });
        let mut server = Self {
            ring: ring.map_err(InitiatorError::system("no ring for I/O queues"))?,
            queues: Vec::with_capacity(options.len()),
            next: 0,
            scratch: vec![0; RECEIVE_LENGTH],
            events: Vec::new(),
            inbox,
            backlog: VecDeque::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            stopping,
        };
        for (token, options) in options.iter().enumerate() {
            server.queues.push(Queue::open(&mut server.ring, token as u32, options)?);
        }
        while server.queues.iter().any(|queue| queue.state() != QueueState::Live) {
            server.turn();
            if let Some(error) = server.queues.iter().find_map(Queue::error) {
                return Err(error.clone());
            }
        }
        Ok(server)
    }

    fn serve(&mut self) {
        while !self.stopping.load(Ordering::Acquire) {
            self.turn();
        }
        for queue in &mut self.queues {
            queue.close(&mut self.ring);
        }
        self.backlog.extend(self.inbox.try_iter());
        self.submit_backlog();
        self.reply();
    }

    /// Waits for news, and passes it on in both directions.
    fn turn(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        if let Err(error) = self.ring.wait(self.timeout(), &mut events) {
            tracing::error!(%error, "the ring of I/O queues failed");
            self.stopping.store(true, Ordering::Release);
        }
        for queue in self.queues.iter_mut().filter(|queue| queue.has_more()) {
            queue.on_ready(&mut self.ring, &mut self.scratch, Readiness::READABLE);
        }
        for event in events.drain(..) {
            if let Event::Ready { token, readiness } = event
                && let Some(queue) = self.queues.get_mut(token as usize)
            {
                queue.on_ready(&mut self.ring, &mut self.scratch, readiness);
            }
        }
        self.events = events;
        self.reply();
        self.backlog.extend(self.inbox.try_iter());
        self.submit_backlog();
        let now = self.ring.now();
        for queue in &mut self.queues {
            queue.flush(&mut self.ring);
            queue.on_time(&mut self.ring, now);
        }
        self.reply();
        if self.error().is_some() {
            // The last queue has just gone, perhaps by its time: nothing else would wake who waits for a slot.
            self.submit_backlog();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if self.queues.iter().any(Queue::has_more) {
            return Some(Duration::ZERO);
        }
        let deadline = self.queues.iter().filter_map(Queue::next_deadline).min();
        deadline.map(|deadline| deadline.since(self.ring.now()))
    }

    fn submit_backlog(&mut self) {
        while let Some(Job { entry, data, reply }) = self.backlog.pop_front() {
            let Some(queue) = self.free_queue() else {
                if let Some(error) = self.error() {
                    reply.send(Err(error));
                    continue;
                }
                // All queues are full: there will be room.
                self.backlog.push_front(Job { entry, data, reply });
                return;
            };
            let index = self.free.pop().unwrap_or_else(|| {
                self.waiting.push(None);
                self.waiting.len() - 1
            });
            if self.queues[queue].submit(Request { entry, data, user: index as u64 }).is_ok() {
                self.waiting[index] = Some(reply);
            }
        }
    }

    /// The next queue that takes a command.
    fn free_queue(&mut self) -> Option<usize> {
        let count = self.queues.len();
        let found = (0..count).map(|step| (self.next + step) % count);
        let found = found.into_iter().find(|index| self.queues[*index].free_slots() > 0)?;
        self.next = found + 1;
        Some(found)
    }

    /// Why no queue is left, when none is.
    fn error(&self) -> Option<InitiatorError> {
        if self.queues.iter().any(|queue| queue.state() == QueueState::Live) {
            return None;
        }
        self.queues.iter().find_map(Queue::error).cloned()
    }

    /// Passes completions on to who waits for them.
    fn reply(&mut self) {
        for queue in &mut self.queues {
            while let Some(completion) = queue.pop() {
                let index = completion.user as usize;
                let Some(reply) = self.waiting.get_mut(index).and_then(Option::take) else { continue };
                self.free.push(index);
                let outcome = match queue.error() {
                    Some(error) if completion.status == nvme::Status::HOST_PATH_ERROR => Err(error.clone()),
                    _ => Ok(completion),
                };
                reply.send(outcome);
            }
        }
    }
}
