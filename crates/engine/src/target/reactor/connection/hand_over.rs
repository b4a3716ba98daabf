//! Quiescing of a queue for another process: it ends commands under way, and keeps those that
//! arrive meanwhile as received. A queue taken over from the old process begins in this state.

use std::sync::Arc;
use std::time::Duration;

use nvme::SubmissionEntry;
use nvme::cross_reset::ControllerInstance;
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData};
use nvme::io::Fused;
use nvme::tcp::Digests;
use secure_channel::{Derivation, DirectionState, Suite, TrafficSecret};
use zerocopy::IntoBytes;

use super::{Connection, Environment, NextTurn};
use crate::limits::{AUTHENTICATION_TIMEOUT_MS, QUEUE_OVERRUN_FACTOR};
use crate::ring::{BufferPool, Moment};
use crate::secure_stream::{Protection, StreamState};
use crate::target::handed_target::{HandedController, HandedKey, HandedQueue, HandedSecret, HandedStream};
use crate::target::messaging::{Adoption, AdoptionError, Freeze, Frozen};
use crate::target::queue::{Disconnect, Next, QueueState};
use crate::target::reactor::connect::{self, Caller, Former};
use crate::target::reactor::frozen_queue::{FrozenQueue, Kept};
use crate::target::reactor::host_authentication::HostAuthentication;
use crate::target::reactor::role::Role;
use crate::target::served::GeneratedKey;

/// The number of a slot that no command has: what comes for it is data of a command that is kept for later.
pub(super) const LATER: u16 = u16::MAX;

impl Connection {
    /// Comes to rest: what is under way ends, and nothing else begins. It means nothing of other connections.
    pub(in crate::target::reactor) fn freeze(&mut self, env: &mut Environment<'_>) {
        if !self.is_queue() || self.is_leaving() {
            return;
        }
        match self.state.frozen_mut() {
            // A pause that an earlier attempt has ended amid a PDU: it would end with that PDU.
            Some(frozen) => (frozen.is_thawing, frozen.moved) = (false, env.now),
            None => self.state.pause(FrozenQueue::new(env.now)),
        }
        self.lift_limits(env);
    }

    /// True if the connection is ending anyway, and is therefore not handed over.
    pub(in crate::target::reactor) fn is_leaving(&self) -> bool {
        self.state.is_draining() || self.queue.is_terminated() || matches!(self.role(), Role::Left { .. })
    }

    /// True if the connection waits only for its host: for a command, or for the rest of one.
    pub(in crate::target::reactor) fn waits_for_host(&self) -> bool {
        let is_preparing = matches!(self.role(), Role::Preparing(_));
        !self.is_queue() || is_preparing || self.queue.waits_for_host() || self.authenticates()
    }

    /// True if the host owes data or a reply's receipt, and has made no progress for the stall
    /// limit.
    pub(in crate::target::reactor) fn is_stalled(&self, order: &Freeze, now: Moment) -> bool {
        let moved = self.state.frozen().map_or(order.begun, |frozen| frozen.moved);
        self.waits_for_host() && now >= moved.after(order.stall)
    }

    fn authenticates(&self) -> bool {
        self.authentication.as_deref().is_some_and(HostAuthentication::is_amid_exchange)
    }

    /// Lets what waits for limits go on.
    fn lift_limits(&mut self, env: &mut Environment<'_>) {
        self.with_io(env, |commands, ctx| {
            commands.lift_limits(ctx.now);
            None
        });
    }

    /// True if nothing is under way. Lifts the limits of commands on each call, because further
    /// ones may have started to wait since.
    pub(in crate::target::reactor) fn comes_to_rest(&mut self, env: &mut Environment<'_>) -> bool {
        let unsent_bytes = self.queue.unsent_bytes();
        if let Some(frozen) = self.state.frozen_mut()
            && std::mem::replace(&mut frozen.unsent_bytes, unsent_bytes) != unsent_bytes
        {
            frozen.moved = env.now;
        }
        if self.state.frozen().is_some() && self.is_busy() {
            self.lift_limits(env);
        }
        self.is_at_rest()
    }

    fn is_at_rest(&self) -> bool {
        let is_idle = match self.role() {
            Role::Admin(commands) => commands.is_at_rest(),
            Role::Io(commands) => commands.slots.busy() == 0 && commands.slots.kept() == 0,
            Role::Preparing(_) => false,
            Role::Securing(_) | Role::New(_) | Role::Unproved(_) | Role::Left { .. } => {
                return self.is_untouched();
            }
        };
        is_idle && !self.authenticates() && self.queue.is_at_rest()
    }

