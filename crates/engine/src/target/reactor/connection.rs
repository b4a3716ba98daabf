//! One connection of a host: a queue with the commands that it is for. What has come is handed to the commands, and what they
//! want is handed to the queue; neither knows the other.

mod admin_turn;
mod connecting;
mod hand_over;
mod proof;
mod secure;
mod state;
mod sweep;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvme::command::admin_opcode;
use nvme::fabrics::fabrics_type;
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};
use secure_channel::RecordError;

use self::state::State;
use super::host_authentication::HostAuthentication;
use super::role::Role;
use crate::limits::{
    CONNECT_TIMEOUT_MS, HALF_OPEN_SEND_BYTES_MAX, IN_CAPSULE_LENGTH_MAX, RECEIVE_BUDGET, RECEIVE_LENGTH,
    SCRATCH_LENGTH_MIN, SEND_BATCH_BYTES, SEND_BYTES_MAX, WORK_BYTES_PER_TURN,
};
use crate::observation::Observation;
use crate::ring::{Buffer, BufferPool, Moment, Ring, observe};
use crate::secure_stream::Protection;
use crate::target::admin::AdminContext;
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::io::{Capsule, Commands, Context, HostBuffers, Next, Reply};
use crate::target::messaging::{Address, Arrival, Owner};
use crate::target::queue::{Disconnect, Incoming, Payload, Queue, Received};
use crate::target::served::HeldNamespace;
use crate::target::telemetry::Seen;

/// Resources that a connection uses: its reactor's ring and buffers, and the shared state.
pub(super) struct Environment<'a> {
    pub(super) ring: &'a mut Ring,
    pub(super) pool: &'a mut BufferPool,
    pub(super) fabric: &'a Arc<Fabric>,
    pub(super) now: Moment,
}

/// Next step for a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextTurn {
    /// None until something happens.
    Wait,
    /// Another one: there may be more to receive.
    Again,
    /// None: the peer is gone.
    Close,
}

/// A connection.
pub(super) struct Connection {
    pub(super) address: Address,
    /// The port it came by, and from where.
    port: u16,
    peer: SocketAddr,
    pub(super) queue: Queue<HeldNamespace>,
    state: State,
    seen: Seen,
    /// Bytes that the connection may process of work left from its last turn: other connections of
    /// the reactor have such work too.
    pub(super) work_share: u64,
    /// True if the connection has a turn in the next round in any case.
    pub(super) is_due: bool,
    /// True if the connection was handed over by another process, or offered to one, which may keep
    /// the socket open for a while.
    pub(super) is_shared: bool,
    /// True if the connection has bytes to send at the end of the reactor's round.
    pub(super) is_dirty: bool,
    /// The reactor's next sweep looks at it.
    pub(super) is_watched: bool,
    /// State of the host's authentication, if it has to authenticate.
    authentication: Option<Box<HostAuthentication>>,
    /// Parameters of TLS, with the identity of the host's key; `None` without TLS.
    protection: Option<Arc<Protection>>,
}

impl Connection {
    /// Creates a connection that has just been accepted.
    pub(super) fn new(address: Address, arrival: Arrival, fabric: &Fabric, now: Moment) -> Self {
        let Arrival { socket, port, peer } = arrival;
        let deadline = now.after(Duration::from_millis(CONNECT_TIMEOUT_MS));
        Self {
            address,
            port,
            peer,
            queue: Queue::new(address.connection, socket, deadline),
            state: State::new(),
            seen: Seen::new(fabric.peculiarities.clone(), peer),
            work_share: WORK_BYTES_PER_TURN,
            is_due: false,
            is_shared: false,
            is_dirty: false,
            is_watched: false,
            authentication: None,
            protection: None,
        }
    }

    /// Role of the connection.
    pub(super) const fn role(&self) -> &Role {
        self.state.role()
    }

    /// True once a Connect has succeeded.
    pub(super) const fn is_queue(&self) -> bool {
        self.role().is_queue()
    }

    /// The controller it belongs to.
    pub(super) fn controller(&self) -> Option<&Arc<Controller>> {
        match self.role() {
            Role::Io(commands) => Some(&commands.of.controller),
            Role::Admin(commands) | Role::Preparing(commands) => Some(&commands.controller),
            Role::Securing(_) | Role::New(_) | Role::Unproved(_) | Role::Left { .. } => None,
        }
    }

    /// Host and controller that the connection's commands belong to; `None` before a controller is
    /// assigned.
    pub(super) fn owner(&self) -> Option<Owner> {
        match self.role() {
            Role::Io(commands) => Some(commands.owner()),
            Role::Admin(commands) | Role::Preparing(commands) => Some(commands.owner()),
            Role::Securing(_) | Role::New(_) | Role::Unproved(_) | Role::Left { .. } => None,
        }
    }

