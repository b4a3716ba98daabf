//! A reactor from inside: one thread with one ring that gives every connection it has its turns.
//! What a connection does with its turn is the connection's.

mod messages;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::admission::Network;
use super::cache_flush::{CacheFlushes, FLUSHES};
use super::connection::{Connection, Environment, Session, Verdict};
use super::fabric::Fabric;
use super::fence::Fence;
use super::half_open::HalfOpen;
use super::mailbox::{Arrival, Mailbox, Message};
use super::remains::Remains;
use super::storage_watch::{QueueOwner, StorageWatch};
use crate::limits::{GREETINGS_PER_ROUND, RECEIVE_LENGTH, SHUTDOWN_TIMEOUT_MS, WORK_BYTES_PER_TURN};
use crate::ring::channel::Receiver;
use crate::ring::{BufferPool, Event, Moment, Ring};

/// How often deadlines and keep alive timers are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// The same while the target ends and queues wait for each other.
const SHUTDOWN_INTERVAL: Duration = Duration::from_millis(10);

/// The next connection's serial number.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// Moments at which connections want a turn, with their tokens and serial numbers; the next comes first.
pub(super) type Timers = BinaryHeap<Reverse<(Moment, u32, u64)>>;

/// The reactor from inside.
pub(super) struct Turns {
    ring: Ring,
    pool: BufferPool,
    mailbox: Arc<Mailbox>,
    messages: Receiver<Message>,
    fabric: Arc<Fabric>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    remains: HashMap<u32, Remains>,
    cache_flushes: CacheFlushes,
    scratch: Vec<u8>,
    again: Vec<u32>,
    dirty: Vec<u32>,
    spare: Vec<u32>,
    timers: Timers,
    fences: Vec<Arc<Fence>>,
    /// Connections that have not had their first turn, and how many not yet queues have had one in this round.
    arrivals: HalfOpen<Arrival>,
    /// Connections that are not queues yet, by their tokens.
    half_open: HalfOpen<u32>,
    greeted: usize,
    /// Bytes of work that each connection may have done in this round which has some left from the last one.
    work_share: u64,
    next_sweep: Moment,
    watch: StorageWatch,
    /// When the last round began, and no later was anything heard that the next sweep reports.
    last_round: Moment,
    shutdown: Option<Moment>,
}

