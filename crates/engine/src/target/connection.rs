//! One connection of a host, which is one queue: receives, hands each command on, and sends all that is ready at once.
//! What commands mean is in `command`, `admin` and `fabrics`; where it runs is in `reactor`.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvme::SubmissionEntry;
use nvme::tcp::{DecodeError, Digests, PduType, Receiver, Role, Transmitter};

use super::admin::Held;
use super::contention::Contention;
use super::controller::Controller;
use super::counters::{QueueMeter, ReactorCounters};
use super::end::End;
use super::fabric::Fabric;
use super::fence::Owner;
use super::mailbox::{Arrival, Mailbox};
use super::namespace_table::Views;
use super::pair::Pair;
use super::receiving::Receiving;
use super::request::Asker;
use super::sending::Remainder;
use super::shape::Lanes;
use super::slot::Slots;
use super::turns::Timers;
use crate::limits::{
    CONNECT_TIMEOUT_MS, DATA_TO_CONTROLLER_MAX, LINGER_TIMEOUT_MS, RECEIVE_BUDGET, WORK_BYTES_PER_TURN,
};
use crate::observation::{Observation, observe};
use crate::ring::{BufferPool, Moment, Ring, Socket, SpanMut};

/// What a connection works with: its reactor's ring and buffers, and what all share.
pub(super) struct Environment<'a> {
    pub(super) ring: &'a mut Ring,
    pub(super) pool: &'a mut BufferPool,
    pub(super) fabric: &'a Arc<Fabric>,
    pub(super) mailbox: &'a Arc<Mailbox>,
    pub(super) timers: &'a mut Timers,
    pub(super) now: Moment,
}

/// Where the bytes of a queued payload are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// In the buffer of a slot.
    Slot(u16),
    /// In the memory of a namespace, as the queue's table with the number `view` has it, from this byte on.
    Memory { nsid: u32, view: u32, offset: u64 },
    /// Nowhere: they are zeroes.
    Zeroes,
}

/// What the queue is, once Connect has said so.
pub(super) enum Session {
    /// Not connected yet.
    New,
    /// The admin queue.
    Admin {
        controller: Arc<Controller>,
        /// Event requests that wait for an event.
        events: Vec<u16>,
        /// Other commands that wait for somebody's answer.
        held: Vec<Held>,
    },
    /// An I/O queue.
    Io {
        controller: Arc<Controller>,
        views: Views,
        counters: Arc<ReactorCounters>,
        meter: Arc<QueueMeter>,
        queue_id: u16,
    },
}

/// What is to be done with a connection after it had its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing until something happens.
    Wait,
    /// Another turn: there may be more to receive.
    Again,
    /// Its end: the peer is gone.
    Close,
}

/// A connection.
pub(super) struct Connection {
    pub(super) token: u32,
    /// A number that no other connection of this target has had.
    pub(super) serial: u64,
    /// The port it came by, and from where.
    pub(super) port: u16,
    pub(super) peer: SocketAddr,
    pub(super) socket: Arc<Socket>,
    pub(super) session: Session,
    pub(super) slots: Slots,
    /// Commands that wait for a buffer, in turn.
    pub(super) waiting: VecDeque<u16>,
    pub(super) is_waking: bool,
    /// Commands that a fused pair holds back, or somebody who uses the same page of a memory namespace.
    pub(super) held_back: VecDeque<u16>,
    /// Commands that go on in the next turn, and the bytes that may still be worked on in this one.
    pub(super) deferred: VecDeque<u16>,
    pub(super) work_left: u64,
    /// What of it goes to work that the last turn has left: others of its reactor have such work too.
    pub(super) work_share: u64,
    /// Whether it has a turn in the next round, whatever comes.
    pub(super) is_due: bool,
    pub(super) contention: Contention,
    /// Where the second command of a fused pair finds its first.
    pub(super) pair: Pair,
    /// Commands that wait for the limits of their namespaces, and when to look again.
    pub(super) lanes: Vec<Lanes>,
    pub(super) timer: Option<Moment>,
    pub(super) transmitter: Transmitter<Payload>,
    /// What stands before the rest of the first payload in the send list.
    pub(super) remainder: Option<Remainder>,
    pub(super) receiving: Receiving,
    pub(super) flow_control: bool,
    pub(super) entries: u16,
    pub(super) digests: Digests,
    /// The commands of an admin queue's slots.
    pub(super) admin_entries: Vec<SubmissionEntry>,
    /// It has something to send at the end of the reactor's round.
    pub(super) dirty: bool,
    /// The host sends no more: what is there is read to its end.
    pub(super) ended: bool,
    /// A command came since the last sweep.
    pub(super) heard: bool,
    /// Whether it has become a queue, by a Connect that went well.
    pub(super) is_queue: bool,
    /// When it is closed whatever it does: handshakes and last words have their time.
    pub(super) deadline: Option<Moment>,
    /// How far the host's queue was read (SQHD).
    pub(super) queue_head: u16,
    /// It has said its last words: a termination request, or the end of the stream.
    pub(super) terminated: bool,
    /// What its host has done that is unusual, as bits by the numbers of `Peculiarity`.
    pub(super) peculiarities: u32,
    pub(super) receiver: Receiver,
    pub(super) blocked: bool,
    pub(super) draining: bool,
    /// A Disconnect that is answered when all that was under way has ended.
    pub(super) disconnect: Option<u16>,
    /// Bytes that have left in all.
    sent_bytes: u64,
    /// I/O commands that were taken in all.
    pub(super) commands: u64,
    /// Storage operations that take no longer are neither late nor the longest.
    pub(super) usual: Duration,
}