    /// Commands of an I/O queue.
    pub(super) fn io(&self) -> Option<&Commands> {
        match self.role() {
            Role::Io(commands) => Some(commands),
            _ => None,
        }
    }

    /// The same, to be worked on.
    pub(super) fn io_mut(&mut self) -> Option<&mut Commands> {
        match self.state.role_mut() {
            Role::Io(commands) => Some(commands),
            _ => None,
        }
    }

    /// Counts buffers of an I/O queue together with those of its host's other queues.
    pub(super) fn share_buffers(&mut self, hosts: &mut HostBuffers) {
        if let Some(commands) = self.io_mut() {
            commands.share_buffers(hosts);
        }
    }

    /// Removes and returns the commands of an I/O queue, whose connection is closed.
    pub(super) fn take_io(&mut self) -> Option<Box<Commands>> {
        self.state.take_io()
    }

    /// Stops taking commands; those under way still finish.
    pub(super) fn drain(&mut self) {
        self.state.drain();
    }

    /// True once a draining connection has nothing under way.
    pub(super) fn has_drained(&self) -> bool {
        if !self.state.is_draining() || self.has_work() || self.state.has_disconnect() {
            return false;
        }
        // A host takes the end of the admin queue for the end of all: it comes last.
        self.role().admin().is_none_or(|commands| !commands.controller.state().has_io_queues())
    }

    /// True while a command is under way.
    fn is_busy(&self) -> bool {
        match self.role() {
            Role::Io(commands) => commands.slots.busy() > 0,
            Role::Admin(commands) | Role::Preparing(commands) => commands.is_busy(),
            Role::New(intake) => intake.busy() > 0,
            // The worker's result for it is not needed: the connection may leave.
            Role::Securing(_) | Role::Unproved(_) | Role::Left { .. } => false,
        }
    }

    /// True while a command is under way, or bytes wait to be sent.
    fn has_work(&self) -> bool {
        self.is_busy() || !self.queue.is_flushed()
    }

    /// Ends the queue, and notifies the host after all that was under way.
    pub(super) fn leave(&mut self, now: Moment) {
        self.state.leave();
        self.queue.disconnect(now);
    }

    /// Handles readiness to receive.
    pub(super) fn on_readable(&mut self, env: &mut Environment<'_>, scratch: &mut [u8]) -> NextTurn {
        if self.is_handed() {
            return NextTurn::Wait;
        }
        let outcome = if self.queue.is_terminated() {
            self.queue
                .discard_input(scratch)
                .map(|is_more| if is_more { NextTurn::Again } else { NextTurn::Wait })
        } else if matches!(self.role(), Role::Securing(_)) {
            self.secure(env, scratch)
        } else {
            if let Role::Io(commands) = self.state.role_mut() {
                commands.begin_turn(self.work_share);
            }
            self.pump(env);
            self.admin_turn(env);
            self.receive(env, scratch)
        };
        self.end_turn(outcome, env)
    }

    /// Sends what a turn has come to, or ends the connection where that is what it has come to.
    fn end_turn(&mut self, outcome: Result<NextTurn, Disconnect>, env: &mut Environment<'_>) -> NextTurn {
        match outcome {
            Ok(next) => self.flush_or_close(env, next),
            Err(Disconnect::Gone) => NextTurn::Close,
            Err(Disconnect::Decode(error)) => {
                let header = self.queue.faulty_header();
                self.terminate(&error, &header, env)
            }
            Err(Disconnect::Faulty(error, header)) => self.terminate(&error, &header, env),
            Err(Disconnect::Record(error)) => self.break_off(&error, env),
        }
    }

    /// Handles room to send.
    pub(super) fn on_writable(&mut self, env: &mut Environment<'_>) -> NextTurn {
        self.queue.unblock();
        // Commands that were left in the socket while the host did not read are taken up again.
        self.flush_or_close(env, NextTurn::Again)
    }