    /// True if nothing has been received: the connection can be handed over as it is.
    fn is_untouched(&self) -> bool {
        matches!(self.role(), Role::Securing(securing) if securing.is_untouched())
    }

    /// True if the queue still has to read although it is being frozen, because only its host can
    /// end something.
    pub(super) fn wants_more_before_rest(&self) -> bool {
        let Some(frozen) = self.state.frozen() else { return true };
        if frozen.is_thawing {
            return true;
        }
        let most = usize::from(self.queue.entries()) * QUEUE_OVERRUN_FACTOR;
        !frozen.is_handed && frozen.commands.len() < most && (self.queue.is_amid_data() || !self.is_at_rest())
    }

    /// Keeps a command for later; whether it did. The second command of a fused pair goes with its first.
    pub(super) fn keep_for_later(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        pool: &mut BufferPool,
    ) -> bool {
        let ends_pair = entry.fused() == Fused::Second as u8
            && self.io().is_some_and(|commands| commands.awaits_second());
        let is_of_exchange = HostAuthentication::is_meant(entry) && self.authenticates();
        let Some(frozen) = self.state.frozen_mut().filter(|_| !ends_pair && !is_of_exchange) else {
            return false;
        };
        frozen.commands.push(Kept { entry: *entry, data: Vec::new(), is_intact: true });
        if data_length > 0 {
            let buffer = pool.take(data_length);
            self.queue.take(Next::Capsule { slot: LATER, skip: 0, buffer });
        }
        true
    }

    /// The data of the command that was kept last.
    pub(super) fn kept_data_came(&mut self, data: &[u8], is_intact: bool) {
        if let Some(kept) = self.state.frozen_mut().and_then(|frozen| frozen.commands.last_mut()) {
            kept.data = data.to_vec();
            kept.is_intact = is_intact;
        }
    }

    /// State for the other process. From now on nothing is read, executed or sent on this
    /// connection here. `None` if the connection is not quiesced.
    pub(in crate::target::reactor) fn hand_over(&mut self, now: Moment) -> Option<Frozen> {
        let (socket, port, peer) = (self.queue.socket().clone(), self.port, self.peer);
        if !self.is_queue() {
            if !self.is_untouched() || !self.state.is_running() {
                return None;
            }
            self.is_shared = true;
            self.state.pause(FrozenQueue::handed(Vec::new(), now));
            return Some(Frozen { socket, port, peer, queue: None });
        }
        if !self.is_at_rest() {
            return None;
        }
        let QueueState { digests, alignment, entries, head, has_flow_control, stream } =
            self.queue.state()?;
        let begun = self.queue.take_begun_header();
        let frozen = self.state.frozen_mut()?;
        let mut received = FrozenQueue::encode(std::mem::take(&mut frozen.commands), digests);
        received.extend(begun);
        frozen.received.clone_from(&received);
        frozen.is_handed = true;
        self.is_shared = true;
        let (controller_id, queue_id, event_requests) = match self.role() {
            Role::Admin(commands) => (commands.controller.id, 0, commands.event_requests().to_vec()),
            Role::Io(commands) => (commands.of.controller.id, commands.of.queue_id, Vec::new()),
            _ => return None,
        };
        let stream = match (stream, &self.protection) {
            (Some(stream), Some(protection)) => Some(handed_stream(stream, protection)),
            _ => None,
        };
        let digests = (digests.header, digests.data);
        let queue = HandedQueue {
            controller_id,
            queue_id,
            port,
            peer,
            entries,
            head,
            has_flow_control,
            digests,
            alignment,
            received,
            event_requests,
            stream,
        };
        Some(Frozen { socket, port, peer, queue: Some(queue) })
    }

    /// Host and queue, for messages.
    pub(in crate::target::reactor) fn name(&self) -> String {
        let queue_id = self.io().map_or(0, |commands| commands.of.queue_id);
        match self.controller() {
            Some(controller) => format!("host {}, queue {queue_id}", controller.host.nqn),
            None => format!("host {}", self.peer),
        }
    }

    /// Host with its address, for messages; `None` before a Connect.
    pub(in crate::target::reactor) fn host(&self) -> Option<String> {
        let controller = self.controller()?;
        Some(format!("{} at {}", controller.host.nqn, self.peer.ip()))
    }