impl Turns {
    pub(super) fn new(
        ring: Ring,
        mailbox: Arc<Mailbox>,
        messages: Receiver<Message>,
        fabric: Arc<Fabric>,
    ) -> Self {
        Self {
            ring,
            pool: BufferPool::new(),
            mailbox,
            messages,
            fabric,
            connections: Vec::new(),
            free: Vec::new(),
            remains: HashMap::new(),
            cache_flushes: CacheFlushes::default(),
            scratch: vec![0; RECEIVE_LENGTH],
            again: Vec::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
            timers: Timers::new(),
            fences: Vec::new(),
            arrivals: HalfOpen::default(),
            half_open: HalfOpen::default(),
            greeted: 0,
            work_share: WORK_BYTES_PER_TURN,
            next_sweep: Moment(0),
            watch: StorageWatch::default(),
            last_round: Moment(0),
            shutdown: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut events = Vec::new();
        loop {
            let timeout = self.timeout();
            if let Err(error) = self.ring.wait(timeout, &mut events) {
                tracing::error!(%error, "a reactor cannot wait for events and ends");
                return self.close_all();
            }
            let now = self.ring.now();
            // First: when the process was stopped for a while, hosts may have given up on commands that still wait in
            // sockets, and whose keep alive timer ran out begins none of them.
            if now >= self.next_sweep {
                self.sweep(now);
            }
            self.mailbox.tally.round(events.len(), self.pool.kept_bytes());
            // The two lists change places with a spare one, so that no round allocates.
            let mut tokens = std::mem::replace(&mut self.again, std::mem::take(&mut self.spare));
            self.greeted = 0;
            self.work_share = WORK_BYTES_PER_TURN / tokens.len().max(1) as u64;
            for token in tokens.drain(..) {
                if let Some(Some(connection)) = self.connections.get_mut(token as usize) {
                    connection.is_due = false;
                }
                if self.has_its_turn(token) {
                    self.turn(token, now, Connection::on_readable);
                }
            }
            for event in events.drain(..) {
                self.on_event(event, now);
            }
            self.take_in(now);
            std::mem::swap(&mut self.dirty, &mut tokens);
            for token in tokens.drain(..) {
                self.turn(token, now, |connection, env, _| connection.flush_or_close(env, Verdict::Wait));
            }
            self.spare = tokens;
            if !self.timers.is_empty() {
                self.run_timers(now);
            }
            // Last: a command may have ended by its storage, by another fence, or with its connection.
            if !self.fences.is_empty() {
                self.pass_fences();
            }
            self.last_round = now;
            if self.shutdown.is_some_and(|deadline| now >= deadline || self.is_empty()) {
                return self.close_all();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.mailbox.connections() == 0 && self.remains.is_empty()
    }

    /// Takes new connections in, a few in each round.
    fn take_in(&mut self, now: Moment) {
        while self.greeted < GREETINGS_PER_ROUND {
            let Some(arrival) = self.arrivals.pop() else { return };
            self.greeted += 1;
            self.add(arrival, now);
        }
    }

    /// Whether a connection has its turn in this round. One that is not a queue yet may have to wait: after a restart
    /// thousands come at once, and those who work already must not notice.
    fn has_its_turn(&mut self, token: u32) -> bool {
        let connection = self.connections.get(token as usize).and_then(Option::as_ref);
        if !connection.is_some_and(|connection| matches!(connection.session, Session::New)) {
            return true;
        }
        if self.greeted >= GREETINGS_PER_ROUND {
            self.have_turn(token);
            return false;
        }
        self.greeted += 1;
        true
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() || !self.arrivals.is_empty() {
            return Some(Duration::ZERO);
        }
        let is_watched = !self.watch.is_idle() || self.fabric.has_lateness();
        if self.is_empty() && self.shutdown.is_none() && !is_watched {
            return None;
        }
        let timer = self.timers.peek().map_or(self.next_sweep, |Reverse((moment, ..))| *moment);
        Some(timer.min(self.next_sweep).since(self.ring.now()))
    }

    fn on_event(&mut self, event: Event, now: Moment) {
        match event {
            Event::Ready { token, readiness } => {
                if readiness.writable {
                    self.turn(token, now, |connection, env, _| connection.on_writable(env));
                }
                if readiness.readable {
                    if let Some(Some(connection)) = self.connections.get_mut(token as usize) {
                        connection.ended |= readiness.ended;
                    }
                    if self.has_its_turn(token) {
                        self.turn(token, now, Connection::on_readable);
                    }
                }
            }
            Event::Stored { token, result, buffer } => {
                let (connection, slot) = ((token >> 32) as u32, token as u16);
                if connection == FLUSHES {
                    return self.cache_flushes.ended(token as u32, &result, &self.fabric);
                }
                let at = connection as usize;
                if let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) {
                    let mut env = Environment {
                        ring: &mut self.ring,
                        pool: &mut self.pool,
                        fabric: &self.fabric,
                        mailbox: &self.mailbox,
                        timers: &mut self.timers,
                        now,
                    };
                    connection.on_stored(slot, result, buffer, &mut env);
                    if !std::mem::replace(&mut connection.dirty, true) {
                        self.dirty.push(connection.token);
                    }
                } else {
                    if let Some(remains) = self.remains.get_mut(&connection) {
                        remains.operation_ended(slot, &result, &self.fabric, now);
                    }
                    self.stored_for_nobody(connection);
                }
            }
            Event::Woken => self.read_messages(now),
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

    fn read_messages(&mut self, now: Moment) {
        while let Ok(message) = self.messages.try_recv() {
            self.on_message(message, now);
        }
    }

    /// Gives the connection with this token a turn, if it still is the one with this serial number; whether it is.
    fn turn_of(
        &mut self,
        token: u32,
        serial: u64,
        now: Moment,
        turn: impl FnOnce(&mut Connection, &mut Environment<'_>),
    ) -> bool {
        let known = self.connections.get(token as usize).and_then(Option::as_ref);
        if known.is_none_or(|connection| connection.serial != serial) {
            return false;
        }
        self.turn(token, now, |connection, env, _| {
            turn(connection, env);
            connection.flush_or_close(env, Verdict::Wait)
        });
        true
    }

    /// The tokens of these connections.
    fn tokens(&self, is_meant: impl Fn(&Connection) -> bool) -> Vec<u32> {
        let connections = self.connections.iter().flatten();
        connections.filter(|connection| is_meant(connection)).map(|connection| connection.token).collect()
    }

    /// Gives connections their turn whose commands may start now within the limits.
    fn run_timers(&mut self, now: Moment) {
        while let Some(Reverse((moment, token, serial))) = self.timers.peek().copied() {
            if moment > now {
                return;
            }
            self.timers.pop();
            self.turn_of(token, serial, now, |connection, env| connection.run_lanes(env));
        }
    }

    fn add(&mut self, arrival: Arrival, now: Moment) {
        if self.shutdown.is_some() {
            self.mailbox.discount_connection(false);
            return;
        }
        let token = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() as u32 - 1
        });
        if let Err(error) = self.ring.watch(&arrival.socket, token) {
            tracing::warn!(%error, "a connection cannot be watched and is closed");
            self.free.push(token);
            self.mailbox.discount_connection(false);
            return;
        }
        self.next_sweep = self.next_sweep.max(now);
        // Tokens are used again; a serial number never is, on any reactor.
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        self.half_open.push(token, Network::of(arrival.peer.ip()));
        self.connections[token as usize] = Some(Box::new(Connection::new(token, serial, arrival, now)));
        self.turn(token, now, Connection::on_readable);
        if let Some(surplus) = self.half_open.take_surplus() {
            self.mailbox.tally.count_dropped();
            self.close(surplus);
        }
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
        connection.work_share = self.work_share;
        let was_queue = connection.is_queue;
        let mut env = Environment {
            ring: &mut self.ring,
            pool: &mut self.pool,
            fabric: &self.fabric,
            mailbox: &self.mailbox,
            timers: &mut self.timers,
            now,
        };
        let verdict = turn(connection, &mut env, &mut self.scratch);
        let verdict = connection.answer_disconnect(&mut env, verdict);
        connection.tell_meter();
        let wants_turn = connection.wants_turn();
        if connection.is_queue && !was_queue {
            self.mailbox.count_queue();
            self.half_open.remove(|open| *open == token);
        }
        match verdict {
            Verdict::Close => self.close(token),
            _ if connection.has_drained() => self.leave(token, now),
            Verdict::Again => self.have_turn(token),
            Verdict::Wait if wants_turn => self.have_turn(token),
            Verdict::Wait => {}
        }
    }

    /// Ends a connection after all that was under way.
    fn leave(&mut self, token: u32, now: Moment) {
        let Some(connection) = self.connections[token as usize].as_mut() else { return };
        release(&self.fabric, connection);
        connection.take_leave(now);
        self.have_turn(token);
    }

    /// Gives a connection a turn in the next round: one, however often it is asked for.
    fn have_turn(&mut self, token: u32) {
        if let Some(Some(connection)) = self.connections.get_mut(token as usize)
            && !std::mem::replace(&mut connection.is_due, true)
        {
            self.again.push(token);
        }
    }

    fn close(&mut self, token: u32) {
        let Some(mut connection) = self.connections[token as usize].take() else { return };
        connection.forget_held_back();
        self.ring.unwatch(&connection.socket, token);
        self.mailbox.discount_connection(connection.is_queue);
        if !connection.is_queue {
            self.half_open.remove(|open| *open == token);
        }
        release(&self.fabric, &connection);
        match Remains::of(*connection, &self.fabric) {
            Some(remains) => drop(self.remains.insert(token, remains)),
            None => self.free.push(token),
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
            connection.release_former();
            connection.trim_lanes();
            let Some(controller) = connection.controller() else { continue };
            if heard {
                controller.hear(self.last_round);
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
        self.end_silent(now);
        self.watch_storage(now);
        // Nothing happened for a whole interval: what the last burst needed goes back to the system.
        if quiet {
            self.pool.trim();
        }
    }

    /// Looks how long operations are at the storage.
    fn watch_storage(&mut self, now: Moment) {
        let living = self.connections.iter_mut().flatten().filter(|known| known.slots.storing() > 0);
        let living = living.filter_map(|known| Some((QueueOwner::of(&known.session)?, &mut known.slots)));
        let left = self.remains.values_mut().filter_map(|left| Some((left.queue.clone()?, &mut left.slots)));
        self.watch.look(living.chain(left), &self.fabric, now);
    }

    /// Ends the controllers whose keep alive timers ran out. Every reactor that has a queue of one looks, since the one
    /// with its admin queue may wake later.
    fn end_silent(&mut self, now: Moment) {
        let mut silent = Vec::new();
        for connection in self.connections.iter().flatten() {
            if let Some(controller) = connection.controller()
                && (controller.has_ended() || controller.is_silent(now))
            {
                silent.push((connection.token, controller.clone()));
            }
        }
        for (token, controller) in silent {
            if !controller.has_ended() {
                tracing::warn!(
                    controller = controller.id,
                    host = controller.host.nqn,
                    keep_alive_ms = controller.keep_alive_ms(),
                    "keep alive timer ran out"
                );
                self.fabric.end_controller(&controller);
            }
            self.close(token);
        }
    }
}

/// Takes a queue out of its controller, and with an admin queue ends the controller.
fn release(fabric: &Fabric, connection: &Connection) {
    match &connection.session {
        Session::New => {}
        Session::Admin { controller, .. } => {
            tracing::info!(controller = controller.id, host = controller.host.nqn, "a host leaves");
            fabric.end_controller(controller);
        }
        Session::Io { controller, meter, .. } => {
            controller.remove_queue(connection.serial);
            fabric.give_queue(controller);
            meter.close();
        }
    }
}