    fn receive(&mut self, env: &mut Environment<'_>, scratch: &mut [u8]) -> Result<NextTurn, Disconnect> {
        let mut unanswered_bytes = 0;
        for _ in 0..RECEIVE_BUDGET {
            if !self.state.is_running() && !self.wants_more_before_end() {
                return Ok(NextTurn::Wait);
            }
            // Anybody can have a connection that is not a queue: it gets little memory, and little of a round.
            let (room, unsent_max) = match self.is_queue() {
                true => (scratch.len(), SEND_BYTES_MAX),
                false => (SCRATCH_LENGTH_MIN.min(scratch.len()), HALF_OPEN_SEND_BYTES_MAX),
            };
            // A host that does not read what it asked for gets no more commands taken.
            if self.queue.is_congested(unsent_max) {
                return Ok(NextTurn::Wait);
            }
            let Received::Bytes { length, direct, may_be_more } = self.queue.receive(&mut scratch[..room])?
            else {
                return Ok(NextTurn::Wait);
            };
            self.take(&mut scratch[..length], env)?;
            if !may_be_more {
                return Ok(NextTurn::Wait);
            }
            // Not after each call: a send costs more than the additional call for a large payload.
            unanswered_bytes += length + direct;
            if unanswered_bytes >= RECEIVE_LENGTH || !self.is_queue() {
                unanswered_bytes = 0;
                self.flush(env).map_err(|_| Disconnect::Gone)?;
            }
        }
        Ok(NextTurn::Again)
    }

    /// True if a connection that is paused or drains still has to read, because only its host can
    /// end something.
    #[cold]
    fn wants_more_before_end(&self) -> bool {
        if self.state.is_draining() && !self.queue.is_amid_data() && !self.is_busy() {
            return false;
        }
        self.wants_more_before_rest()
    }

    /// Takes all that stands in what was received.
    fn take(&mut self, space: &mut [u8], env: &mut Environment<'_>) -> Result<(), Disconnect> {
        if !self.queue.is_secure() {
            return self.process(space, env);
        }
        let mut at = 0;
        while let Some(piece) = self.queue.open(space, &mut at)? {
            self.process(&space[piece], env)?;
        }
        Ok(())
    }

    fn process(&mut self, mut input: &[u8], env: &mut Environment<'_>) -> Result<(), Disconnect> {
        while let Some(incoming) = self.queue.next(&mut input, &mut self.seen)? {
            match incoming {
                Incoming::Command { entry, data_length } => {
                    let capsule =
                        Capsule { length: data_length, whole: self.queue.capsule(data_length, input) };
                    let digests = self.queue.digests();
                    self.on_command(&entry, capsule, env)
                        .map_err(|fault| fault.within_command(&entry, data_length, digests))?;
                    if self.queue.unsent_bytes() >= SEND_BATCH_BYTES {
                        self.flush(env).map_err(|_| Disconnect::Gone)?;
                    }
                }
                Incoming::Data { slot, buffer, is_intact } => {
                    self.on_data(slot, buffer, is_intact, env)?;
                    self.pump(env);
                }
                Incoming::Placed { slot, buffer } => {
                    self.with_io(env, |commands, ctx| [commands.data_placed(slot, buffer, ctx)]);
                }
            }
        }
        if self.state.is_running() { Ok(()) } else { self.resume_between_pdus(env) }
    }

    fn on_command(
        &mut self,
        entry: &SubmissionEntry,
        capsule: Capsule<'_>,
        env: &mut Environment<'_>,
    ) -> Result<(), Disconnect> {
        if !self.state.is_running() && !self.is_taken_now(entry, capsule.length, env.pool) {
            return Ok(());
        }
        self.queue.count_entry();
        // Asked in this order: each command's own byte is at hand, and the other is a cache line that no I/O needs.
        if HostAuthentication::is_meant(entry) && self.authentication.is_some() {
            return self.authenticate(entry, capsule.length, env);
        }
        let Self { queue, state, seen, .. } = self;
        match state.role_mut() {
            Role::Io(_) if capsule.length > IN_CAPSULE_LENGTH_MAX => {
                Err(DecodeError::new(FatalError::TransferLimitExceeded, 0).into())
            }
            Role::Io(commands) if entry.opcode == admin_opcode::FABRICS => {
                if entry.fabrics_type() == fabrics_type::DISCONNECT {
                    // The queue's other commands end first: what the host does next must not meet one of them.
                    state.disconnect(entry.command_id.get());
                } else {
                    // As nvmet and SPDK's target say, whatever its type: SPDK's tests of its host expect no other answer.
                    queue.reply(commands.refuse(entry, Status::INVALID_OPCODE.do_not_retry()));
                }
                Ok(())
            }
            Role::Io(commands) => {
                let (ring, pool, fabric, now) = (&mut *env.ring, &mut *env.pool, env.fabric, env.now);
                let mut ctx = Context { storage: ring, pool, fabric, seen, now };
                queue.take(commands.begin(entry, capsule, &mut ctx)?);
                self.pump(env);
                Ok(())
            }
            Role::Unproved(_) => self.ask_for_proof(entry, capsule.length),
            Role::Preparing(_) if !proof::may_prepare(entry) => self.ask_for_proof(entry, capsule.length),
            Role::Admin(commands) | Role::Preparing(commands) => {
                if queue.unsent_bytes() >= SEND_BATCH_BYTES {
                    // The host does not read: it was sent what the socket takes.
                    commands.end_turn();
                }
                let mut ctx = AdminContext { pool: env.pool, fabric: env.fabric, seen };
                commands
                    .begin(entry, capsule.length, &mut ctx)?
                    .into_iter()
                    .for_each(|next| queue.take(next));
                Ok(())
            }
            Role::New(_) => self.first_command(entry, capsule.length, env),
            Role::Securing(_) | Role::Left { .. } => Ok(()),
        }
    }

