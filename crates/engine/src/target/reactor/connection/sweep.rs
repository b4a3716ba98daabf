//! What sweeps have to do with a connection, and whether they have to look at it at all.

use super::Connection;
use crate::ring::Moment;
use crate::target::io::Commands;
use crate::target::reactor::role::Role;

impl Connection {
    /// Looks after what depends on time; whether something came since the last look.
    pub(in crate::target::reactor) fn sweep(&mut self) -> bool {
        if let Role::Io(commands) = self.state.role_mut() {
            commands.trim_throttles();
        }
        self.end_before_keys_do();
        self.queue.take_received_since_look()
    }

    /// True if sweeps have to look at the connection even without a turn, because its state changes
    /// with time or with other connections. A quiesced queue is not one of these.
    pub(in crate::target::reactor) fn needs_sweep(&self) -> bool {
        self.state.is_draining() || self.queue.has_deadline() || self.io().is_some_and(Commands::needs_sweep)
    }

    /// True if the connection leaves nothing to a sweep after its turn, such as a keep alive.
    /// Checked for admin queues only, whose turns are few; they record at once that their host is
    /// alive. State shared by all queues of a controller must not be written with each I/O.
    pub(in crate::target::reactor) fn is_settled(&mut self, now: Moment) -> bool {
        let Some(commands) = self.state.role().admin() else { return false };
        if self.needs_sweep() || self.queue.is_worn() || self.queue.keeps_input() {
            return false;
        }
        if self.queue.take_received_since_look() {
            commands.controller.note_received(now);
        }
        true
    }
}
