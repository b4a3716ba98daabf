//! A reactor: one thread with one ring that gives every connection it has its turns.
//! What a connection does with its turn is the connection's; which reactor gets it is the listener's.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::connection::{Connection, Environment, Session, Verdict};
use super::slot::Slots;
use super::subsystem::{Fabric, NamespaceView, lock};
use crate::limits::{RECEIVE_LENGTH, SHUTDOWN_TIMEOUT_MS};
use crate::ring::{BufferPool, Event, Moment, Ring, RingOptions, Socket, Waker, core};

/// How often deadlines and keep alive timers are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// The same while the target ends and queues wait for each other.
const SHUTDOWN_INTERVAL: Duration = Duration::from_millis(10);

/// News for a reactor.
#[derive(Debug)]
pub(super) enum Message {
    /// A connection to serve.
    Connection(Socket),
    /// The I/O queues of this controller are to be closed, and its admin queue when it has ended.
    CloseQueues(u16),
    /// Finish what is under way, and end.
    Shutdown,
}

/// The way to a reactor.
#[derive(Debug)]
pub(super) struct Mailbox {
    sender: Mutex<Sender<Message>>,
    waker: Waker,
    connections: AtomicUsize,
}

impl Mailbox {
    /// Sends news; a reactor that has ended has no use for it.
    pub(super) fn send(&self, message: Message) {
        let _ = lock(&self.sender).send(message);
        self.waker.wake();
    }

    /// Connections the reactor has, those on their way to it included.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Takes note of a connection on its way.
    pub(super) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }
}

/// A running reactor, seen from outside.
#[derive(Debug)]
pub(super) struct Reactor {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
    thread_id: i32,
}

impl Reactor {
    /// Starts reactor `number`, on `cpu` when one is given.
    pub(super) fn start(
        number: usize,
        cpu: Option<usize>,
        options: RingOptions,
        fabric: Arc<Fabric>,
    ) -> io::Result<Self> {
        let (reply, started) = channel();
        let thread = std::thread::Builder::new().name(format!("reactor-{number}")).spawn(move || {
            let ring = match cpu.map_or(Ok(()), core::pin_to).and_then(|()| Ring::new(options)) {
                Ok(ring) => ring,
                Err(error) => {
                    let _ = reply.send(Err(error));
                    return;
                }
            };
            let (sender, messages) = channel();
            let mailbox = Arc::new(Mailbox {
                sender: Mutex::new(sender),
                waker: ring.waker(),
                connections: AtomicUsize::new(0),
            });
            let _ = reply.send(Ok((mailbox.clone(), core::thread_id())));
            tracing::debug!(number, ?cpu, engine = ring.engine_name(), "reactor starts");
            Turns::new(ring, mailbox, messages, fabric).run();
        })?;
        let (mailbox, thread_id) =
            started.recv().map_err(|_| io::Error::other("the reactor's thread ended"))??;
        Ok(Self { mailbox, thread, thread_id })
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Processor time it has used.
    pub(super) fn cpu_time(&self) -> Duration {
        core::time_of_thread(self.thread_id).unwrap_or_default()
    }

    /// Waits for its end.
    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("a reactor ended by a panic");
        }
    }
}

/// What is left of a connection whose storage operations have not ended: they still use its buffers and files.
struct Remains {
    slots: Slots,
    _namespaces: Option<Rc<NamespaceView>>,
}

/// The reactor from inside.
struct Turns {
    ring: Ring,
    pool: BufferPool,
    mailbox: Arc<Mailbox>,
    messages: Receiver<Message>,
    fabric: Arc<Fabric>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    remains: HashMap<u32, Remains>,
    scratch: Vec<u8>,
    again: Vec<u32>,
    dirty: Vec<u32>,
    spare: Vec<u32>,
    next_sweep: Moment,
    shutdown: Option<Moment>,
}

impl Turns {
    fn new(ring: Ring, mailbox: Arc<Mailbox>, messages: Receiver<Message>, fabric: Arc<Fabric>) -> Self {
        Self {
            ring,
            pool: BufferPool::new(),
            mailbox,
            messages,
            fabric,
            connections: Vec::new(),
            free: Vec::new(),
            remains: HashMap::new(),
            scratch: vec![0; RECEIVE_LENGTH],
            again: Vec::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
            next_sweep: Moment(0),
            shutdown: None,
        }
    }