    /// True if a command is executed although its connection is paused or drains. Others are kept,
    /// or dropped: a command that was not accepted may be sent again on another path or connection.
    #[cold]
    fn is_taken_now(&mut self, entry: &SubmissionEntry, data_length: usize, pool: &mut BufferPool) -> bool {
        !self.state.is_draining() && !self.keep_for_later(entry, data_length, pool)
    }

    fn on_data(
        &mut self,
        slot: u16,
        buffer: Buffer,
        is_intact: bool,
        env: &mut Environment<'_>,
    ) -> Result<(), Disconnect> {
        if slot == hand_over::LATER && self.state.frozen().is_some() {
            self.kept_data_came(&buffer, is_intact);
            env.pool.give(buffer);
            return Ok(());
        }
        if self.authentication.as_ref().is_some_and(|held| held.has_slot(slot)) {
            self.message_came(slot, (buffer, is_intact), env);
            return Ok(());
        }
        let Self { queue, state, seen, .. } = self;
        match state.role_mut() {
            Role::Io(commands) => {
                let (ring, pool, fabric, now) = (&mut *env.ring, &mut *env.pool, env.fabric, env.now);
                let mut ctx = Context { storage: ring, pool, fabric, seen, now };
                queue.take(commands.data_came(slot, buffer, is_intact, &mut ctx));
            }
            Role::Admin(commands) | Role::Preparing(commands) => {
                let mut ctx = AdminContext { pool: env.pool, fabric: env.fabric, seen };
                let wanted = commands.data_came(slot, buffer, is_intact, &mut ctx);
                wanted.into_iter().for_each(|next| queue.take(next));
            }
            Role::New(intake) => {
                let Some(entry) = intake.came(slot) else { return Ok(()) };
                let data = buffer.to_vec();
                env.pool.give(buffer);
                if is_intact {
                    return self.connect(&entry, &data, env);
                }
                let status = Status::TRANSIENT_TRANSPORT_ERROR;
                queue.reply(Reply::new(entry.command_id.get(), status, 0));
            }
            Role::Securing(_) | Role::Unproved(_) | Role::Left { .. } => env.pool.give(buffer),
        }
        Ok(())
    }

    /// Goes on with commands that can go on now, until none can.
    pub(super) fn pump(&mut self, env: &mut Environment<'_>) {
        let Self { queue, state, seen, .. } = self;
        let Role::Io(commands) = state.role_mut() else { return };
        let (ring, pool, fabric, now) = (&mut *env.ring, &mut *env.pool, env.fabric, env.now);
        let mut ctx = Context { storage: ring, pool, fabric, seen, now };
        while let Some(next) = commands.advance(&mut ctx) {
            queue.take(next);
        }
    }

