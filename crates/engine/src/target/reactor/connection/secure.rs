//! What a connection is before it is anything else: its first bytes say whether it is TLS, and a handshake follows if it is. The
//! authentication worker does that; meanwhile the host's bytes stay in the socket.

use std::sync::Arc;
use std::time::Duration;

use nvme::tcp::{DecodeError, FatalError};
use secure_channel::{Alert, ClientHello, FirstBytes, Names, Peer};
use tls_handshake::HandshakeError;

use super::{Connection, Environment, NextTurn};
use crate::limits::{CONNECT_TIMEOUT_MS, HANDSHAKE_BYTES_MAX};
use crate::secure_stream::SecureStream;
use crate::target::config::TlsUse;
use crate::target::controller::Network;
use crate::target::messaging::{
    Asker, AuthenticationJob, HandshakeDone, HandshakeOutcome, HandshakeStep, RefusedHost, Work,
};
use crate::target::queue::{Disconnect, Received};
use crate::target::reactor::role::Role;
use crate::target::reactor::securing::Stage;

impl Connection {
    /// Handles readiness to receive while TLS has not been ruled out or established.
    #[cold]
    pub(super) fn secure(
        &mut self,
        env: &mut Environment<'_>,
        scratch: &mut [u8],
    ) -> Result<NextTurn, Disconnect> {
        let Role::Securing(securing) = self.state.role_mut() else { return Ok(NextTurn::Again) };
        securing.is_due = false;
        match securing.stage {
            Stage::Working => return Ok(NextTurn::Wait),
            Stage::Complete => return self.settle_with(env),
            Stage::First | Stage::Flight(_) => {}
        }
        // No more than a handshake may have: until a host has proved something, what it sends beyond stays in the socket.
        let room = HANDSHAKE_BYTES_MAX.saturating_sub(securing.bytes.len()).clamp(1, scratch.len());
        let Received::Bytes { length, .. } = self.queue.receive(&mut scratch[..room])? else {
            return Ok(NextTurn::Wait);
        };
        securing.bytes.extend_from_slice(&scratch[..length]);
        match std::mem::take(&mut securing.stage) {
            Stage::Flight(pending) => {
                let bytes = std::mem::take(&mut securing.bytes);
                self.compute(HandshakeStep::Flight { pending, bytes }, env)
            }
            _ => match FirstBytes::of(&securing.bytes) {
                Ok(FirstBytes::Incomplete) if securing.bytes.len() < HANDSHAKE_BYTES_MAX => {
                    Ok(NextTurn::Again)
                }
                Ok(FirstBytes::Incomplete) => Err(Disconnect::Gone),
                Ok(FirstBytes::InClear) => self.came_in_clear(env),
                Ok(FirstBytes::Hello(hello)) => self.said_hello(hello, env),
                Err(error) => {
                    self.refuse_handshake(&error.into(), None, env);
                    self.hang_up(&error.alert().in_clear(), env);
                    Ok(NextTurn::Again)
                }
            },
        }
    }

    /// All that has come is the queue's.
    fn settle_with(&mut self, env: &mut Environment<'_>) -> Result<NextTurn, Disconnect> {
        let Some(mut securing) = self.state.secured() else { return Ok(NextTurn::Again) };
        self.take(&mut securing.bytes, env)?;
        Ok(NextTurn::Again)
    }

    fn tls_use(&self, env: &Environment<'_>) -> TlsUse {
        env.fabric.directory().tls_on(self.port)
    }

    fn came_in_clear(&mut self, env: &mut Environment<'_>) -> Result<NextTurn, Disconnect> {
        // What it may be is seen when it connects: nothing but a host that authenticates to get a TLS key.
        if self.tls_use(env) != TlsUse::Required || env.fabric.directory().concatenates_on(self.port) {
            return self.settle_with(env);
        }
        self.state.refused();
        if let Some(times) = env.fabric.refusals.count_in_clear() {
            let port = self.port;
            tracing::warn!(peer = %self.peer, port, times, "Refused a host without TLS, which this port requires: connect with --tls");
        }
        self.tell_refused("it came without TLS, which the port requires", env);
        // A host that does not speak TLS does not understand an alert.
        let error = DecodeError::new(FatalError::PduSequence, 0);
        Ok(self.terminate(&error, &[], env))
    }

