//! A thread that serves clients: its loop round the ring, the queues and the connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::limits::RECEIVE_LENGTH;
use engine::ring::channel::{Receiver, Sender};
use engine::ring::{Event, Moment, Ring, Socket};
use nbd::{Export, Tls};

use crate::buffer_budget::Party;
use crate::client::Client;
use crate::client_faults::{ClientFault, ClientFaults};
use crate::client_limiter::{Admitted, ClientLimiter, ClientPermit, ClientStage};
use crate::disk::Disk;
use crate::extents::{ExtentAnswer, ExtentJob, Extents};
use crate::limits::{
    ACCEPT_PAUSE_MS, ACCEPTS_PER_TURN, CLIENTS_PER_THREAD_MAX, END_HANDSHAKE_MS, END_TIMEOUT_MS,
};
use crate::machine::{Listener, party_of};
use crate::ready_list::ReadyList;
use crate::server::Tally;
use crate::storage::Storage;
use crate::tls::{Handshakes, Jobs};
use crate::worker_command::{QuiescedClients, WorkerCommand, WorkerHandle};

/// Parts of a thread.
pub(crate) struct Plan {
    pub(crate) disks: Vec<(Disk, Export)>,
    pub(crate) number: u16,
    pub(crate) count: u16,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) commands: Receiver<WorkerCommand>,
    /// Limiter of the clients of all threads.
    pub(crate) limiter: Arc<ClientLimiter>,
    /// Faults of the clients of all threads.
    pub(crate) faults: Arc<ClientFaults>,
    /// Set to start in held state, and serve on command.
    pub(crate) is_held: bool,
    /// TLS as it is offered to clients, and the thread for handshakes.
    pub(crate) tls: Option<(Tls, Jobs)>,
    /// The thread that asks which parts of disks are holes.
    pub(crate) extents: Sender<ExtentJob>,
}

/// Present activity of a thread.
pub(crate) enum Course {
    Serves,
    /// The thread takes no input of clients, and reports when nothing is under way.
    Quiesces {
        asker: Sender<QuiescedClients>,
        since: Moment,
    },
    /// The thread touches no client: another process may have it.
    Rests,
    /// Another process has them.
    Leaves,
}

pub(crate) struct Worker {
    pub(crate) ring: Ring,
    pub(crate) storage: Storage,
    pub(crate) clients: Vec<Option<Client>>,
    /// Clients with pending work, by slot.
    pub(crate) ready: ReadyList,
    listeners: Vec<Listener>,
    pub(crate) number: usize,
    /// The threads after this one, in order.
    other_workers: Vec<WorkerHandle>,
    /// Listeners may have more connections than were taken.
    pub(crate) accept_again: bool,
    /// Time at which connections are tried again that could not be accepted.
    accept_at: Option<Moment>,
    /// Set by the command to accept no more connections.
    pub(crate) stops_accepting: bool,
    pub(crate) course: Course,
    commands: Receiver<WorkerCommand>,
    pub(crate) limiter: Arc<ClientLimiter>,
    /// Handshakes, if the server has TLS.
    pub(crate) handshakes: Option<Handshakes>,
    stopping: Arc<AtomicBool>,
    /// Time at which a thread that is to end does so whatever is under way.
    end_at: Option<Moment>,
    /// Time until which a thread that is to end refuses clients that have chosen no disk with the reason.
    refuses_until: Option<Moment>,
    events: Vec<Event>,
    scratch: Vec<u8>,
}

/// Sockets of clients have the tokens from 0 on, those that listen the next, and queues all others.
const LISTENER_TOKEN: u32 = CLIENTS_PER_THREAD_MAX as u32;
const QUEUE_TOKEN: u32 = 2 * LISTENER_TOKEN;

impl Worker {
    /// A thread with its queues. The first of all threads listens, and gives clients to the others in turn.
    pub(crate) fn open(
        mut ring: Ring,
        plan: Plan,
        listeners: Vec<Listener>,
        other_workers: Vec<WorkerHandle>,
    ) -> io::Result<Self> {
        for (token, listener) in (LISTENER_TOKEN..QUEUE_TOKEN).zip(&listeners) {
            listener.prepare()?;
            ring.watch(listener, token)?;
        }
        let mut storage = Storage::open(&mut ring, &plan.disks, QUEUE_TOKEN, plan.number, plan.count);
        let waker = ring.waker();
        storage.tells_extents(Extents::new(plan.extents, waker.clone()));
        storage.faults = plan.faults;
        Ok(Self {
            ring,
            storage,
            clients: Vec::new(),
            ready: ReadyList::new(CLIENTS_PER_THREAD_MAX),
            listeners,
            number: usize::from(plan.number),
            other_workers,
            accept_again: false,
            accept_at: None,
            stops_accepting: plan.is_held,
            course: if plan.is_held { Course::Rests } else { Course::Serves },
            commands: plan.commands,
            limiter: plan.limiter,
            handshakes: plan.tls.map(|(offer, jobs)| Handshakes::new(offer, jobs, waker)),
            stopping: plan.stopping,
            end_at: None,
            refuses_until: None,
            events: Vec::with_capacity(256),
            scratch: vec![0; RECEIVE_LENGTH],
        })
    }

