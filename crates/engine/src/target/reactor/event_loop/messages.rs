//! What others want of a reactor: connections to serve, queues to close, fences to pass, commands to answer or to abort.
//! How it gives connections their turns meanwhile is in `event_loop`.

use std::sync::Arc;
use std::time::Duration;

use nvme::Status;

use super::super::connection::{Connection, Environment, NextTurn};
use super::EventLoop;
use crate::limits::{HALF_OPEN_DROPPED_AT_ONCE, SHUTDOWN_TIMEOUT_MS};
use crate::ring::Moment;
use crate::target::controller::Network;
use crate::target::io::Commands;
use crate::target::messaging::{Abort, Arrival, Fence, Fenced, Message};

impl EventLoop {
    /// Handles a message to this reactor.
    pub(crate) fn on_message(&mut self, message: Message, now: Moment) {
        match message {
            Message::Connection(arrival) => self.on_arrival(arrival),
            Message::MakeRoom => self.make_room(),
            Message::Pulse(pulse) => pulse.beat(),
            Message::FlushCaches(controller) => self.cache_flushes.begin(controller, &mut self.ring),
            Message::KeepAliveChanged => self.note_keep_alives(),
            Message::Events(controller) => self.tell_events(controller, now),
            Message::Refresh => {
                let connections = self.connections.iter_mut().flatten();
                for commands in connections.filter_map(|connection| connection.io_mut()) {
                    commands.refresh(commands.of.controller.table());
                }
            }
            Message::GiveUp(loss) => {
                for token in self
                    .tokens(|connection| connection.io().is_some_and(|commands| commands.slots.kept() > 0))
                {
                    self.turn(token, now, |connection, env, _| {
                        connection.with_io(env, |commands, ctx| commands.give_up(loss, ctx));
                        connection.flush_or_close(env, NextTurn::Wait)
                    });
                }
            }
            Message::Fence(fence) => self.on_fence(fence, now),
            Message::FencePassed { connection, serial, slot } => {
                if !self
                    .turn_of(connection, serial, now, |connection, env| connection.pair_goes_on(slot, env))
                {
                    self.discard_orphaned(connection, slot);
                }
            }
            Message::Resume => self.resume(now),
            Message::Finish { connection, serial, slot, status, data } => {
                let finish = |connection: &mut Connection, env: &mut Environment<'_>| {
                    connection.with_io(env, |commands, ctx| [commands.worker_done(slot, status, &data, ctx)]);
                };
                if !self.turn_of(connection, serial, now, finish) {
                    self.discard_orphaned(connection, slot);
                }
            }
            Message::Abort(abort) => self.on_abort(&abort, now),
            Message::Answer { connection, serial, command_id, status, result } => {
                self.turn_of(connection, serial, now, |connection, _| {
                    connection.answer_held(command_id, status, result);
                });
            }
            Message::AnswerWith { connection, serial, command_id, data } => {
                self.turn_of(connection, serial, now, |connection, env| {
                    connection.answer_held_with(command_id, &data, env);
                });
            }
            Message::Authentication { connection, serial, done } => {
                self.turn_of(connection, serial, now, |connection, env| connection.step_done(*done, env));
            }
            Message::Handshake { connection, serial, done } => {
                self.turn_of(connection, serial, now, |connection, env| {
                    connection.handshake_done(*done, env);
                });
            }
            Message::HandOver(order) => self.execute_order(order, now),
            Message::Shutdown => self.shut_down(now),
        }
    }

    /// Starts the cache flushes and commands that were held back.
    fn resume(&mut self, now: Moment) {
        self.cache_flushes.resume();
        for token in self.tokens(|connection| connection.io().is_some_and(Commands::has_held_back)) {
            self.turn(token, now, |connection, env, _| {
                connection.with_io(env, |commands, _| {
                    commands.retry();
                    None
                });
                connection.flush_or_close(env, NextTurn::Wait)
            });
        }
    }

    /// Lets all connections finish what is under way.
    fn shut_down(&mut self, now: Moment) {
        self.shutdown = Some(now.after(Duration::from_millis(SHUTDOWN_TIMEOUT_MS)));
        for connection in self.connections.iter_mut().flatten() {
            connection.drain();
        }
        self.arrivals.drain().for_each(|_| self.mailbox.discount_connection(false));
        self.watch_all();
        self.next_sweep = now;
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
                let has_ended = |connection: &Connection| {
                    connection.controller().is_some_and(|controller| controller.has_ended())
                };
                for token in self.tokens(has_ended) {
                    self.close(token);
                }
            }
            Fenced::Hosts(namespace, hosts) => {
                for token in self.tokens(|_| true) {
                    self.turn(token, now, |connection, env, _| {
                        connection.with_io(env, |commands, ctx| commands.end_fenced(namespace, hosts, ctx));
                        // Data that is on its way for one of them must not go anywhere either.
                        connection.queue.place_nothing();
                        connection.flush_or_close(env, NextTurn::Wait)
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
                let belongs = |connection: &Connection| {
                    connection.io().is_some_and(|commands| commands.of.controller.instance == *controller)
                };
                for token in self.tokens(belongs) {
                    self.close(token);
                }
            }
        }
        // After what waits has ended, so that the fence counts only what the storage still has. It is passed at the end of the
        // round, when completions of this round have been taken into account.
        self.fences.push(fence);
    }

    /// Passes the fences whose commands have ended.
    pub(crate) fn pass_fences(&mut self) {
        let Self { fences, connections, orphaned, fabric, .. } = self;
        fences.retain(|fence| {
            let left = orphaned.values().any(|left| left.slots.have(&fence.fenced, &left.owner));
            let busy = left
                || !fence.fenced.is_closed()
                    && connections
                        .iter()
                        .flatten()
                        .filter_map(|living| living.io())
                        .any(|commands| commands.slots.have(&fence.fenced, &commands.owner()));
            if !busy && let Some(then) = fence.pass() {
                fabric.after_fence(then);
            }
            busy
        });
    }

    fn on_abort(&mut self, abort: &Abort, now: Moment) {
        let is_meant = |connection: &&Connection| {
            connection.io().is_some_and(|commands| {
                commands.of.controller.id == abort.controller_id && commands.of.queue_id == abort.queue_id
            })
        };
        let mut connections = self.connections.iter().flatten().map(|connection| &**connection);
        let mut aborted = false;
        if let Some(token) = connections.find(is_meant).map(|connection| connection.address.connection) {
            self.turn(token, now, |connection, env, _| {
                connection.with_io(env, |commands, ctx| {
                    let answer = commands.abort(abort.command_id, ctx);
                    aborted = answer.is_some();
                    answer
                });
                connection.flush_or_close(env, NextTurn::Wait)
            });
        }
        if let Some(result) = abort.tried(aborted) {
            self.fabric.mailboxes().answer(abort.asker, Status::SUCCESS, result);
        }
    }

    /// Answers the event requests of a controller whose admin queue is here, as far as there are events.
    fn tell_events(&mut self, controller: u16, now: Moment) {
        let is_its_admin_queue = |connection: &&Connection| {
            connection.role().admin().is_some_and(|commands| commands.controller.id == controller)
        };
        let mut connections = self.connections.iter().flatten().map(|connection| &**connection);
        if let Some(token) =
            connections.find(is_its_admin_queue).map(|connection| connection.address.connection)
        {
            self.turn(token, now, |connection, env, _| {
                connection.tell_events();
                connection.flush_or_close(env, NextTurn::Wait)
            });
        }
    }
}