    /// True once the connection has been handed over.
    pub(in crate::target::reactor) fn is_handed(&self) -> bool {
        self.state.frozen().is_some_and(|frozen| frozen.is_handed)
    }

    /// Goes on, with what has come meanwhile.
    pub(in crate::target::reactor) fn thaw(&mut self, env: &mut Environment<'_>) -> NextTurn {
        let Some(frozen) = self.state.frozen_mut() else { return NextTurn::Wait };
        frozen.is_thawing = true;
        if let Some(controller) = self.controller() {
            controller.note_received(env.now);
        }
        let outcome = self.resume_between_pdus(env).map(|()| NextTurn::Again);
        self.end_turn(outcome, env)
    }

    /// Something has come of a queue that is to come to rest, or to go on: it does so between two PDUs. Amid one, what was kept
    /// would be taken for its data.
    pub(super) fn resume_between_pdus(&mut self, env: &mut Environment<'_>) -> Result<(), Disconnect> {
        let Some(frozen) = self.state.frozen_mut() else { return Ok(()) };
        frozen.moved = env.now;
        if frozen.is_thawing && self.queue.is_between_data() { self.resume(env) } else { Ok(()) }
    }

    fn resume(&mut self, env: &mut Environment<'_>) -> Result<(), Disconnect> {
        let Some(frozen) = self.state.resume() else { return Ok(()) };
        let FrozenQueue { commands, mut received, .. } = *frozen;
        if !commands.is_empty() {
            // It was not handed over: what came in part is still with the receiver, and comes behind these.
            let begun = self.queue.take_begun_header();
            received = FrozenQueue::encode(commands, self.queue.digests());
            received.extend(begun);
        }
        self.tell_events();
        self.process(&received, env)
    }

    /// A queue of the old process, which rests.
    pub(in crate::target::reactor) fn adopt(
        &mut self,
        adoption: Adoption,
        env: &Environment<'_>,
    ) -> Result<(), AdoptionError> {
        let Adoption { queue, controller, .. } = adoption;
        let state = queue_state(&queue)?;
        self.protection = match &queue.stream {
            Some(stream) => Some(Arc::new(protection(stream)?)),
            None => None,
        };
        self.queue.go_on(state, env.fabric.tls_record_limit);
        self.rejoin(&queue, &controller, env)?;
        self.is_shared = true;
        self.state.pause(FrozenQueue::handed(queue.received.clone(), env.now));
        Ok(())
    }

    /// Restores the queue by a Connect like its host's, which checks again that the host may connect.
    fn rejoin(
        &mut self,
        queue: &HandedQueue,
        controller: &HandedController,
        env: &Environment<'_>,
    ) -> Result<(), AdoptionError> {
        let is_admin = queue.queue_id == 0;
        let (uniquifier, random_number) = controller.instance;
        let instance = ControllerInstance { controller_id: controller.id, uniquifier, random_number };
        let flow_control = if queue.has_flow_control { 0 } else { Connect::DISABLE_FLOW_CONTROL };
        let connect = Connect {
            record_format: 0,
            queue_id: queue.queue_id,
            queue_size: queue.entries.saturating_sub(1),
            attributes: flow_control,
            keep_alive_ms: controller.keep_alive_ms,
        };
        let controller_id = if is_admin { CONTROLLER_ID_ANY } else { controller.id };
        let HandedController { host_id, subsystem, host_nqn, proof, .. } = controller;
        let data = ConnectData::new(*host_id, controller_id, subsystem, host_nqn);
        let proof = match proof {
            Some(proof) => Some((proof.proof().ok_or(AdoptionError::Proof)?, None)),
            None => None,
        };
        let key = match &controller.generated_key {
            Some(identity) => Some(generated_key(identity, self.port, env)?),
            None => None,
        };
        let caller = Caller {
            address: self.address,
            port: self.port,
            peer: self.peer,
            socket: self.queue.socket(),
            has_data_digest: queue.digests.1,
            protection: self.protection.as_ref(),
            fabric: env.fabric,
            now: env.now,
            proof,
            former: Some(Former { instance: is_admin.then_some(instance), key }),
        };
        let connected = connect::connect(&connect.encode(), data.as_bytes(), &caller, &mut self.seen)
            .map_err(|refused| AdoptionError::Refused(refused.status))?;
        let wants_proof = connected.wants_proof;
        match connected.role {
            Role::Admin(mut commands) => {
                commands.go_on(&queue.event_requests);
                commands.controller.go_on(controller);
                self.state.adopted(Role::Admin(commands));
            }
            Role::Io(commands) => self.state.adopted(Role::Io(commands)),
            _ => return Err(AdoptionError::Unauthenticated),
        }
        let within = Duration::from_millis(AUTHENTICATION_TIMEOUT_MS);
        self.may_authenticate(wants_proof, within, connected.entries);
        Ok(())
    }
}

