//! What depends on time: deadlines, keep alive timers, operations that are long at the storage, and memory that a burst has
//! left. A reactor looks at it twice a second as long as there is something to look at, and then only at those connections that
//! need it. One whose connections rest sleeps until a keep alive timer could run out: a thousand idle queues cost what their
//! hosts' keep alives cost, and nothing besides.

use std::sync::Arc;
use std::time::Duration;

use super::super::connection::NextTurn;
use super::{EventLoop, NEVER};
use crate::limits::POOL_IDLE_BYTES_MAX;
use crate::ring::Moment;

/// Interval of sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// The same while the target ends and queues wait for each other.
const SHUTDOWN_INTERVAL: Duration = Duration::from_millis(10);

impl EventLoop {
    /// Looks at everything that depends on time.
    pub(super) fn sweep(&mut self, now: Moment) {
        let (mut overdue, mut drained) = (Vec::new(), Vec::new());
        let mut quiet = true;
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|token| {
            let connection = self.connections.get_mut(*token as usize).and_then(Option::as_mut);
            let Some(connection) = connection else { return false };
            // A token that was given to another connection since may be here twice.
            if !std::mem::replace(&mut connection.is_watched, false) {
                return false;
            }
            if connection.queue.is_overdue(now) {
                overdue.push(*token);
            } else if connection.has_drained() {
                drained.push(*token);
            }
            let has_received = connection.sweep();
            quiet &= !has_received;
            if has_received && let Some(controller) = connection.controller() {
                controller.note_received(self.last_round);
            }
            // Once more after it has become quiet, for the memory that it then gives back.
            has_received || connection.needs_sweep()
        });
        for token in &watched {
            if let Some(Some(connection)) = self.connections.get_mut(*token as usize) {
                connection.is_watched = true;
            }
        }
        self.watched = watched;
        for token in overdue {
            self.close(token);
        }
        for token in drained {
            // A turn in which nothing is left to do is the last.
            self.turn(token, now, |_, _, _| NextTurn::Wait);
        }
        // Only now: another queue of the same controller may have received something that this very sweep has recorded.
        self.end_silent(now);
        self.watch_storage(now);
        // Nothing happened for a whole interval: what the last burst needed goes back to the system.
        if quiet {
            self.pool.trim();
        }
    }

    /// Has the next sweep come soon if there is something to look at.
    pub(super) fn schedule_sweep(&mut self, now: Moment) {
        if self.needs_sweep() {
            let interval = if self.shutdown.is_some() || self.is_freezing() {
                SHUTDOWN_INTERVAL
            } else {
                SWEEP_INTERVAL
            };
            self.next_sweep = self.next_sweep.min(now.after(interval));
        }
    }

    /// True if there is more to look at than keep alive timers.
    fn needs_sweep(&self) -> bool {
        !self.watched.is_empty()
            || !self.orphaned.is_empty()
            || !self.fences.is_empty()
            || !self.watch.is_idle()
            || self.shutdown.is_some()
            || self.is_freezing()
            || self.pool.kept_bytes() > POOL_IDLE_BYTES_MAX
            || self.fabric.has_lateness()
    }

    /// Has the next sweep look at all connections.
    pub(super) fn watch_all(&mut self) {
        for connection in self.connections.iter_mut().flatten() {
            if !std::mem::replace(&mut connection.is_watched, true) {
                self.watched.push(connection.address.connection);
            }
        }
    }

    /// Looks in time at keep alive timers that may run out sooner than was known.
    pub(super) fn note_keep_alives(&mut self) {
        self.next_sweep = self.next_sweep.min(self.keep_alives.first_silent_at().unwrap_or(NEVER));
    }

    /// Ends the controllers whose keep alive timers ran out. Every reactor that has a queue of one looks, since the one
    /// with its admin queue may wake later.
    fn end_silent(&mut self, now: Moment) {
        if self.is_freezing() {
            // Received bytes are not read meanwhile, so silence cannot be determined.
            self.next_sweep = now.after(SHUTDOWN_INTERVAL);
            return;
        }
        for controller in self.keep_alives.over(now) {
            // Several reactors may find it silent; one of them ends it.
            if self.fabric.end_controller(&controller) {
                self.fabric.refusals.count_silent_ended();
                tracing::warn!(
                    controller = controller.id,
                    host = controller.host.nqn,
                    keep_alive_ms = controller.keep_alive_ms(),
                    "keep alive timer ran out"
                );
            }
            for token in self.tokens(|of| of.controller().is_some_and(|of| Arc::ptr_eq(of, &controller))) {
                self.close(token);
            }
        }
        // What another reactor receives of their hosts moves these moments on. Then this sweep finds nothing, and the next one
        // is at the later moment.
        self.next_sweep = self.keep_alives.first_silent_at().unwrap_or(NEVER);
    }
}
