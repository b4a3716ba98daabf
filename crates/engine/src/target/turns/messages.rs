//! What others want of a reactor: connections to serve, queues to close, fences to pass, commands to answer or to abort.
//! How it gives connections their turns meanwhile is in `turns`.

use std::sync::Arc;
use std::time::Duration;

use super::super::abort::Abort;
use super::super::admission::Network;
use super::super::connection::{Connection, Environment, Session, Verdict};
use super::super::fence::{Fence, Fenced};
use super::super::mailbox::{Arrival, Message};
use super::Turns;
use crate::limits::{HALF_OPEN_DROPPED_AT_ONCE, SHUTDOWN_TIMEOUT_MS};
use crate::ring::Moment;

impl Turns {
    /// Does what somebody else wants of this reactor.
    pub(super) fn on_message(&mut self, message: Message, now: Moment) {
        match message {
            Message::Connection(arrival) => self.on_arrival(arrival),
            Message::MakeRoom => self.make_room(),
            Message::FlushCaches(controller) => self.cache_flushes.begin(controller, &mut self.ring),
            Message::Events(controller) => self.tell_events(controller, now),
            Message::Refresh => {
                for connection in self.connections.iter_mut().flatten() {
                    connection.refresh();
                }
            }
            Message::GiveUp(loss) => {
                for token in self.tokens(|connection| connection.slots.storing() > 0) {
                    self.turn(token, now, |connection, env, _| {
                        connection.give_up(loss, env);
                        connection.flush_or_close(env, Verdict::Wait)
                    });
                }
            }
            Message::Fence(fence) => self.on_fence(fence, now),
            Message::FencePassed { connection, serial, slot } => {
                if !self
                    .turn_of(connection, serial, now, |connection, env| connection.pair_goes_on(slot, env))
                {
                    self.stored_for_nobody(connection);
                }
            }
            Message::Resume => {
                self.cache_flushes.resume();
                for token in self.tokens(|connection| !connection.held_back.is_empty()) {
                    self.turn(token, now, |connection, env, _| {
                        connection.try_held_back(env);
                        connection.flush_or_close(env, Verdict::Wait)
                    });
                }
            }
            Message::Finish { connection, serial, slot, status, data } => {
                let finish = |connection: &mut Connection, env: &mut Environment<'_>| {
                    connection.finish_with(slot, status, &data, env);
                };
                if !self.turn_of(connection, serial, now, finish) {
                    self.stored_for_nobody(connection);
                }
            }
            Message::Abort(abort) => self.on_abort(&abort, now),
            Message::Answer { connection, serial, command_id, status, result } => {
                self.turn_of(connection, serial, now, |connection, _| {
                    connection.answer_held(command_id, status, result);
                });
            }
            Message::Shutdown => {
                self.shutdown = Some(now.after(Duration::from_millis(SHUTDOWN_TIMEOUT_MS)));
                for connection in self.connections.iter_mut().flatten() {
                    connection.drain();
                }
                self.arrivals.drain().for_each(|_| self.mailbox.discount_connection(false));
                self.next_sweep = now;
            }
        }
    }

    /// A connection has come, which has its first turn when others have had theirs.
    fn on_arrival(&mut self, arrival: Arrival) {
        let network = Network::of(arrival.peer.ip());
        self.arrivals.push(arrival, network);
        if self.arrivals.take_surplus().is_some() {
            self.mailbox.tally.count_dropped();
            self.mailbox.discount_connection(false);
        }
    }

    /// Gives up some connections that are not queues yet.
    fn make_room(&mut self) {
        for _ in 0..HALF_OPEN_DROPPED_AT_ONCE {
            if let Some(token) = self.half_open.take_heaviest() {
                self.close(token);
            } else if self.arrivals.take_heaviest().is_some() {
                self.mailbox.discount_connection(false);
            } else {
                return;
            }
            self.mailbox.tally.count_dropped();
        }
    }

    /// Ends what waits of the fenced commands; the fence is passed when the storage has none of them either.
    fn on_fence(&mut self, fence: Arc<Fence>, now: Moment) {
        match &fence.fenced {
            Fenced::Writes(..) | Fenced::Changes(_) | Fenced::Beyond(_) => {}
            Fenced::Waiting => {
                let has_ended = |connection: &Connection| match &connection.session {
                    Session::New => false,
                    Session::Io { controller, .. } | Session::Admin { controller, .. } => {
                        controller.has_ended()
                    }
                };
                for token in self.tokens(has_ended) {
                    self.close(token);
                }
            }
            Fenced::Hosts(namespace, hosts) => {
                for token in self.tokens(|_| true) {
                    self.turn(token, now, |connection, env, _| {
                        connection.end_fenced(namespace, hosts, env);
                        connection.flush_or_close(env, Verdict::Wait)
                    });
                }
            }
            Fenced::Controller(controller) => {
                let belongs = |connection: &Connection| {
                    connection.owner().is_some_and(|owner| owner.controller == *controller)
                };
                for token in self.tokens(belongs) {
                    self.close(token);
                }
            }
            Fenced::IoQueues(controller) => {
                let belongs = |connection: &Connection| match &connection.session {
                    Session::Io { controller: of, .. } => of.instance == *controller,
                    _ => false,
                };
                for token in self.tokens(belongs) {
                    self.close(token);
                }
            }
        }
        self.fences.push(fence);
    }

    /// Passes the fences whose commands have ended.
    pub(super) fn pass_fences(&mut self) {
        let Self { fences, connections, remains, fabric, .. } = self;
        fences.retain(|fence| {
            let left = remains.values().any(|left| fence.fenced.is_in(left.owner.as_ref(), &left.slots));
            let busy = left
                || !fence.fenced.is_closed()
                    && connections
                        .iter()
                        .flatten()
                        .any(|living| fence.fenced.is_in(living.owner().as_ref(), &living.slots));
            if !busy {
                fence.pass(fabric);
            }
            busy
        });
    }

    fn on_abort(&mut self, abort: &Abort, now: Moment) {
        let is_meant = |connection: &&Connection| match &connection.session {
            Session::Io { controller, queue_id, .. } => {
                controller.id == abort.controller_id && *queue_id == abort.queue_id
            }
            _ => false,
        };
        let mut connections = self.connections.iter().flatten().map(|connection| &**connection);
        let mut aborted = false;
        if let Some(token) = connections.find(is_meant).map(|connection| connection.token) {
            self.turn(token, now, |connection, env, _| {
                aborted = connection.abort(abort.command_id, env);
                connection.flush_or_close(env, Verdict::Wait)
            });
        }
        abort.tried(aborted);
    }

    /// Answers the event requests of a controller whose admin queue is here, as far as there are events.
    fn tell_events(&mut self, controller: u16, now: Moment) {
        let is_its_admin_queue = |connection: &&Connection| match &connection.session {
            Session::Admin { controller: of, .. } => of.id == controller,
            _ => false,
        };
        let mut connections = self.connections.iter().flatten().map(|connection| &**connection);
        if let Some(token) = connections.find(is_its_admin_queue).map(|connection| connection.token) {
            self.turn(token, now, |connection, env, _| {
                connection.tell_events();
                connection.flush_or_close(env, Verdict::Wait)
            });
        }
    }
}