impl Connection {
    pub(super) fn new(token: u32, serial: u64, arrival: Arrival, now: Moment) -> Self {
        let Arrival { socket, port, peer } = arrival;
        let timeout = Duration::from_millis(CONNECT_TIMEOUT_MS);
        Self {
            token,
            serial,
            port,
            peer,
            socket: Arc::new(socket),
            session: Session::New,
            // Connect itself needs one slot, for its data.
            slots: Slots::new(1),
            waiting: VecDeque::new(),
            is_waking: false,
            held_back: VecDeque::new(),
            deferred: VecDeque::new(),
            work_left: WORK_BYTES_PER_TURN,
            work_share: WORK_BYTES_PER_TURN,
            is_due: false,
            contention: Contention::default(),
            pair: Pair::None,
            lanes: Vec::new(),
            timer: None,
            transmitter: Transmitter::new(4),
            remainder: None,
            receiving: Receiving::Discard,
            flow_control: true,
            entries: 1,
            digests: Digests::default(),
            admin_entries: Vec::new(),
            dirty: false,
            ended: false,
            heard: false,
            is_queue: false,
            deadline: Some(now.after(timeout)),
            queue_head: 0,
            terminated: false,
            peculiarities: 0,
            receiver: Receiver::new(Role::Controller, DATA_TO_CONTROLLER_MAX),
            blocked: false,
            draining: false,
            disconnect: None,
            sent_bytes: 0,
            commands: 0,
            usual: Duration::ZERO,
        }
    }

    /// The controller it belongs to.
    pub(super) const fn controller(&self) -> Option<&Arc<Controller>> {
        match &self.session {
            Session::New => None,
            Session::Admin { controller, .. } | Session::Io { controller, .. } => Some(controller),
        }
    }

    /// Whose its commands are.
    pub(super) fn owner(&self) -> Option<Owner> {
        let owner = |of: &Arc<Controller>| Owner { host_id: of.host.id, controller: of.instance };
        self.controller().map(owner)
    }

    /// Where an answer for one of its commands goes that somebody else gives.
    pub(super) fn asker(&self, command_id: u16, env: &Environment<'_>) -> Asker {
        let (connection, serial) = (self.token, self.serial);
        Asker { reactor: env.mailbox.clone(), connection, serial, command_id, peer: self.peer }
    }

    /// Works with the controller's namespaces as they are now. What is on its way still points into the former ones.
    pub(super) fn refresh(&mut self) {
        let until = self.sent_bytes + self.transmitter.length() as u64;
        if let Session::Io { controller, views, .. } = &mut self.session {
            views.replace(controller.table(), until);
            views.release(self.sent_bytes);
        }
    }

    /// Releases former namespaces that no answer on its way points into; called now and then.
    pub(super) fn release_former(&mut self) {
        if let Session::Io { views, .. } = &mut self.session
            && views.has_former()
        {
            views.release(self.sent_bytes);
        }
    }

    /// Stops taking commands; those under way still finish.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether it was to finish what was under way, and has.
    pub(super) fn has_drained(&self) -> bool {
        if !self.draining || self.has_work() || self.disconnect.is_some() {
            return false;
        }
        // A host takes the end of the admin queue for the end of all: it comes last.
        match &self.session {
            Session::Admin { controller, .. } => !controller.state().has_io_queues(),
            _ => true,
        }
    }