/// The key that has come out of an authentication and has this identity.
fn generated_key(
    identity: &str,
    port: u16,
    env: &Environment<'_>,
) -> Result<Arc<GeneratedKey>, AdoptionError> {
    let identity = identity.parse().map_err(|_| AdoptionError::GeneratedIdentity)?;
    env.fabric.generated_key(port, &identity, env.now).ok_or(AdoptionError::GeneratedKey)
}

fn handed_stream(stream: StreamState, protection: &Protection) -> HandedStream {
    let key = |state: DirectionState| HandedKey {
        secret: HandedSecret::new(state.secret.expose()),
        records: state.records,
        updates: state.updates,
    };
    let StreamState { sending, receiving, begun, asked } = stream;
    HandedStream {
        suite: protection.suite.id(),
        identity: protection.identity.to_string(),
        is_compat: protection.derivation == Derivation::Compat,
        sending: key(sending),
        receiving: key(receiving),
        begun,
        asked,
    }
}

/// TLS parameters of a stream that was handed over.
fn protection(stream: &HandedStream) -> Result<Protection, AdoptionError> {
    let suite = Suite::of(stream.suite).ok_or(AdoptionError::Suite)?;
    let identity = stream.identity.parse().map_err(|_| AdoptionError::Identity)?;
    let derivation = if stream.is_compat { Derivation::Compat } else { Derivation::Standard };
    Ok(Protection { suite, identity, derivation })
}

/// State of a queue that was handed over.
fn queue_state(queue: &HandedQueue) -> Result<QueueState, AdoptionError> {
    let stream = match &queue.stream {
        Some(stream) => Some(stream_state(stream)?),
        None => None,
    };
    if queue.head >= queue.entries.max(1) {
        return Err(AdoptionError::Entries { head: queue.head, entries: queue.entries });
    }
    Ok(QueueState {
        digests: Digests { header: queue.digests.0, data: queue.digests.1 },
        alignment: queue.alignment,
        entries: queue.entries,
        head: queue.head,
        has_flow_control: queue.has_flow_control,
        stream,
    })
}

fn stream_state(stream: &HandedStream) -> Result<StreamState, AdoptionError> {
    let suite = Suite::of(stream.suite).ok_or(AdoptionError::Suite)?;
    let direction = |key: &HandedKey| {
        let secret = TrafficSecret::new(suite, key.secret.expose()).ok_or(AdoptionError::KeyLength)?;
        Ok::<_, AdoptionError>(DirectionState { secret, records: key.records, updates: key.updates })
    };
    Ok(StreamState {
        sending: direction(&stream.sending)?,
        receiving: direction(&stream.receiving)?,
        begun: stream.begun.clone(),
        asked: stream.asked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(suite: u16, key_bytes: usize) -> HandedStream {
        let key = HandedKey { secret: HandedSecret::new(&vec![1; key_bytes]), records: 0, updates: 0 };
        let identity = "none of NVMe".to_owned();
        let (sending, receiving) = (key.clone(), key);
        HandedStream { suite, identity, is_compat: false, sending, receiving, begun: Vec::new(), asked: None }
    }

    fn queue(head: u16, stream: Option<HandedStream>) -> HandedQueue {
        HandedQueue {
            controller_id: 1,
            queue_id: 1,
            port: 1,
            peer: ([127, 0, 0, 1], 4420).into(),
            entries: 32,
            head,
            has_flow_control: true,
            digests: (false, false),
            alignment: 0,
            received: Vec::new(),
            event_requests: Vec::new(),
            stream,
        }
    }

    #[test]
    fn an_impossible_queue_is_refused_with_the_reason() {
        let suite = Suite::Aes128Gcm.id();
        let state = |head, stream| queue_state(&queue(head, stream)).map(drop);
        for (refused, said) in [
            (state(32, None), "32 of 32 entries cannot have been read"),
            (state(0, Some(stream(0, 32))), "its cipher suite is unknown"),
            (state(0, Some(stream(suite, 7))), "a TLS key has a wrong length"),
            (protection(&stream(suite, 32)).map(drop), "its TLS identity is none"),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), said);
        }
        assert!(state(31, None).is_ok());
    }
}