    fn run(mut self) {
        let mut events = Vec::new();
        loop {
            let timeout = self.timeout();
            if let Err(error) = self.ring.wait(timeout, &mut events) {
                tracing::error!(%error, "a reactor cannot wait for events and ends");
                return self.close_all();
            }
            let now = self.ring.now();
            // The two lists change places with a spare one, so that no round allocates.
            let mut tokens = std::mem::replace(&mut self.again, std::mem::take(&mut self.spare));
            for token in tokens.drain(..) {
                self.turn(token, now, Connection::on_readable);
            }
            for event in events.drain(..) {
                self.on_event(event, now);
            }
            std::mem::swap(&mut self.dirty, &mut tokens);
            for token in tokens.drain(..) {
                self.turn(token, now, |connection, env, _| connection.flush_or_close(env, Verdict::Wait));
            }
            self.spare = tokens;
            if now >= self.next_sweep {
                self.sweep(now);
            }
            if self.shutdown.is_some_and(|deadline| now >= deadline || self.is_empty()) {
                return self.close_all();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.mailbox.connections() == 0 && self.remains.is_empty()
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.is_empty() && self.shutdown.is_none() {
            return None;
        }
        Some(self.next_sweep.since(self.ring.now()))
    }

    fn on_event(&mut self, event: Event, now: Moment) {
        match event {
            Event::Ready { token, readiness } => {
                if readiness.writable {
                    self.turn(token, now, |connection, env, _| connection.on_writable(env));
                }
                if readiness.readable {
                    self.turn(token, now, |connection, env, scratch| {
                        connection.ended |= readiness.ended;
                        connection.on_readable(env, scratch)
                    });
                }
            }
            Event::Stored { token, result, buffer } => {
                let (connection, slot) = ((token >> 32) as u32, token as u16);
                let at = connection as usize;
                if let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) {
                    let mut env =
                        Environment { ring: &mut self.ring, pool: &mut self.pool, fabric: &self.fabric, now };
                    connection.on_stored(slot, result, buffer, &mut env);
                    if !std::mem::replace(&mut connection.dirty, true) {
                        self.dirty.push(connection.token);
                    }
                } else {
                    self.stored_for_nobody(connection);
                }
            }
            Event::Woken => {
                while let Ok(message) = self.messages.try_recv() {
                    self.on_message(message, now);
                }
            }
        }
    }

    /// A storage operation of a closed connection has ended.
    fn stored_for_nobody(&mut self, token: u32) {
        if let Some(remains) = self.remains.get_mut(&token) {
            remains.slots.abandon();
            if remains.slots.storing() == 0 {
                self.remains.remove(&token);
                self.free.push(token);
            }
        }
    }

    fn on_message(&mut self, message: Message, now: Moment) {
        match message {
            Message::Connection(socket) => self.add(socket, now),
            Message::CloseQueues(controller) => {
                let belongs = |connection: &Connection| match &connection.session {
                    Session::New => false,
                    Session::Io { controller: of, .. } => of.id == controller,
                    Session::Admin { controller: of, .. } => of.id == controller && of.has_ended(),
                };
                let tokens: Vec<u32> =
                    self.connections.iter().flatten().filter(|c| belongs(c)).map(|c| c.token).collect();
                for token in tokens {
                    self.close(token);
                }
            }
            Message::Shutdown => {
                self.shutdown = Some(now.after(Duration::from_millis(SHUTDOWN_TIMEOUT_MS)));
                for connection in self.connections.iter_mut().flatten() {
                    connection.drain();
                }
                self.next_sweep = now;
            }
        }
    }

    fn add(&mut self, socket: Socket, now: Moment) {
        if self.shutdown.is_some() {
            self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let token = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() as u32 - 1
        });
        if let Err(error) = self.ring.watch(&socket, token) {
            tracing::warn!(%error, "a connection cannot be watched and is closed");
            self.free.push(token);
            self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.next_sweep = self.next_sweep.max(now);
        self.connections[token as usize] = Some(Box::new(Connection::new(token, socket, now)));
        self.turn(token, now, Connection::on_readable);
    }

    /// Gives a connection its turn, and does what it then needs.
    fn turn(
        &mut self,
        token: u32,
        now: Moment,
        turn: impl FnOnce(&mut Connection, &mut Environment<'_>, &mut [u8]) -> Verdict,
    ) {
        let Some(connection) = self.connections.get_mut(token as usize).and_then(Option::as_mut) else {
            return;
        };
        connection.dirty = false;
        let mut env = Environment { ring: &mut self.ring, pool: &mut self.pool, fabric: &self.fabric, now };
        match turn(connection, &mut env, &mut self.scratch) {
            Verdict::Close => self.close(token),
            _ if connection.has_drained() => self.leave(token, now),
            Verdict::Again => self.again.push(token),
            Verdict::Wait => {}
        }
    }

    /// Ends a connection after all that was under way.
    fn leave(&mut self, token: u32, now: Moment) {
        let Some(connection) = self.connections[token as usize].as_mut() else { return };
        release(&self.fabric, &connection.session);
        connection.take_leave(now);
        self.again.push(token);
    }

    fn close(&mut self, token: u32) {
        let Some(connection) = self.connections[token as usize].take() else { return };
        self.ring.unwatch(&connection.socket, token);
        self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
        let namespaces = connection.namespaces();
        release(&self.fabric, &connection.session);
        if connection.slots.storing() > 0 {
            let slots = connection.slots;
            self.remains.insert(token, Remains { slots, _namespaces: namespaces });
        } else {
            self.free.push(token);
        }
    }

    fn close_all(&mut self) {
        for token in 0..self.connections.len() as u32 {
            self.close(token);
        }
        // Buffers and files must outlive the operations on them.
        let mut events = Vec::new();
        let deadline = self.ring.now().after(Duration::from_millis(SHUTDOWN_TIMEOUT_MS));
        while self.ring.stores_pending() > 0 && self.ring.now() < deadline {
            if self.ring.wait(Some(SWEEP_INTERVAL), &mut events).is_err() {
                return;
            }
            events.clear();
        }
    }

    /// Looks at everything that depends on time.
    fn sweep(&mut self, now: Moment) {
        self.next_sweep = now.after(if self.shutdown.is_some() { SHUTDOWN_INTERVAL } else { SWEEP_INTERVAL });
        let (mut ended, mut drained) = (Vec::new(), Vec::new());
        let mut quiet = true;
        for connection in self.connections.iter_mut().flatten() {
            if connection.deadline.is_some_and(|deadline| now >= deadline) {
                ended.push(connection.token);
            } else if connection.has_drained() {
                drained.push(connection.token);
            }
            let heard = std::mem::take(&mut connection.heard);
            quiet &= !heard;
            let Some(controller) = connection.controller() else { continue };
            if heard {
                controller.hear(now);
            }
        }
        for token in ended {
            self.close(token);
        }
        for token in drained {
            // A turn in which nothing is left to do is the last.
            self.turn(token, now, |_, _, _| Verdict::Wait);
        }
        // Only now: another queue of the same controller may have been heard in this very sweep.
        let mut silent = Vec::new();
        for connection in self.connections.iter().flatten() {
            if let Session::Admin { controller, .. } = &connection.session
                && controller.is_silent(now)
            {
                silent.push((connection.token, controller.clone()));
            }
        }
        for (token, controller) in silent {
            tracing::warn!(
                controller = controller.id,
                host = controller.host.nqn,
                keep_alive_ms = controller.keep_alive_ms(),
                "keep alive timer ran out"
            );
            self.close(token);
        }
        // Nothing happened for a whole interval: what the last burst needed goes back to the system.
        if quiet {
            self.pool.trim();
        }
    }
}

/// Takes a queue out of its controller, and with an admin queue ends the controller.
fn release(fabric: &Fabric, session: &Session) {
    match session {
        Session::New => {}
        Session::Admin { controller, .. } => {
            tracing::info!(controller = controller.id, host = controller.host.nqn, "a host leaves");
            fabric.end_controller(controller);
        }
        Session::Io { controller, counters, queue_id, .. } => {
            controller.remove_queue(*queue_id);
            controller.subsystem.retire_counters(counters);
        }
    }
}
