//! Hand-over of a reactor's queues to another process, and take-over from one: the reactor quiesces
//! all its queues, reports their state, and waits until it is to resume or to close them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::super::connection::{Connection, Environment, NextTurn};
use super::super::freezing::Freezing;
use super::{EventLoop, SERIAL};
use crate::hand_over::HandOverError;
use crate::ring::Moment;
use crate::target::messaging::{Address, Adoption, AdoptionError, Freeze, FrozenReactor, HandOverOrder};

impl EventLoop {
    /// Executes an order about its queues.
    pub(super) fn execute_order(&mut self, order: HandOverOrder, now: Moment) {
        match order {
            HandOverOrder::Freeze(order) => self.freeze(order, now),
            HandOverOrder::Adopt(adoption) => self.adopt(*adoption, now),
            HandOverOrder::Thaw => self.thaw(now),
            HandOverOrder::Leave => self.leave_frozen(),
        }
    }

    /// Brings all queues to rest.
    fn freeze(&mut self, order: Freeze, now: Moment) {
        self.freezing = Some(Freezing { order, disconnected: BTreeSet::new(), is_reported: false });
        for token in self.tokens(Connection::is_queue) {
            self.turn(token, now, |connection, env, _| {
                connection.freeze(env);
                connection.flush_or_close(env, NextTurn::Again)
            });
        }
        self.next_sweep = now;
    }

    /// True while queues are being quiesced, or are quiesced.
    pub(super) const fn is_freezing(&self) -> bool {
        self.freezing.is_some()
    }

    /// Says how the queues are once all of them rest, or which one does not.
    pub(super) fn settle_freezing(&mut self, now: Moment) {
        let Some(Freezing { order, is_reported: false, .. }) = &self.freezing else { return };
        let order = order.clone();
        let (mut waiting, mut owing) = (Vec::new(), Vec::new());
        for token in self.tokens(|connection| !connection.is_leaving()) {
            let Some(Some(connection)) = self.connections.get_mut(token as usize) else { continue };
            let mut env =
                Environment { ring: &mut self.ring, pool: &mut self.pool, fabric: &self.fabric, now };
            if connection.comes_to_rest(&mut env) {
                continue;
            }
            if connection.is_stalled(&order, now) {
                self.close_late(token);
            } else if connection.waits_for_host() {
                owing.push(token);
            } else {
                waiting.push(token);
            }
        }
        // A host that sends a little now and then has its time, too.
        if now >= order.hosts_deadline {
            owing.drain(..).for_each(|token| self.close_late(token));
        }
        let is_quiet = self.orphaned.is_empty() && self.fences.is_empty() && self.cache_flushes.are_none();
        if waiting.is_empty() && owing.is_empty() && is_quiet && self.arrivals.is_empty() {
            return self.tell_frozen(now);
        }
        if now >= order.deadline && (owing.is_empty() || !waiting.is_empty()) {
            let what = waiting.first().and_then(|token| self.connections[*token as usize].as_deref());
            let reason = match what {
                Some(connection) => HandOverError::StorageBusy(connection.name()),
                None => HandOverError::OrphansBusy,
            };
            self.tell(Err(reason));
        }
    }

    /// Closes a connection whose host has not done its part in time. The host is named once.
    fn close_late(&mut self, token: u32) {
        let connection = self.connections.get(token as usize).and_then(Option::as_deref);
        if let (Some(host), Some(freezing)) = (connection.and_then(Connection::host), &mut self.freezing)
            && freezing.disconnected.insert(host.clone())
        {
            tracing::warn!(
                "host {host}: in the middle of a command, and too slow for an upgrade; closing its connection, and it connects \
                 again"
            );
        }
        self.close(token);
    }

    fn tell(&mut self, what: Result<FrozenReactor, HandOverError>) {
        if let Some(Freezing { order, is_reported, .. }) = &mut self.freezing {
            *is_reported = true;
            let _ = order.answer.send(what);
        }
    }

    fn tell_frozen(&mut self, now: Moment) {
        let connections = self.connections.iter_mut().flatten();
        let connections = connections.filter_map(|connection| connection.hand_over(now)).collect();
        let disconnected = self.freezing.as_mut().map(|freezing| std::mem::take(&mut freezing.disconnected));
        self.tell(Ok(FrozenReactor { connections, disconnected: disconnected.unwrap_or_default() }));
    }

    /// Goes on with everything that rests.
    fn thaw(&mut self, now: Moment) {
        self.freezing = None;
        for token in self.tokens(|_| true) {
            self.turn(token, now, |connection, env, _| connection.thaw(env));
        }
        self.next_sweep = now;
    }

    /// Closes what another process has from now on, without a word.
    fn leave_frozen(&mut self) {
        self.freezing = None;
        for token in self.tokens(Connection::is_handed) {
            self.close(token);
        }
    }

    /// Takes over a queue that another process had.
    fn adopt(&mut self, adoption: Adoption, now: Moment) {
        let answer = adoption.answer.clone();
        let adopted = self.try_adopt(adoption, now);
        if adopted.is_err() {
            self.mailbox.discount_connection(false);
        }
        let _ = answer.send(adopted);
    }

    fn try_adopt(&mut self, adoption: Adoption, now: Moment) -> Result<(), AdoptionError> {
        let token = self.free_token();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let address = Address { reactor: self.mailbox.number, connection: token, serial };
        let arrival = adoption.arrival.clone();
        let mut connection = Box::new(Connection::new(address, arrival, &self.fabric, now));
        let env = Environment { ring: &mut self.ring, pool: &mut self.pool, fabric: &self.fabric, now };
        if let Err(error) = connection.adopt(adoption, &env) {
            self.free.push(token);
            return Err(error);
        }
        self.mailbox.count_queue();
        self.keep_alives.add_queue(connection.controller());
        connection.share_buffers(&mut self.host_buffers);
        let watched = self.ring.watch(&**connection.queue.socket(), token);
        self.connections[token as usize] = Some(connection);
        if let Err(error) = watched {
            self.close(token);
            // Closing has discounted it as the queue that it was.
            self.mailbox.count_connection();
            return Err(AdoptionError::Watch(error));
        }
        Ok(())
    }
}
