//! The thread of a controller's admin queue: serves admin commands from other threads, keeps the association
//! alive and keeps requests for asynchronous events outstanding. What the commands mean is known to who sends
//! them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nvme::command::admin_opcode;
use nvme::features::AsyncEvent;
use nvme::{Status, SubmissionEntry};

use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::driver::{Driver, QueueSet};
use crate::initiator::queue::{Completion, Data, Queue};
use crate::initiator::{ConcatKey, ConnectOptions, InitiatorError, QueueOptions};
use crate::limits::{BUFFER_LENGTH_MAX, RECEIVE_LENGTH};
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{Buffer, Moment, Ring, RingOptions, Waker};
use crate::ring::{Engine, EventCount};

/// Events that are kept for `Controller::events`; the oldest give way.
const EVENTS_KEPT_MAX: usize = 256;
/// Slots that callers' commands leave free, so that Keep Alive never waits.
const KEEP_ALIVE_SLOTS: usize = 1;
/// An admin queue has little to receive at a time.
const SCRATCH_LENGTH: usize = RECEIVE_LENGTH / 8;

/// Result of an admin command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminReply {
    /// The controller's status.
    pub status: Status,
    /// Completion dwords 0 and 1.
    pub result: u64,
    /// Data from the controller; all zero after a failure, empty if none was requested.
    pub data: Vec<u8>,
}

impl AdminReply {
    /// The reply itself when it succeeded.
    ///
    /// # Errors
    /// `CommandFailed` with the status and `what` failed.
    pub fn success(self, what: &'static str) -> Result<Self, InitiatorError> {
        if self.status.is_success() {
            Ok(self)
        } else {
            Err(InitiatorError::CommandFailed { what, status: self.status })
        }
    }
}

type Reply = Result<AdminReply, InitiatorError>;

enum Job {
    Command { entry: SubmissionEntry, data: Data, reply: Sender<Reply> },
    Began(Began),
    Stop,
}

/// The controller is ready: it is to be kept alive, and its events taken.
pub(super) struct Began {
    /// Number of events that may be requested at a time.
    pub(super) events: usize,
    /// Keep alive time-out in milliseconds; 0 for none.
    pub(super) keep_alive_ms: u32,
    /// Set if it takes new TLS keys on a connection.
    pub(super) takes_key_updates: bool,
}

#[derive(Debug, Default)]
struct Shared {
    events: Mutex<VecDeque<AsyncEvent>>,
    error: OnceLock<InitiatorError>,
    /// Time of sending of the last Keep Alive that was answered, in nanoseconds; 0 where none is
    /// sent.
    kept_alive_ns: AtomicU64,
    /// Notified of each event, and at the end.
    event_count: Option<Arc<EventCount>>,
}

impl Shared {
    fn notify(&self) {
        if let Some(event_count) = &self.event_count {
            event_count.notify_all();
        }
    }
}