    /// Serves until it shall end, and nothing is under way any longer.
    pub(crate) fn run(mut self) -> Tally {
        while !self.is_done() {
            self.storage.flush(&mut self.ring);
            if let Err(error) = self.run_once() {
                tracing::error!(%error, "the ring of an NBD server's thread failed; closing its connections");
                break;
            }
        }
        self.storage.close(&mut self.ring);
        for (slot, client) in self.clients.iter_mut().enumerate() {
            if let Some(socket) = client.as_mut().and_then(Client::take_socket) {
                self.ring.unwatch(&socket, slot as u32);
            }
        }
        self.storage.tally
    }

    fn run_once(&mut self) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let timeout = self.timeout();
        self.ring.wait(timeout, &mut events)?;
        let now = self.ring.now();
        // Before the queues' turn: a thread that is ordered to serve has to know which writes wait
        // when it begins.
        while let Ok(send) = self.commands.try_recv() {
            self.execute(send);
        }
        self.storage.take_in(&mut self.ring, &mut self.scratch, &events, now);
        while let Some((slot, piece, ended)) = self.storage.pop() {
            let client = self.storage.requests.get(slot).map(|request| request.client);
            if let Some(client) = client {
                self.ready.add(client);
                if let Some(client) = &mut self.clients[client] {
                    client.ended(slot, piece, ended, &mut self.storage);
                }
            }
        }
        let is_due = self.accept_at.take_if(|at| *at <= now).is_some();
        if std::mem::take(&mut self.accept_again) || is_due {
            (0..self.listeners.len()).for_each(|at| self.accept(at));
        }
        for event in &events {
            if let Event::Ready { token, readiness } = event {
                match self.clients.get_mut(*token as usize) {
                    Some(Some(client)) => {
                        client.ready(*readiness);
                        self.ready.add(*token as usize);
                    }
                    _ if (LISTENER_TOKEN..QUEUE_TOKEN).contains(token) => {
                        self.accept((*token - LISTENER_TOKEN) as usize);
                    }
                    _ => {}
                }
            }
        }
        self.events = events;
        self.go_on_with_handshakes(now);
        self.answer_extents();
        if self.storage.has_room_again() {
            (0..self.clients.len()).for_each(|slot| self.ready.add(slot));
        }
        match self.course {
            Course::Serves => self.serve(),
            Course::Quiesces { .. } => {
                self.serve();
                self.rest_if_quiesced(now);
            }
            Course::Rests | Course::Leaves => {}
        }
        Ok(())
    }

    fn timeout(&mut self) -> Option<Duration> {
        let has_turns = !self.ready.is_empty() || self.accept_again;
        if self.storage.has_more()
            || self.storage.budget.has_news()
            || has_turns && !matches!(self.course, Course::Rests)
        {
            return Some(Duration::ZERO);
        }
        let now = self.ring.now();
        let handshake = self.handshakes.as_ref().and_then(Handshakes::next_deadline);
        let rest = self.looks_again_at(now);
        let deadlines =
            self.storage.next_deadline().into_iter().chain(self.end_at).chain(handshake).chain(rest);
        deadlines.chain(self.refuses_until).chain(self.accept_at).min().map(|deadline| deadline.since(now))
    }

    /// Serves each client with pending work. Those with more are served in the next round.
    fn serve(&mut self) {
        let count = self.ready.count();
        for at in 0..count {
            let slot = self.ready.take(at);
            let Some(client) = &mut self.clients[slot] else { continue };
            let wants_more = client.serve(&mut self.storage, &mut self.scratch);
            if !client.record_stage() {
                client.leave(&mut self.storage);
            }
            if let Some(handshakes) = &mut self.handshakes {
                let id = (slot, client.number);
                if client.begins_tls() {
                    handshakes.begin(id, self.ring.now());
                }
                client.flight().into_iter().for_each(|flight| handshakes.ask(id, flight));
            }
            let has_room = client.send(&mut self.storage, &mut self.ring);
            if client.is_gone() {
                self.disconnect(slot);
            } else if wants_more || has_room {
                self.ready.add(slot);
            }
        }
        self.ready.end_round(count);
    }

    /// Gives clients what steps of their handshakes came to, and parts from those that are late.
    fn go_on_with_handshakes(&mut self, now: Moment) {
        let Some(handshakes) = &mut self.handshakes else { return };
        while let Some((id, answer)) = handshakes.answer() {
            if let Some(client) = client_of(&mut self.clients, id) {
                client.landed(answer, &mut self.storage, &mut self.scratch);
                self.ready.add(id.0);
            }
        }
        while let Some(id) = handshakes.expired(now) {
            if let Some(client) = client_of(&mut self.clients, id).filter(|client| client.is_securing()) {
                client.end_late(&mut self.storage);
                self.ready.add(id.0);
            }
        }
    }

    /// Gives clients what was found of holes.
    fn answer_extents(&mut self) {
        while let Some(answer) = self.storage.extent() {
            self.answer_extent(&answer);
        }
    }

    pub(crate) fn answer_extent(&mut self, answer: &ExtentAnswer) {
        if let Some(client) = client_of(&mut self.clients, answer.client) {
            let disk = client.disk().unwrap_or_default();
            let block_bytes = self.storage.exports.get(disk).map_or(1, |export| export.block_bytes);
            client.extent_came(answer, block_bytes);
            self.ready.add(answer.client.0);
        }
    }

    /// Closes the connection of a client that is gone; its slot is free when nothing of it is under way.
    pub(crate) fn disconnect(&mut self, slot: usize) {
        let Some(client) = &mut self.clients[slot] else { return };
        if let Some(socket) = client.take_socket() {
            self.ring.unwatch(&socket, slot as u32);
        }
        if client.is_over() {
            client.part(&mut self.storage);
            self.clients[slot] = None;
        }
    }

    /// Takes the connections that wait.
    fn accept(&mut self, at: usize) {
        if self.stops_accepting {
            return;
        }
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = self.listeners.get(at) else { return };
            match listener.accept() {
                Ok((socket, peer)) => self.assign(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return self.accept_later(&error),
            }
        }
        // An edge was reported once, and there may be more.
        self.accept_again = true;
    }

    /// Leaves connections in the system's queue for a while.
    fn accept_later(&mut self, error: &io::Error) {
        if let Some(times) = self.storage.faults.count(ClientFault::Unaccepted) {
            tracing::warn!(%error, times, "cannot accept an NBD client; retrying");
        }
        self.accept_at = Some(self.ring.now().after(Duration::from_millis(ACCEPT_PAUSE_MS)));
    }

    /// Assigns a client to a thread, or refuses it.
    fn assign(&mut self, socket: Socket, peer: String) {
        let party = party_of(&socket);
        // The others end at the same time, and one without clients at once.
        let admitted = match self.stopping.load(Ordering::Acquire) {
            true => self.limiter.admit_last(party, self.number),
            false => self.limiter.admit(party),
        };
        let Some(Admitted { permit, displaced }) = admitted else { return self.refuse(&peer) };
        let Some(other) = permit.thread().checked_sub(1) else {
            displaced.into_iter().for_each(|number| self.displace(number));
            return self.take_client(socket, peer, permit);
        };
        let worker = &self.other_workers[other];
        displaced.into_iter().for_each(|number| worker.send(WorkerCommand::Displace(number)));
        if let Some((socket, peer, permit)) = worker.give(socket, peer, permit) {
            self.take_client(socket, peer, permit);
        }
    }

    fn refuse(&self, peer: &str) {
        if let Some(times) = self.storage.faults.count(ClientFault::Refused) {
            tracing::warn!(
                client = peer,
                times,
                "refusing an NBD client: of {} connections none is left, or only those for users and networks that have few",
                self.limiter.clients_max()
            );
        }
    }

    pub(crate) fn take_client(&mut self, socket: Socket, peer: String, permit: ClientPermit) {
        // One that selects a disk as it is to make room has its slot until its commands have ended.
        let Some(slot) = self.free_slot() else { return self.refuse(&peer) };
        if let Err(error) = self.ring.watch(&socket, slot as u32) {
            if let Some(times) = self.storage.faults.count(ClientFault::Unserved) {
                tracing::warn!(client = peer, %error, times, "cannot watch the connection of an NBD client; closing it");
            }
            return;
        }
        self.storage.renew_exports();
        self.storage.tally.clients += 1;
        tracing::debug!(client = peer, "NBD client connected");
        let mut client = Client::new((slot, self.storage.tally.clients), socket, peer, self.tls());
        client.freeze(!matches!(self.course, Course::Serves));
        // One that came with the end of the server, and is not to be served.
        match (self.end_at, self.refuses_until) {
            (None, _) => {}
            (Some(_), Some(_)) => client.shut_down(&mut self.storage),
            (Some(_), None) => client.end(&mut self.storage),
        }
        self.seat(slot, client, (permit, ClientStage::Handshake));
        self.ready.add(slot);
    }

    /// Puts a client into its slot, as one of its party.
    pub(crate) fn seat(
        &mut self,
        slot: usize,
        mut client: Client,
        (permit, stage): (ClientPermit, ClientStage),
    ) {
        let party = client.socket.as_ref().map_or(Party::Unknown, party_of);
        client.party = Some(self.storage.budget.join(party));
        (client.permit, client.stage) = (Some(permit), stage);
        self.clients[slot] = Some(client);
    }

    /// TLS as it is offered to clients.
    pub(crate) fn tls(&self) -> Tls {
        self.handshakes.as_ref().map_or(Tls::Off, Handshakes::offer)
    }

    /// Slot for another client.
    pub(crate) fn free_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.clients.iter().position(Option::is_none) {
            return Some(slot);
        }
        let slot = self.clients.len();
        (slot < CLIENTS_PER_THREAD_MAX).then(|| {
            self.clients.push(None);
            slot
        })
    }

    /// Closes the connection of a client that makes room for another one, by the number of its permit.
    pub(crate) fn displace(&mut self, number: u64) {
        let has_number = |client: &&Client| client.permit.as_ref().is_some_and(|own| own.number() == number);
        let Some(slot) = self.clients.iter().flatten().find(has_number).map(|client| client.slot) else {
            return;
        };
        if let Some(client) = &mut self.clients[slot] {
            client.leave(&mut self.storage);
        }
        self.disconnect(slot);
    }

    /// True if the thread may end. Once it is to, clients send no more, and earlier requests are
    /// answered.
    fn is_done(&mut self) -> bool {
        if matches!(self.course, Course::Leaves) {
            return true;
        }
        if !self.stopping.load(Ordering::Acquire) {
            return false;
        }
        // Clients of the first thread that it gave away just before the end, and the word to serve.
        while let Ok(command) = self.commands.try_recv() {
            self.execute(command);
        }
        // Clients that it touches no longer, or not yet, are those of another process.
        if matches!(self.course, Course::Rests | Course::Leaves) {
            return true;
        }
        if self.end_at.is_none() {
            self.begin_to_end();
        }
        let now = self.ring.now();
        if self.refuses_until.is_some_and(|until| now >= until) {
            self.refuses_until = None;
            self.end_clients(Client::end);
        }
        let is_late = self.end_at.is_some_and(|end_at| now >= end_at);
        is_late || self.clients.iter().all(Option::is_none)
    }

    /// Takes the last connections that wait, to refuse them with the reason, and ends the input of all clients.
    fn begin_to_end(&mut self) {
        let now = self.ring.now();
        self.end_at = Some(now.after(Duration::from_millis(END_TIMEOUT_MS)));
        self.refuses_until = Some(now.after(Duration::from_millis(END_HANDSHAKE_MS)));
        for _ in 0..CLIENTS_PER_THREAD_MAX / ACCEPTS_PER_TURN {
            self.accept_again = false;
            (0..self.listeners.len()).for_each(|at| self.accept(at));
            if !self.accept_again {
                break;
            }
        }
        self.accept_again = false;
        for (token, listener) in (LISTENER_TOKEN..).zip(&self.listeners) {
            self.ring.unwatch(listener, token);
        }
        self.listeners.clear();
        self.end_clients(Client::shut_down);
    }

    fn end_clients(&mut self, end: fn(&mut Client, &mut Storage)) {
        for slot in 0..self.clients.len() {
            if let Some(client) = &mut self.clients[slot] {
                end(client, &mut self.storage);
                self.ready.add(slot);
            }
        }
    }
}

/// The client in this slot with this number, if it is still there.
fn client_of(clients: &mut [Option<Client>], (slot, number): (usize, u64)) -> Option<&mut Client> {
    clients.get_mut(slot)?.as_mut().filter(|client| client.number == number)
}