    /// Whether a command is under way, or something on its way to the host.
    pub(super) fn has_work(&self) -> bool {
        self.slots.busy() > 0 || !self.transmitter.is_empty()
    }

    /// Says that it ends, after all that was under way. A socket that is closed while its host still sends breaks the
    /// connection, and answers on their way are lost with it: the host gets some time to end it, too.
    pub(super) fn take_leave(&mut self, now: Moment) {
        self.draining = false;
        self.session = Session::New;
        self.socket.shut_down_sending();
        self.linger(now);
    }

    /// From now on nothing is sent and nothing that comes matters, until the host ends the connection too.
    fn linger(&mut self, now: Moment) {
        self.terminated = true;
        self.deadline = Some(now.after(Duration::from_millis(LINGER_TIMEOUT_MS)));
    }

    /// Its turn: there may be something to receive.
    pub(super) fn on_readable(&mut self, env: &mut Environment<'_>, scratch: &mut [u8]) -> Verdict {
        self.begin_turn(env);
        let outcome = if self.terminated { self.discard_input(scratch) } else { self.receive(env, scratch) };
        match outcome {
            Ok(verdict) => self.flush_or_close(env, verdict),
            Err(End::Gone) => Verdict::Close,
            Err(End::Decode(error)) => {
                let header = self.receiver.faulty_header().to_vec();
                self.terminate(error, &header, env)
            }
            Err(End::Faulty(error, header)) => self.terminate(error, &header, env),
        }
    }

    /// Its turn: there is room to send.
    pub(super) fn on_writable(&mut self, env: &mut Environment<'_>) -> Verdict {
        self.blocked = false;
        // Commands that were left in the socket while the host did not read are taken up again.
        self.flush_or_close(env, Verdict::Again)
    }

    /// Sends what is ready.
    pub(super) fn flush_or_close(&mut self, env: &mut Environment<'_>, verdict: Verdict) -> Verdict {
        let flushed = self.flush(env);
        self.contention.settle(env.now);
        match flushed {
            Ok(()) if self.terminated && self.transmitter.is_empty() => {
                self.socket.shut_down_sending();
                verdict
            }
            Ok(()) if verdict == Verdict::Wait && self.contention.is_there() => Verdict::Again,
            Ok(()) => verdict,
            Err(_) => Verdict::Close,
        }
    }

    /// Sends all that is queued, as far as the socket takes it.
    pub(super) fn flush(&mut self, env: &mut Environment<'_>) -> io::Result<()> {
        let mut released = false;
        while !self.transmitter.is_empty() && !self.blocked {
            let (sent, wanted) = self.send_once(env)?;
            self.sent_bytes += sent as u64;
            let Self { transmitter, slots, .. } = self;
            transmitter.advance(sent, |payload| {
                if let Payload::Slot(index) = payload {
                    slots.give(index, env.pool);
                    released = true;
                }
            });
            if sent < wanted {
                self.blocked = true;
                env.ring.await_writable(&self.socket, self.token)?;
            }
            if self.contention.cuts {
                break;
            }
        }
        if released && !self.waiting.is_empty() {
            self.wake_waiting(env);
            // What woke may have something to send at once; its own release comes through here again.
            return self.flush(env);
        }
        Ok(())
    }

    /// Ends the connection as the specification wants it: a termination request, then the end of the stream.
    fn terminate(&mut self, error: DecodeError, header: &[u8], env: &mut Environment<'_>) -> Verdict {
        observe(Observation::ProtocolViolation);
        tracing::info!(%error, "a host sent what no conforming host sends; its connection ends");
        self.transmitter.terminate(PduType::ControllerTerminate, error.error, error.information, header);
        self.waiting.clear();
        self.forget_held_back();
        self.deferred.clear();
        self.lanes.clear();
        self.linger(env.now);
        self.flush_or_close(env, Verdict::Again)
    }

    /// After the last words nothing that comes matters, but it has to be read for ours to be delivered.
    fn discard_input(&mut self, scratch: &mut [u8]) -> Result<Verdict, End> {
        for _ in 0..RECEIVE_BUDGET {
            match self.socket.receive(&mut [SpanMut::new(scratch)]) {
                Ok(0) => return Err(End::Gone),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Verdict::Wait),
                Err(_) => return Err(End::Gone),
            }
        }
        Ok(Verdict::Again)
    }
}