/// The handle of the thread. Dropping it closes the connection, without a shutdown.
#[derive(Debug)]
pub(super) struct AdminThread {
    address: SocketAddr,
    jobs: Sender<Job>,
    waker: Waker,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AdminThread {
    /// Starts the thread and connects its queue; with it comes the controller's identifier. `event_count` is notified for each
    /// event, and when the connection has ended.
    pub(super) fn start(
        options: &ConnectOptions,
        concat: Option<&Arc<ConcatKey>>,
        event_count: Option<Arc<EventCount>>,
    ) -> Result<(Self, u16), InitiatorError> {
        let (jobs, inbox) = channel();
        let (opened, outcome) = channel();
        let shared = Arc::new(Shared { event_count, ..Shared::default() });
        let admin = QueueOptions { concat: concat.cloned(), ..options.admin_queue() };
        let (engine, theirs) = (options.engine, shared.clone());
        let address = options.address;
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            let mut server = match Server::open(&admin, engine, inbox, theirs) {
                Ok(server) => server,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok((server.driver.ring().waker(), server.controller_id())));
            server.serve();
        });
        let thread = thread.map_err(InitiatorError::system("no thread for the admin queue"))?;
        let Ok(outcome) = outcome.recv() else { return Err(InitiatorError::Disconnected { address }) };
        let (waker, id) = outcome?;
        let thread = Mutex::new(Some(thread));
        Ok((Self { address, jobs, waker, shared, thread }, id))
    }

    /// Tells the thread that the controller is ready.
    pub(super) fn began(&self, began: Began) {
        let _ = self.send(Job::Began(began));
    }

    /// Sends a command and waits for its end.
    pub(super) fn command(
        &self,
        entry: SubmissionEntry,
        send: Option<&[u8]>,
        receive_length: usize,
    ) -> Reply {
        self.command_within(entry, send, receive_length, Duration::MAX)
    }

    /// Sends a command and waits for its end, but no longer than `timeout`.
    pub(super) fn command_within(
        &self,
        entry: SubmissionEntry,
        send: Option<&[u8]>,
        receive_length: usize,
        timeout: Duration,
    ) -> Reply {
        let data = data_of(send, receive_length)?;
        let (reply, outcome) = channel();
        self.send(Job::Command { entry, data, reply })?;
        match outcome.recv_timeout(timeout) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Disconnected) => Err(self.lost()),
            Err(RecvTimeoutError::Timeout) => {
                let what = "an admin command's completion";
                Err(InitiatorError::TimedOut { address: self.address, what, after: timeout })
            }
        }
    }

    /// Events since the last call.
    pub(super) fn take_events(&self) -> Vec<AsyncEvent> {
        self.shared.events.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Time since the last Keep Alive that was answered; `None` where none is sent.
    pub(super) fn silence(&self, now: Moment) -> Option<Duration> {
        let since = self.shared.kept_alive_ns.load(Ordering::Relaxed);
        (since > 0).then(|| now.since(Moment(since)))
    }

    /// Why the connection ended, if it did.
    pub(super) fn check(&self) -> Result<(), InitiatorError> {
        self.shared.error.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Closes the connection and ends the thread.
    pub(super) fn stop(&self) {
        let _ = self.send(Job::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn send(&self, job: Job) -> Result<(), InitiatorError> {
        self.jobs.send(job).map_err(|_| self.lost())?;
        self.waker.wake();
        Ok(())
    }

    fn lost(&self) -> InitiatorError {
        self.shared.error.get().cloned().unwrap_or(InitiatorError::Disconnected { address: self.address })
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn data_of(send: Option<&[u8]>, receive_length: usize) -> Result<Data, InitiatorError> {
    let length = send.map_or(receive_length, <[u8]>::len);
    if length > BUFFER_LENGTH_MAX {
        let text = format!("an admin command moves at most {BUFFER_LENGTH_MAX} bytes, not {length}");
        return Err(InitiatorError::ApiMisuse(text));
    }
    match send {
        Some(_) if receive_length > 0 => {
            Err(InitiatorError::ApiMisuse("a command moves data in one direction only".to_owned()))
        }
        Some(bytes) => {
            let mut buffer = Buffer::zeroed(length);
            buffer.copy_from_slice(bytes);
            Ok(Data::Send(buffer))
        }
        None if receive_length == 0 => Ok(Data::None),
        None => Ok(Data::Receive(Buffer::zeroed(length))),
    }
}

/// Purpose of a command on the queue.
enum Purpose {
    /// A caller waits for its end, and for data.
    Caller {
        reply: Sender<Reply>,
        receives: bool,
    },
    KeepAlive,
    AsyncEvent,
}

/// State of the thread.
struct Server {
    driver: Driver<QueueSet, Purpose>,
    inbox: Receiver<Job>,
    shared: Arc<Shared>,
    address: SocketAddr,
    keep_alive: Option<KeepAlive>,
    stopping: bool,
}

struct KeepAlive {
    timeout: Duration,
    next: Moment,
    sent: Option<Moment>,
}

impl Server {
    /// Connects, and waits until the queue is live.
    fn open(
        options: &QueueOptions,
        engine: Engine,
        inbox: Receiver<Job>,
        shared: Arc<Shared>,
    ) -> Result<Self, InitiatorError> {
        let ring = Ring::new(RingOptions { engine, poll_us_max: 0 });
        let mut ring = ring.map_err(InitiatorError::system("no ring for the admin queue"))?;
        let mut queues = QueueSet::new(0, AuthenticationWorker::new(ring.waker()));
        queues.open(&mut ring, std::slice::from_ref(options))?;
        let mut server = Self {
            driver: Driver::new(ring, queues, SCRATCH_LENGTH),
            inbox,
            shared,
            address: options.address,
            keep_alive: None,
            stopping: false,
        };
        server.until_live()?;
        // A key has come out of the authentication in clear: from now on everything is TLS.
        if options.concat.is_some() && !server.driver.queues().queues().iter().all(Queue::is_secure) {
            let (queues, ring) = server.driver.parts();
            queues.abandon(ring);
            queues.clear();
            queues.open(ring, std::slice::from_ref(options))?;
            server.until_live()?;
        }
        Ok(server)
    }

    /// Waits until the queue is live.
    fn until_live(&mut self) -> Result<(), InitiatorError> {
        while !self.driver.queues().is_live() {
            if let Some(error) = self.driver.queues().first_error() {
                return Err(error.clone());
            }
            self.driver.flush();
            self.turn();
        }
        Ok(())
    }

    fn controller_id(&self) -> u16 {
        self.driver.queues().queues().first().map_or(0, Queue::controller_id)
    }

    fn serve(&mut self) {
        while !self.stopping {
            self.turn();
            self.take_jobs();
            self.keep_alive();
            self.driver.flush();
            self.reply();
        }
        self.driver.close();
        self.reply();
        self.shared.notify();
    }

    /// Waits for news of the queue or from other threads, and passes it on.
    fn turn(&mut self) {
        let now = self.driver.ring().now();
        let timeout = self.keep_alive.as_ref().map(|keep_alive| keep_alive.deadline().since(now));
        if let Err(error) = self.driver.turn_beside(timeout, KEEP_ALIVE_SLOTS) {
            tracing::error!(%error, "the admin queue's ring failed");
            self.driver.close();
            self.stopping = true;
        }
        self.reply();
    }

    fn take_jobs(&mut self) {
        loop {
            match self.inbox.try_recv() {
                Ok(Job::Command { entry, data, reply }) => {
                    let receives = matches!(data, Data::Receive(_));
                    let purpose = Purpose::Caller { reply, receives };
                    self.driver.submit_beside(entry, data, purpose, KEEP_ALIVE_SLOTS);
                }
                Ok(Job::Began(began)) => self.begin(&began),
                Ok(Job::Stop) | Err(TryRecvError::Disconnected) => self.stopping = true,
                Err(TryRecvError::Empty) => return,
            }
            if self.stopping {
                return;
            }
        }
    }

    fn begin(&mut self, &Began { events, keep_alive_ms, takes_key_updates }: &Began) {
        if takes_key_updates {
            self.driver.parts().0.use_key_updates();
        }
        if keep_alive_ms > 0 {
            let timeout = Duration::from_millis(u64::from(keep_alive_ms));
            let now = self.driver.ring().now();
            self.keep_alive = Some(KeepAlive { timeout, next: due(now, timeout), sent: None });
            self.shared.kept_alive_ns.store(now.0.max(1), Ordering::Relaxed);
        }
        for _ in 0..events {
            self.request_event();
        }
    }

    fn request_event(&mut self) {
        let entry = SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0);
        if !self.driver.submit_first(entry, Data::None, Purpose::AsyncEvent) {
            tracing::debug!("no slot for an asynchronous event request");
        }
    }

    /// Sends Keep Alive when half of its time is over, and gives up when all of it is.
    fn keep_alive(&mut self) {
        let now = self.driver.ring().now();
        let Some(keep_alive) = &mut self.keep_alive else { return };
        if !self.driver.queues().is_live() {
            self.keep_alive = None;
            return;
        }
        if let Some(sent) = keep_alive.sent {
            let after = keep_alive.timeout;
            if now.since(sent) >= after {
                let what = "the answer to Keep Alive";
                let _ =
                    self.shared.error.set(InitiatorError::TimedOut { address: self.address, what, after });
                let (queues, ring) = self.driver.parts();
                queues.abandon(ring);
                self.shared.notify();
            }
        } else if now >= keep_alive.next {
            let entry = SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
            if self.driver.submit_first(entry, Data::None, Purpose::KeepAlive) {
                keep_alive.sent = Some(now);
            }
        }
    }

    /// Passes completions on to who waits for them.
    fn reply(&mut self) {
        if let Some(error) = self.driver.queues().first_error()
            && self.shared.error.set(error.clone()).is_ok()
        {
            self.shared.notify();
        }
        while let Some((purpose, ended)) = self.driver.pop() {
            match (purpose, ended.answer()) {
                (Purpose::KeepAlive, Ok(completion)) => self.kept_alive(completion.status),
                (Purpose::AsyncEvent, Ok(completion)) => self.event(completion.status, completion.result),
                (Purpose::KeepAlive | Purpose::AsyncEvent, Err(_)) => {}
                (Purpose::Caller { reply, .. }, Err(_)) => {
                    let _ = reply.send(Err(self.lost()));
                }
                (Purpose::Caller { reply, receives }, Ok(Completion { status, result, data, .. })) => {
                    let data = data.filter(|_| receives).map(|data| data.to_vec()).unwrap_or_default();
                    let _ = reply.send(Ok(AdminReply { status, result, data }));
                }
            }
        }
    }

    fn kept_alive(&mut self, status: Status) {
        let now = self.driver.ring().now();
        let Some(keep_alive) = &mut self.keep_alive else { return };
        if !status.is_success() {
            let address = self.address;
            tracing::warn!(%address, "the target refused Keep Alive with {status}; it may give this host up");
        }
        // The controller's timer restarted when it took the command, so half of it from the sending on is safe.
        let sent = keep_alive.sent.take().unwrap_or(now);
        self.shared.kept_alive_ns.store(sent.0.max(1), Ordering::Relaxed);
        keep_alive.next = due(sent, keep_alive.timeout);
    }

    fn event(&mut self, status: Status, result: u64) {
        if !self.driver.queues().is_live() {
            return;
        }
        if !status.is_success() {
            tracing::debug!(address = %self.address, %status, "an asynchronous event request was refused");
            return;
        }
        let event = AsyncEvent::decode(result as u32);
        tracing::info!(address = %self.address, ?event, "asynchronous event");
        let mut events = self.shared.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == EVENTS_KEPT_MAX {
            events.pop_front();
        }
        events.push_back(event);
        drop(events);
        self.shared.notify();
        self.request_event();
        self.driver.flush();
    }

    fn lost(&self) -> InitiatorError {
        let error = self.shared.error.get().or_else(|| self.driver.queues().first_error());
        error.cloned().unwrap_or(InitiatorError::Disconnected { address: self.address })
    }
}

/// Due time of the Keep Alive after one that was sent: half of its time-out later at most, and at a
/// multiple of that. All controllers of a process with the same time-out then keep alive together,
/// so that its processor, and their target's, wakes up once for all.
fn due(sent: Moment, timeout: Duration) -> Moment {
    let latest = sent.after(timeout / 2);
    let interval_ns = (timeout / 2).as_nanos().max(1) as u64;
    Moment(latest.0 - latest.0 % interval_ns)
}

impl KeepAlive {
    /// Time of the next action.
    fn deadline(&self) -> Moment {
        self.sent.map_or(self.next, |sent| sent.after(self.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_a_process_keep_alive_together() {
        let timeout = Duration::from_secs(5);
        let half_ns = 2_500_000_000;
        for began in [0, 1, 700_000_000, half_ns - 1, half_ns, 12_345_678_901] {
            let first = due(Moment(began), timeout);
            assert!(first > Moment(began) && first <= Moment(began).after(timeout / 2));
            assert_eq!(first.0 % half_ns, 0);
            // It leaves a little late each time, and the next one is not moved on by that.
            assert_eq!(due(first.after(Duration::from_millis(3)), timeout), first.after(timeout / 2));
        }
    }
}
