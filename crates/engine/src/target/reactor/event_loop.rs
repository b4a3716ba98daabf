//! A reactor from inside: one thread with one ring that gives every connection it has its turns.
//! What a connection does with its turn is the connection's.

mod hand_over;
mod messages;
mod sweep;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::cache_flush::{CacheFlushes, FLUSHES};
use super::connection::{Connection, Environment, NextTurn};
use super::freezing::Freezing;
use super::greetings::Greetings;
use super::half_open::HalfOpen;
use super::keep_alives::KeepAlives;
use super::orphaned_slots::OrphanedSlots;
use super::role::Role;
use crate::limits::{RECEIVE_LENGTH, SHUTDOWN_TIMEOUT_MS, WORK_BYTES_PER_TURN};
use crate::ring::channel::Receiver;
use crate::ring::{Buffer, BufferPool, Event, Moment, Ring};
use crate::target::controller::Network;
use crate::target::fabric::Fabric;
use crate::target::io::{HostBuffers, QueueOwner, StorageToken, StorageWatch};
use crate::target::messaging::{Address, Arrival, Fence, Mailbox, Message};

/// Interval at which a reactor that ends checks for remaining storage operations.
const CLOSING_INTERVAL: Duration = Duration::from_millis(500);
/// No moment.
const NEVER: Moment = Moment(u64::MAX);

/// The next connection's serial number.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// Moments at which connections want a turn, with their tokens and serial numbers; the next comes first.
type Timers = BinaryHeap<Reverse<(Moment, u32, u64)>>;

/// The reactor from inside.
pub(crate) struct EventLoop {
    ring: Ring,
    pool: BufferPool,
    mailbox: Arc<Mailbox>,
    messages: Receiver<Message>,
    fabric: Arc<Fabric>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    orphaned: HashMap<u32, OrphanedSlots>,
    cache_flushes: CacheFlushes,
    scratch: Vec<u8>,
    again: Vec<u32>,
    dirty: Vec<u32>,
    spare: Vec<u32>,
    timers: Timers,
    fences: Vec<Arc<Fence>>,
    /// Connections that have not had their first turn.
    arrivals: HalfOpen<Arrival>,
    /// Connections that are not queues yet, by their tokens.
    half_open: HalfOpen<u32>,
    greetings: Greetings,
    host_buffers: HostBuffers,
    /// Bytes of work that each connection may have done in this round which has some left from the last one.
    work_share: u64,
    /// The next sweep: never later than the first controller here could be silent.
    next_sweep: Moment,
    /// Connections that the next sweep looks at.
    watched: Vec<u32>,
    /// The controllers whose queues these are.
    keep_alives: KeepAlives,
    watch: StorageWatch,
    /// Start of the last round. Nothing that the next sweep reports was received later.
    last_round: Moment,
    shutdown: Option<Moment>,
    /// The rest that its queues come to, for another process.
    freezing: Option<Freezing>,
}

