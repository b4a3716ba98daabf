//! How the host of a connection proves its name: its commands go to the exchange, and what that comes to changes the
//! connection.

use std::time::Duration;

use authentication::{Authenticated, Fault};
use nvme::SubmissionEntry;

use super::{Connection, Environment};
use crate::limits::AUTHENTICATION_FAILURE_LINGER_MS;
use crate::ring::Buffer;
use crate::target::admin::check_capsule;
use crate::target::messaging::{Asker, AuthenticationDone, FailedLogin};
use crate::target::queue::Disconnect;
use crate::target::reactor::host_authentication::Outcome;
use crate::target::reactor::role::Role;

impl Connection {
    /// A command that carries authentication. Out of the way of those that carry blocks.
    #[cold]
    pub(super) fn authenticate(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        env: &mut Environment<'_>,
    ) -> Result<(), Disconnect> {
        check_capsule(data_length)?;
        let asker = self.asker(entry.command_id.get(), env);
        let Some(held) = &mut self.authentication else { return Ok(()) };
        let next = held.begin(entry, data_length, asker, (env.fabric, &mut *env.pool))?;
        self.queue.take(next);
        Ok(())
    }

    /// A message of an exchange has come.
    #[cold]
    pub(super) fn message_came(&mut self, slot: u16, data: (Buffer, bool), env: &mut Environment<'_>) {
        let asker = self.asker(0, env);
        let Some(held) = &mut self.authentication else { return };
        let asker = |command_id| Asker { command_id, ..asker };
        let next = held.data_came(slot, data, asker, (env.fabric, &mut *env.pool));
        self.queue.take(next);
    }

    fn asker(&self, command_id: u16, env: &Environment<'_>) -> Asker {
        let mailboxes = env.fabric.mailboxes().clone();
        Asker { mailboxes, address: self.address, command_id, peer: self.peer }
    }

    /// A step of an exchange is done.
    pub(in crate::target::reactor) fn step_done(
        &mut self,
        done: AuthenticationDone,
        env: &mut Environment<'_>,
    ) {
        // Who has left, or is being left, is told nothing more.
        if self.queue.is_terminated() || matches!(self.role, Role::Left) {
            return;
        }
        let Some(held) = &mut self.authentication else { return };
        let (next, buffer_bytes, outcome) = held.step_done(done, env.pool);
        match outcome {
            Outcome::Continues => {}
            // Before the answer: the next command of the host may come on its heels.
            Outcome::Authenticated(how) => self.is_proved(how, env),
            Outcome::Failed(fault) => {
                self.refuse(&fault, env);
                let linger = Duration::from_millis(AUTHENTICATION_FAILURE_LINGER_MS);
                self.queue.close_at(Some(env.now.after(linger)));
            }
            Outcome::Over => self.turn_away(env),
        }
        if let Role::Io(commands) = &mut self.role {
            commands.buffer_leaves(buffer_bytes);
        }
        self.queue.take(next);
    }

    /// The host is the one that it says it is: the connection becomes what it is for.
    fn is_proved(&mut self, how: Authenticated, env: &mut Environment<'_>) {
        let Authenticated { hash, group, is_bidirectional, .. } = how;
        let Some(held) = &self.authentication else { return };
        let (host, subsystem) = (held.host_nqn(), held.subsystem_nqn());
        tracing::debug!(%host, %subsystem, peer = %self.peer, %hash, %group, is_bidirectional, "a host has authenticated");
        if !matches!(self.role, Role::Unproved(_)) {
            return;
        }
        let Role::Unproved(unproved) = std::mem::replace(&mut self.role, Role::Left) else { return };
        let promised = unproved.promised.as_ref().map(|promised| promised.id);
        match self.try_connect(&unproved.connect, &unproved.data, Some((how, promised)), env) {
            Ok(connected) => {
                self.role = connected.role;
                self.is_queue = true;
                self.queue.close_at(None);
            }
            // It was let in when it connected, and would not be now; the log says why.
            Err(_) => self.is_draining = true,
        }
    }

    /// Says in the log who has failed to authenticate, and which side is wrong.
    fn refuse(&self, fault: &Fault, env: &Environment<'_>) {
        let Some(held) = &self.authentication else { return };
        let (host, subsystem, address) = (held.host_nqn(), held.subsystem_nqn(), self.peer);
        if let Some(times) = env.fabric.refusals.count_unproved() {
            tracing::warn!(%address, host, subsystem, times, "Refused a host that did not authenticate: {fault}");
        }
        env.fabric.tell_failed_login(|| FailedLogin {
            host: host.to_owned(),
            subsystem: subsystem.to_owned(),
            address,
            reason: fault.to_string(),
        });
    }

    /// The host knows that it has failed: nothing more is taken from it.
    fn turn_away(&mut self, env: &Environment<'_>) {
        self.is_draining = true;
        if let Role::Admin(commands) = &self.role {
            env.fabric.end_controller(&commands.controller);
        }
    }
}