    fn said_hello(
        &mut self,
        hello: Box<ClientHello>,
        env: &mut Environment<'_>,
    ) -> Result<NextTurn, Disconnect> {
        let Role::Securing(securing) = self.state.role_mut() else { return Ok(NextTurn::Again) };
        let bytes = std::mem::take(&mut securing.bytes);
        if self.tls_use(env) == TlsUse::Off {
            if let Some(times) = env.fabric.refusals.count_handshake() {
                let port = self.port;
                tracing::warn!(peer = %self.peer, port, times, "Refused a host with TLS, which this port does not have: give the \
                    host a TLS key here, or connect without --tls");
            }
            self.tell_refused("it came with TLS, which the port does not have", env);
            self.hang_up(&Alert::HANDSHAKE_FAILURE.in_clear(), env);
            return Ok(NextTurn::Again);
        }
        self.compute(HandshakeStep::Hello { hello, bytes, port: self.port }, env)
    }

    fn compute(&mut self, step: HandshakeStep, env: &Environment<'_>) -> Result<NextTurn, Disconnect> {
        let Role::Securing(securing) = self.state.role_mut() else { return Ok(NextTurn::Again) };
        securing.stage = Stage::Working;
        let mailboxes = env.fabric.mailboxes().clone();
        let asker = Asker { mailboxes, address: self.address, command_id: 0, peer: self.peer };
        let is_wanted = Arc::downgrade(&securing.waits);
        let (network, work) = (Network::of(self.peer.ip()), Work::Handshake(step));
        let delay_max = Duration::from_millis(CONNECT_TIMEOUT_MS / 2);
        let job = AuthenticationJob { asker, network, work, delay_max, is_wanted };
        // Too many wait already: it may come again.
        env.fabric.authentication_jobs.hand(job).map_err(|_| Disconnect::Gone)?;
        Ok(NextTurn::Wait)
    }

    /// The worker has done a step.
    pub(in crate::target::reactor) fn handshake_done(
        &mut self,
        done: HandshakeDone,
        env: &mut Environment<'_>,
    ) {
        let Role::Securing(securing) = self.state.role_mut() else { return };
        if self.queue.is_terminated() {
            return;
        }
        securing.is_due = true;
        match done.outcome {
            HandshakeOutcome::Continues(pending) => {
                securing.stage = Stage::Flight(pending);
                self.queue.send_raw(&done.output);
            }
            HandshakeOutcome::Established { established, protection, rest } => {
                securing.stage = Stage::Complete;
                securing.bytes = rest;
                tracing::debug!(
                    peer = %self.peer, identity = %protection.identity, suite = %protection.suite,
                    derivation = %protection.derivation, group = established.group, "TLS"
                );
                env.fabric.tls_handshakes.count(&protection);
                let secrets = (&established.sending, &established.receiving);
                self.queue.secure(SecureStream::new(secrets, Peer::Host, env.fabric.tls_record_limit));
                self.protection = Some(Arc::new(protection));
            }
            HandshakeOutcome::Failed { error, names } => {
                self.refuse_handshake(&error, names.as_ref(), env);
                self.hang_up(&done.output, env);
            }
        }
    }

    /// Says in the log who has failed, and which side is wrong.
    fn refuse_handshake(&self, error: &HandshakeError, names: Option<&Names>, env: &Environment<'_>) {
        let (host, subsystem) = (names.map(Names::host_nqn), names.map(Names::subsystem_nqn));
        let (address, port) = (self.peer, self.port);
        if let Some(times) = env.fabric.refusals.count_handshake() {
            tracing::warn!(%address, port, host, subsystem, times, "Refused a TLS handshake: {error}");
        }
        env.fabric.tell_failed_login(|| RefusedHost {
            host: host.map(str::to_owned),
            subsystem: subsystem.map(str::to_owned),
            address,
            reason: error.to_string(),
        });
    }

    /// Reports a host that did not come far enough to say who it is.
    fn tell_refused(&self, reason: &str, env: &Environment<'_>) {
        env.fabric.tell_refused_connect(|| RefusedHost {
            host: None,
            subsystem: None,
            address: self.peer,
            reason: reason.to_owned(),
        });
    }

    /// Ends the queue of a host that has not replaced worn keys, after all that is under way. Linux
    /// hosts cannot replace keys, and reconnect.
    pub(super) fn end_before_keys_do(&mut self) {
        if self.state.is_running() && self.queue.is_worn() {
            tracing::info!(peer = %self.peer, "the TLS keys of a queue are worn, and its host has not replaced them: it ends");
            self.drain();
        }
    }

    /// Says these last bytes in clear, and takes nothing more.
    fn hang_up(&mut self, bytes: &[u8], env: &Environment<'_>) {
        self.state.refused();
        self.queue.send_raw(bytes);
        self.queue.hang_up(env.now);
    }
}
