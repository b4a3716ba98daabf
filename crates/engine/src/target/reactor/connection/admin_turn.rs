//! Turn of an admin queue: commands that earlier turns have left are answered, while the host reads the answers.

use super::{Connection, Environment};
use crate::limits::SEND_BATCH_BYTES;
use crate::target::admin::{AdminCommands, AdminContext};

impl Connection {
    /// Answers commands of an admin queue that earlier turns have left, as far as this one may.
    pub(super) fn admin_turn(&mut self, env: &mut Environment<'_>) {
        let Self { queue, state, seen, work_share, .. } = self;
        let Some(commands) = state.role_mut().admin_mut() else { return };
        commands.begin_turn(*work_share);
        let mut ctx = AdminContext { pool: env.pool, fabric: env.fabric, seen };
        // What is left above this is what the socket has not taken: its host does not read.
        while queue.unsent_bytes() < SEND_BATCH_BYTES
            && let Some(wanted) = commands.advance(&mut ctx)
        {
            wanted.into_iter().for_each(|next| queue.take(next));
        }
    }

    /// True if commands of an admin queue wait for its next turn. Those that wait for their host to read have it when there is
    /// room to send.
    pub(super) fn wants_admin_turn(&self) -> bool {
        self.role().admin().is_some_and(AdminCommands::has_deferred)
            && self.queue.unsent_bytes() < SEND_BATCH_BYTES
    }
}
