//! How the host of a connection proves its name: its commands go to the exchange, and what that comes to changes the
//! connection.

use std::sync::Arc;
use std::time::Duration;

use authentication::{Authenticated, Fault, GeneratedPsk};
use nvme::authentication::required;
use nvme::command::admin_opcode;
use nvme::fabrics::{Connect, fabrics_type};
use nvme::identify::Cns;
use nvme::{Status, SubmissionEntry};
use secure_channel::Names;

use super::{Connection, Environment};
use crate::limits::{AUTHENTICATION_FAILURE_LINGER_MS, AUTHENTICATION_TIMEOUT_MS, GENERATED_KEY_WAIT_MS};
use crate::ring::Buffer;
use crate::target::admin::check_capsule;
use crate::target::io::Reply;
use crate::target::messaging::{Asker, AuthenticationDone, RefusedHost};
use crate::target::queue::Disconnect;
use crate::target::reactor::connect::{Connected, WantsProof};
use crate::target::reactor::host_authentication::Outcome;
use crate::target::reactor::role::Role;
use crate::target::served::GeneratedKey;

/// True for a command that is allowed without TLS after an authentication that has generated a TLS
/// key. Linux enables the controller and identifies it before it reconnects. Such a connection has
/// no namespaces and no logs, and can change nothing of the target.
pub(super) fn may_prepare(entry: &SubmissionEntry) -> bool {
    match entry.opcode {
        admin_opcode::FABRICS => {
            matches!(entry.fabrics_type(), fabrics_type::PROPERTY_GET | fabrics_type::PROPERTY_SET)
        }
        admin_opcode::IDENTIFY => entry.cdw10.get() as u8 == Cns::CONTROLLER.0,
        admin_opcode::KEEP_ALIVE => true,
        _ => false,
    }
}

/// Authentication requirements in the response to a Connect.
pub(super) fn asked(connected: &Connected) -> u64 {
    let concatenates = |wanted: &WantsProof| wanted.concatenation.generates();
    let channel = connected.wants_proof.as_ref().is_some_and(concatenates);
    required::AUTHENTICATION | if channel { required::SECURE_CHANNEL } else { 0 }
}

/// Time within which a host has to authenticate: the keep alive time-out of its association. The
/// Connect of an I/O queue does not contain it, so its controller's is used.
pub(super) fn time_to_prove(connect: &Connect, controller_id: u16, env: &Environment<'_>) -> Duration {
    let controller = if connect.queue_id == 0 { None } else { env.fabric.controller(controller_id) };
    let keep_alive_ms = controller.map_or(connect.keep_alive_ms, |controller| controller.keep_alive_ms());
    let ms = if keep_alive_ms == 0 { AUTHENTICATION_TIMEOUT_MS } else { u64::from(keep_alive_ms) };
    Duration::from_millis(ms.min(AUTHENTICATION_TIMEOUT_MS))
}

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

    /// Refuses a command of a host that has to prove its name first, or to come back with the TLS key that it has got.
    pub(super) fn ask_for_proof(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
    ) -> Result<(), Disconnect> {
        check_capsule(data_length)?;
        let status = Status::AUTHENTICATION_REQUIRED.do_not_retry();
        self.queue.reply(Reply::new(entry.command_id.get(), status, 0));
        Ok(())
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
        // A connection that has ended, or is ending, gets no further response.
        if self.queue.is_terminated() || matches!(self.role(), Role::Left { .. }) {
            return;
        }
        let Some(held) = &mut self.authentication else { return };
        let (next, buffer_bytes, outcome) = held.step_done(done, env.pool);
        match outcome {
            Outcome::Continues => {}
            // Before the answer: the next command of the host may come on its heels.
            Outcome::Authenticated(how, psk) => self.is_proved(how, psk, env),
            Outcome::Failed(fault) => {
                self.refuse(&fault, env);
                let linger = Duration::from_millis(AUTHENTICATION_FAILURE_LINGER_MS);
                self.queue.close_at(Some(env.now.after(linger)));
            }
            Outcome::Over => self.turn_away(env),
        }
        if let Role::Io(commands) = self.state.role_mut() {
            commands.buffer_leaves(buffer_bytes);
        }
        self.queue.take(next);
    }

    /// The host is the one that it says it is: the connection becomes what it is for.
    fn is_proved(&mut self, how: Authenticated, psk: Option<GeneratedPsk>, env: &mut Environment<'_>) {
        let Authenticated { hash, group, is_bidirectional, .. } = how;
        let Some(held) = &self.authentication else { return };
        let (host, subsystem) = (held.host_nqn(), held.subsystem_nqn());
        tracing::debug!(%host, %subsystem, peer = %self.peer, %hash, %group, is_bidirectional, "a host has authenticated");
        let has_key = match psk {
            Some(psk) => self.keep_key(&psk, how, env),
            None => false,
        };
        if !matches!(self.role(), Role::Unproved(_)) {
            return;
        }
        if !has_key && self.authentication.as_ref().is_some_and(|held| held.concatenation().generates()) {
            // No key could be made of it, without which it is of no use.
            self.state.drain();
            return;
        }
        let Some(unproved) = self.state.proved() else { return };
        let promised = unproved.promised.as_ref().map(|promised| promised.promise);
        match self.try_connect(&unproved.connect, &unproved.data, Some((how, promised)), env) {
            Ok(connected) => {
                self.state.connected(match connected.role {
                    Role::Admin(commands) if has_key => Role::Preparing(commands),
                    role => role,
                });
                let wait = Duration::from_millis(GENERATED_KEY_WAIT_MS);
                self.queue.close_at(has_key.then(|| env.now.after(wait)));
            }
            // It was let in when it connected, and would not be now; the log says why.
            Err(_) => self.state.drain(),
        }
    }

    /// A TLS key has come out of an authentication: the host comes back with it, or has it for its next connections.
    fn keep_key(&self, psk: &GeneratedPsk, how: Authenticated, env: &Environment<'_>) -> bool {
        let Some(held) = &self.authentication else { return false };
        let Ok(names) = Names::new(held.host_nqn(), held.subsystem_nqn()) else { return false };
        let Some(key) = GeneratedKey::new(&names, psk, how).map(Arc::new) else { return false };
        env.fabric.generated_keys.keep(&key, env.now);
        if let Some(commands) = self.role().admin() {
            env.fabric.generated_keys.claim(&key);
            if let Some(before) = commands.controller.hold_key(key) {
                env.fabric.generated_keys.retire(&before, env.now);
            }
        }
        true
    }

    /// Says in the log who has failed to authenticate, and which side is wrong.
    fn refuse(&self, fault: &Fault, env: &Environment<'_>) {
        let Some(held) = &self.authentication else { return };
        let (host, subsystem, address) = (held.host_nqn(), held.subsystem_nqn(), self.peer);
        if let Some(times) = env.fabric.refusals.count_unproved() {
            tracing::warn!(%address, host, subsystem, times, "Refused a host that did not authenticate: {fault}");
        }
        env.fabric.tell_failed_login(|| RefusedHost {
            host: Some(host.to_owned()),
            subsystem: Some(subsystem.to_owned()),
            address,
            reason: fault.to_string(),
        });
    }

    /// The host knows that it has failed: nothing more is taken from it.
    fn turn_away(&mut self, env: &Environment<'_>) {
        self.state.drain();
        if let Some(commands) = self.role().admin() {
            env.fabric.end_controller(&commands.controller);
        }
    }
}