    /// Does something with the I/O commands, if it is an I/O queue; what they want then is done, and what can go on goes on.
    pub(super) fn with_io<W>(
        &mut self,
        env: &mut Environment<'_>,
        act: impl FnOnce(&mut Commands, &mut Context<'_>) -> W,
    ) where
        W: IntoIterator<Item = Next>,
    {
        let Self { queue, state, seen, .. } = self;
        let Role::Io(commands) = state.role_mut() else { return };
        let (ring, pool, fabric, now) = (&mut *env.ring, &mut *env.pool, env.fabric, env.now);
        let mut ctx = Context { storage: ring, pool, fabric, seen, now };
        act(commands, &mut ctx).into_iter().for_each(|next| queue.take(next));
        self.pump(env);
    }

    /// Continues the fused pair in this slot, whose range is now free of other writes.
    pub(super) fn pair_goes_on(&mut self, slot: u16, env: &mut Environment<'_>) {
        self.with_io(env, |commands, ctx| [commands.pair_goes_on(slot, ctx)]);
    }

    /// Tells the host of events, if it is an admin queue.
    pub(super) fn tell_events(&mut self) {
        // While the queue is frozen, events wait for the process that resumes it.
        if self.state.frozen().is_none()
            && let Some(commands) = self.state.role_mut().admin_mut()
        {
            commands.tell_events().into_iter().for_each(|next| self.queue.take(next));
        }
    }

    /// Answers a command of an admin queue whose work another thread has finished.
    pub(super) fn answer_held(&mut self, command_id: u16, status: Status, result: u64) {
        let reply = match self.state.role_mut().admin_mut() {
            Some(commands) => commands.answer_held(command_id, status, result),
            None => Reply::new(command_id, status, result),
        };
        if !self.queue.is_terminated() {
            self.queue.reply(reply);
        }
    }

    /// Answers a command of an admin queue with data from another thread.
    pub(super) fn answer_held_with(&mut self, command_id: u16, data: &[u8], env: &mut Environment<'_>) {
        let Some(commands) = self.state.role_mut().admin_mut() else { return };
        if self.queue.is_terminated() {
            return;
        }
        let mut buffer = env.pool.take(data.len());
        buffer.copy_from_slice(data);
        commands.release_held(command_id);
        self.queue.reply(Reply::with_data(command_id, Payload::Buffer(buffer), data.len() as u32));
    }

    /// Answers a Disconnect when all other commands have ended.
    pub(super) fn answer_disconnect(&mut self, env: &mut Environment<'_>, next: NextTurn) -> NextTurn {
        if self.state.is_running() {
            return next;
        }
        let is_too_soon = next == NextTurn::Close || self.queue.is_terminated() || self.has_work();
        if is_too_soon {
            return next;
        }
        let Some(command_id) = self.state.take_disconnect() else { return next };
        self.queue.reply(Reply::new(command_id, Status::SUCCESS, 0));
        self.flush_or_close(env, next)
    }

    /// Sends what is ready.
    pub(super) fn flush_or_close(&mut self, env: &mut Environment<'_>, next: NextTurn) -> NextTurn {
        let flushed = self.flush(env);
        self.queue.settle(env.now);
        if let Role::Io(commands) = self.state.role_mut() {
            commands.settle(env.now);
        }
        match flushed {
            Ok(()) if next == NextTurn::Wait && self.wants_turn() => NextTurn::Again,
            Ok(()) => next,
            Err(_) => NextTurn::Close,
        }
    }

    /// True if something waits only for the connection's next turn.
    fn wants_turn(&self) -> bool {
        let has_commands = || self.io().is_some_and(Commands::wants_turn);
        let has_handshake = || matches!(self.role(), Role::Securing(securing) if securing.wants_turn());
        self.queue.wants_turn() || has_commands() || has_handshake() || self.wants_admin_turn()
    }

    /// Sends all that is queued, as far as the socket takes it. Buffers that have left may be what others wait for.
    fn flush(&mut self, env: &mut Environment<'_>) -> io::Result<()> {
        loop {
            let left_bytes = self.queue.flush(env.ring, env.pool, env.now)?;
            let Role::Io(commands) = self.state.role_mut() else { return Ok(()) };
            commands.buffers_left(left_bytes);
            if left_bytes == 0 {
                return Ok(());
            }
            self.pump(env);
        }
    }

    /// Ends the connection as the specification wants it: a termination request, then the end of the stream.
    fn terminate(&mut self, error: &DecodeError, header: &[u8], env: &mut Environment<'_>) -> NextTurn {
        observe(Observation::ProtocolViolation);
        tracing::info!(%error, peer = %self.peer, "protocol violation by a host; closing the connection");
        self.queue.terminate(error, header, env.now);
        self.stop(env.pool);
        self.flush_or_close(env, NextTurn::Again)
    }

    /// Ends the connection since a record cannot be used: with the alert that its host is due, if it is due one.
    fn break_off(&mut self, error: &RecordError, env: &mut Environment<'_>) -> NextTurn {
        observe(Observation::ChannelBroken);
        tracing::info!(%error, peer = %self.peer, "a secure channel is broken; closing the connection");
        self.queue.break_off(error.alert(), env.now);
        self.stop(env.pool);
        self.flush_or_close(env, NextTurn::Again)
    }

    /// Stops all commands except those at the storage or a worker.
    pub(super) fn stop(&mut self, pool: &mut BufferPool) {
        match self.state.role_mut() {
            Role::Io(commands) => commands.stop(pool),
            Role::Admin(commands) | Role::Preparing(commands) => commands.stop(),
            Role::Securing(_) | Role::New(_) | Role::Unproved(_) | Role::Left { .. } => {}
        }
    }
}