impl EventLoop {
    pub(crate) fn new(
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
            orphaned: HashMap::new(),
            cache_flushes: CacheFlushes::default(),
            scratch: vec![0; RECEIVE_LENGTH],
            again: Vec::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
            timers: Timers::new(),
            fences: Vec::new(),
            arrivals: HalfOpen::default(),
            half_open: HalfOpen::default(),
            greetings: Greetings::default(),
            host_buffers: HostBuffers::default(),
            work_share: WORK_BYTES_PER_TURN,
            next_sweep: NEVER,
            watched: Vec::new(),
            keep_alives: KeepAlives::default(),
            watch: StorageWatch::default(),
            last_round: Moment(0),
            shutdown: None,
            freezing: None,
        }
    }

    pub(crate) fn run(mut self) {
        let mut events = Vec::new();
        loop {
            let timeout = self.timeout();
            if let Err(error) = self.ring.wait(timeout, &mut events) {
                tracing::error!(%error, "a reactor cannot wait for events and ends");
                return self.close_all();
            }
            let now = self.ring.now();
            // First: when the process was stopped for a while, hosts may have given up on commands that still wait in their
            // sockets. A controller whose keep alive timer ran out meanwhile must end before it begins one of them.
            if now >= self.next_sweep {
                self.sweep(now);
            }
            self.mailbox.tally.round(events.len(), self.pool.kept_bytes(), self.ring.waited());
            self.greetings.begin_round(&mut self.again);
            // The two lists change places with a spare one, so that no round allocates.
            let mut tokens = std::mem::replace(&mut self.again, std::mem::take(&mut self.spare));
            self.work_share = WORK_BYTES_PER_TURN / tokens.len().max(1) as u64;
            // Before the new events: connections with work left from the last round would otherwise wait behind every
            // connection that has become readable since.
            for token in tokens.drain(..) {
                if let Some(Some(connection)) = self.connections.get_mut(token as usize) {
                    // Before its turn, in which it may ask for the next one.
                    connection.is_due = false;
                }
                if self.has_its_turn(token) {
                    self.turn(token, now, Connection::on_readable);
                }
            }
            for event in events.drain(..) {
                self.on_event(event, now);
            }
            // After established queues had their turns: thousands that connect after a restart must not delay them.
            self.take_in(now);
            // After all completions of this round: what one connection sends leaves with one system call.
            std::mem::swap(&mut self.dirty, &mut tokens);
            for token in tokens.drain(..) {
                self.turn(token, now, |connection, env, _| connection.flush_or_close(env, NextTurn::Wait));
            }
            self.spare = tokens;
            if !self.timers.is_empty() {
                self.run_timers(now);
            }
            // After everything that can end a command (storage, another fence, a closed connection): checked earlier, a fence
            // would wait for one more round, and there may be none for long.
            if !self.fences.is_empty() {
                self.pass_fences();
            }
            if self.is_freezing() {
                // After the fences, which a target that comes to rest waits for.
                self.settle_freezing(now);
            }
            // Only now: what a sweep finds counts as received when the round before began. Set before the sweep, a process that
            // was stopped would take hosts for alive that have been silent meanwhile.
            self.last_round = now;
            self.schedule_sweep(now);
            // After the fences: other reactors may wait for one that this reactor's last command has just freed.
            if self.shutdown.is_some_and(|deadline| now >= deadline || self.is_empty()) {
                return self.close_all();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.mailbox.connections() == 0 && self.orphaned.is_empty()
    }

    /// Takes new connections in, a few in each round.
    fn take_in(&mut self, now: Moment) {
        while !self.arrivals.is_empty() && self.greetings.take_for_arrival() {
            let Some(arrival) = self.arrivals.pop() else { return };
            self.add(arrival, now);
        }
    }

    /// True if a connection has its turn in this round. Connections that are not queues yet may
    /// have to wait: after a restart thousands arrive at once, and must not delay established
    /// queues.
    fn has_its_turn(&mut self, token: u32) -> bool {
        let connection = self.connections.get(token as usize).and_then(Option::as_ref);
        if !connection.is_some_and(|connection| {
            !matches!(connection.role(), Role::Io(_) | Role::Admin(_) | Role::Preparing(_))
        }) {
            return true;
        }
        if self.greetings.take(!self.arrivals.is_empty()) {
            return true;
        }
        if let Some(Some(connection)) = self.connections.get_mut(token as usize)
            && !std::mem::replace(&mut connection.is_due, true)
        {
            self.greetings.postpone(token);
        }
        false
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() || self.greetings.are_postponed() || !self.arrivals.is_empty() {
            return Some(Duration::ZERO);
        }
        let timer = self.timers.peek().map_or(NEVER, |Reverse((moment, ..))| *moment);
        let next = timer.min(self.next_sweep);
        let now = self.ring.now();
        self.mailbox.tally.sleeps(now, self.ring.waited());
        (next != NEVER).then(|| next.since(now))
    }

    fn on_event(&mut self, event: Event, now: Moment) {
        match event {
            Event::Ready { token, readiness } => {
                // Sending first makes room: a connection whose replies are stuck takes no more commands.
                if readiness.writable {
                    self.turn(token, now, |connection, env, _| connection.on_writable(env));
                }
                if readiness.readable {
                    if readiness.ended
                        && let Some(Some(connection)) = self.connections.get_mut(token as usize)
                    {
                        connection.queue.end_input();
                    }
                    if self.has_its_turn(token) {
                        self.turn(token, now, Connection::on_readable);
                    }
                }
            }
            Event::Stored { token, result, buffer } => self.on_stored(token, result, buffer, now),
            Event::Woken => self.read_messages(now),
        }
    }

    /// The storage has done with an operation.
    fn on_stored(&mut self, token: u64, result: io::Result<usize>, buffer: Option<Buffer>, now: Moment) {
        let StorageToken { connection: at, slot } = StorageToken::from_bits(token);
        if at == FLUSHES {
            return self.cache_flushes.ended(token as u32, &result, &self.fabric);
        }
        let Some(connection) = self.connections.get_mut(at as usize).and_then(Option::as_mut) else {
            if let Some(orphaned) = self.orphaned.get_mut(&at) {
                orphaned.operation_ended(slot, (&result, buffer), &self.fabric, (&mut self.pool, now));
            }
            return self.trim_orphaned(at);
        };
        let mut env = Environment { ring: &mut self.ring, pool: &mut self.pool, fabric: &self.fabric, now };
        connection.with_io(&mut env, |commands, ctx| [commands.stored(slot, result, buffer, ctx)]);
        // What it has to send leaves at the end of the round, with that of other operations.
        if !std::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push(at);
        }
    }

    /// Discards a command of a closed connection after a worker or a fence has finished with it.
    fn discard_orphaned(&mut self, at: u32, slot: u16) {
        if let Some(orphaned) = self.orphaned.get_mut(&at) {
            orphaned.slots.discard(slot, &mut self.pool);
        }
        self.trim_orphaned(at);
    }

    /// Frees a closed connection's slots once no operation or worker uses them.
    fn trim_orphaned(&mut self, at: u32) {
        if self.orphaned.get(&at).is_some_and(|orphaned| orphaned.slots.kept() == 0) {
            self.orphaned.remove(&at);
            self.free.push(at);
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
        if known.is_none_or(|connection| connection.address.serial != serial) {
            return false;
        }
        self.turn(token, now, |connection, env, _| {
            turn(connection, env);
            connection.flush_or_close(env, NextTurn::Wait)
        });
        true
    }

    /// The tokens of these connections.
    fn tokens(&self, is_meant: impl Fn(&Connection) -> bool) -> Vec<u32> {
        let connections = self.connections.iter().flatten();
        connections
            .filter(|connection| is_meant(connection))
            .map(|connection| connection.address.connection)
            .collect()
    }

    /// Gives connections their turn whose commands may start now within the limits.
    fn run_timers(&mut self, now: Moment) {
        while let Some(Reverse((moment, token, serial))) = self.timers.peek().copied() {
            if moment > now {
                return;
            }
            self.timers.pop();
            self.turn_of(token, serial, now, |connection, env| {
                connection.with_io(env, |commands, ctx| {
                    commands.run_throttles(ctx.now);
                    None
                });
            });
        }
    }

    /// A token that no connection has.
    fn free_token(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() as u32 - 1
        })
    }

    fn add(&mut self, arrival: Arrival, now: Moment) {
        if self.shutdown.is_some() {
            self.mailbox.discount_connection(false);
            return;
        }
        let token = self.free_token();
        if let Err(error) = self.ring.watch(&*arrival.socket, token) {
            if let Some(times) = self.fabric.refusals.count_without_room() {
                tracing::warn!(%error, times, "a connection cannot be watched and is closed");
            }
            self.free.push(token);
            self.mailbox.discount_connection(false);
            return;
        }
        // Tokens are reused; a serial number never is, on any reactor.
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        // Before its first turn, which may make it a queue and take it out again.
        self.half_open.push(token, Network::of(arrival.peer.ip()));
        let address = Address { reactor: self.mailbox.number, connection: token, serial };
        let connection = Connection::new(address, arrival, &self.fabric, now);
        self.connections[token as usize] = Some(Box::new(connection));
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
        turn: impl FnOnce(&mut Connection, &mut Environment<'_>, &mut [u8]) -> NextTurn,
    ) {
        let Some(connection) = self.connections.get_mut(token as usize).and_then(Option::as_mut) else {
            return;
        };
        connection.is_dirty = false;
        connection.work_share = self.work_share;
        let was_queue = connection.is_queue();
        let mut env = Environment { ring: &mut self.ring, pool: &mut self.pool, fabric: &self.fabric, now };
        let verdict = turn(connection, &mut env, &mut self.scratch);
        let verdict = connection.answer_disconnect(&mut env, verdict);
        if let Some(commands) = connection.io_mut() {
            commands.tell_meter();
            if let Some(alarm) = commands.take_alarm() {
                self.timers.push(Reverse((alarm, token, connection.address.serial)));
            }
        }
        if connection.is_queue() && !was_queue {
            self.mailbox.count_queue();
            self.half_open.remove(|open| *open == token);
            self.keep_alives.add_queue(connection.controller());
            connection.share_buffers(&mut self.host_buffers);
            if self.freezing.is_some() {
                connection.freeze(&mut env);
            }
        }
        if !connection.is_watched && !connection.is_settled(now) {
            connection.is_watched = true;
            self.watched.push(token);
        }
        match verdict {
            NextTurn::Close => self.close(token),
            _ if connection.has_drained() => self.leave(token, now),
            NextTurn::Again => self.have_turn(token),
            NextTurn::Wait => {}
        }
    }

    /// Ends a connection after all that was under way.
    fn leave(&mut self, token: u32, now: Moment) {
        let Some(connection) = self.connections[token as usize].as_mut() else { return };
        self.keep_alives.remove_queue(connection.controller());
        release(&self.fabric, connection);
        connection.leave(now);
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
        let Some(mut connection) = self.connections[token as usize].take().map(|boxed| *boxed) else {
            return;
        };
        // Before its slots are looked at: a fused pair that waits would keep them, and the token would never be free again.
        connection.stop(&mut self.pool);
        if connection.is_shared && !connection.is_handed() {
            // Another process may have it open yet: to close it here would tell the host nothing.
            connection.queue.socket().shut_down_sending();
        }
        // While the socket is still open: its descriptor could belong to another connection afterwards.
        self.ring.unwatch(connection.queue.socket(), token);
        self.mailbox.discount_connection(connection.is_queue());
        if !connection.is_queue() {
            self.half_open.remove(|open| *open == token);
        }
        self.keep_alives.remove_queue(connection.controller());
        release(&self.fabric, &connection);
        let orphaned = connection.take_io().and_then(|commands| OrphanedSlots::of(*commands, &self.fabric));
        // The token stays taken while the storage has operations that carry it: their completions would else be taken for
        // those of the next connection with this token.
        match orphaned {
            Some(orphaned) => drop(self.orphaned.insert(token, orphaned)),
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
            if self.ring.wait(Some(CLOSING_INTERVAL), &mut events).is_err() {
                return;
            }
            events.clear();
        }
    }

    /// Looks how long operations are at the storage. Queues that have some are among those that sweeps look at.
    fn watch_storage(&mut self, now: Moment) {
        for token in &self.watched {
            let connection = self.connections.get_mut(*token as usize).and_then(Option::as_mut);
            if let Some(commands) = connection.and_then(|connection| connection.io_mut())
                && commands.slots.kept() > 0
            {
                self.watch.look(&QueueOwner::of(commands), &mut commands.slots, &self.fabric, now);
            }
        }
        for left in self.orphaned.values_mut() {
            self.watch.look(&left.queue, &mut left.slots, &self.fabric, now);
        }
        self.watch.end_look(&self.fabric, now);
    }
}

/// Takes a queue out of its controller, and with an admin queue ends the controller.
fn release(fabric: &Fabric, connection: &Connection) {
    match connection.role() {
        Role::Securing(_) | Role::New(_) | Role::Unproved(_) | Role::Left { .. } => {}
        Role::Admin(commands) | Role::Preparing(commands) => {
            let controller = &commands.controller;
            tracing::info!(controller = controller.id, host = controller.host.nqn, "a host leaves");
            fabric.end_controller(controller);
        }
        Role::Io(commands) => {
            let controller = &commands.of.controller;
            controller.remove_queue(connection.address.serial);
            fabric.give_queue(controller);
            commands.of.meter.close();
        }
    }
}
