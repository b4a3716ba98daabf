//! A thread whose clients are handed over: it ends what is under way, says how they are, and serves on or leaves them to another
//! process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use engine::ring::{Moment, Socket};

use crate::client::Client;
use crate::client_limiter::{Admitted, ClientStage};
use crate::client_state::AdoptionError;
use crate::handed_client::{HandedClient, HandedStage};
use crate::limits::{
    HAND_OVER_HANDSHAKE_MS, HAND_OVER_SLOW_MS, HAND_OVER_STALL_MS, HAND_OVER_TIMEOUT_MS, HAND_OVER_UNREAD_MS,
};
use crate::machine::{file_of, party_of, share, shut_down};
use crate::worker::{Course, Worker};
use crate::worker_command::{Adopted, Quiesced, WorkerCommand};

/// Interval at which clients are checked for unread replies.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl Worker {
    /// Executes a command.
    pub(crate) fn execute(&mut self, command: WorkerCommand) {
        match command {
            WorkerCommand::Client(socket, peer, permit) => self.take_client(socket, peer, permit),
            WorkerCommand::Displace(number) => self.displace(number),
            WorkerCommand::StopAccepting(asker) => {
                self.stops_accepting = true;
                let _ = asker.send(());
            }
            WorkerCommand::Freeze(asker) => {
                self.course = Course::Quiesces { asker, since: self.ring.now() };
                for slot in 0..self.clients.len() {
                    if let Some(client) = &mut self.clients[slot] {
                        client.freeze(true);
                        self.ready.add(slot);
                    }
                }
                // A controller may take longer to say which blocks have data than a hand-over waits.
                for answer in self.storage.give_up_extents() {
                    self.answer_extent(&answer);
                }
            }
            WorkerCommand::Adopt(handed, disk_indices, asker) => {
                let adopt = |adopted: Adopted| {
                    let peer = adopted.0.peer.clone();
                    self.adopt(adopted, &disk_indices).err().map(|error| (peer, error.to_string()))
                };
                let _ = asker.send(handed.into_iter().filter_map(adopt).collect());
            }
            WorkerCommand::Thaw(is_disowned) => self.thaw(is_disowned),
            WorkerCommand::Leave => self.course = Course::Leaves,
        }
    }

    /// Serves on, as if nothing had been, or without its clients.
    fn thaw(&mut self, is_disowned: bool) {
        self.course = Course::Serves;
        (self.stops_accepting, self.accept_again) = (false, true);
        for slot in 0..self.clients.len() {
            let Some(client) = &mut self.clients[slot] else { continue };
            client.freeze(false);
            if is_disowned {
                // The other process, if it still has the socket, finds its end.
                if let Some(socket) = &client.socket {
                    shut_down(socket);
                }
                client.leave(&mut self.storage);
                self.disconnect(slot);
            } else {
                self.ready.add(slot);
            }
        }
    }

    /// Time of the next check for quiescence.
    pub(crate) fn looks_again_at(&self, now: Moment) -> Option<Moment> {
        matches!(self.course, Course::Quiesces { .. }).then(|| now.after(LOOK_INTERVAL))
    }

    /// Says how its clients are, if nothing is under way.
    pub(crate) fn rest_if_quiesced(&mut self, now: Moment) {
        let Course::Quiesces { asker, since } = &self.course else { return };
        let is_past = |limit_ms: u64| now >= since.after(Duration::from_millis(limit_ms));
        let (is_late, is_over) = (is_past(HAND_OVER_STALL_MS), is_past(HAND_OVER_TIMEOUT_MS));
        let (handshakes_are_over, is_unread) =
            (is_past(HAND_OVER_HANDSHAKE_MS), is_past(HAND_OVER_UNREAD_MS));
        let is_let_go = |client: &Client| {
            is_unread && client.reads_nothing() || is_over && (client.is_answered() || client.is_stalled())
        };
        let is_quiesced = |client: &Client| match client.is_securing() {
            true => handshakes_are_over,
            false => client.is_quiesced(is_late) || is_let_go(client),
        };
        let is_slow = is_past(HAND_OVER_SLOW_MS);
        if !self.clients.iter().flatten().all(is_quiesced) {
            if is_unread {
                self.make_room(is_slow);
            }
            return;
        }
        let asker = asker.clone();
        self.course = Course::Rests;
        let quiesced = |client: &Client| {
            let socket = client.socket.as_ref()?;
            let Some((state, unsent)) = client.state(&mut self.storage) else {
                client.report_unread();
                return None;
            };
            Some(with_descriptors(state, socket, &unsent))
        };
        // Without a descriptor for one of them, this process serves all of them on.
        let _ = asker.send(self.clients.iter().flatten().filter_map(quiesced).collect());
    }

    /// Closes a connection whose client leaves its replies unread, if another client waits for the buffers of such replies; if
    /// `is_slow`, also one that reads them slowly. The next call closes another one, if this was not enough.
    fn make_room(&mut self, is_slow: bool) {
        let clients = || self.clients.iter().flatten();
        // The end of a command may make room, too.
        if clients().any(|client| client.commands > 0) || !clients().any(Client::waits_for_buffers) {
            return;
        }
        let unread = clients().filter(|client| client.is_stalled() && client.held_bytes > 0);
        let most = unread.max_by_key(|client| (client.reads_nothing(), client.held_bytes));
        let Some(slot) = most.map(|client| client.slot) else { return };
        if let Some(client) = self.clients[slot].as_mut().filter(|client| is_slow || client.reads_nothing()) {
            client.end_unread(&mut self.storage);
            self.disconnect(slot);
        }
    }

    /// Takes a client that another process had.
    fn adopt(
        &mut self,
        (handed, socket, unsent): Adopted,
        disk_indices: &Arc<[Option<usize>]>,
    ) -> Result<(), AdoptionError> {
        let stage = match (&handed.stage, &handed.stream) {
            (HandedStage::Transmission { .. }, _) => ClientStage::Settled,
            (HandedStage::Handshake { .. }, Some(_)) => ClientStage::Secure,
            (HandedStage::Handshake { .. }, None) => ClientStage::Handshake,
        };
        let admitted = self.limiter.adopt((party_of(&socket), stage), self.number);
        let Admitted { permit, displaced } = admitted.ok_or(AdoptionError::Clients)?;
        displaced.into_iter().for_each(|number| self.displace(number));
        let slot = self.free_slot().ok_or(AdoptionError::Clients)?;
        let tls = self.tls();
        self.storage.tally.clients += 1;
        let id = (slot, self.storage.tally.clients);
        let mut client =
            Client::going_on(id, (&handed, socket, unsent), disk_indices, (&mut self.storage, tls))?;
        client.freeze(true);
        if let Some(socket) = &client.socket {
            self.ring.watch(socket, slot as u32)?;
        }
        self.seat(slot, client, (permit, stage));
        Ok(())
    }
}

/// A client with its socket, and a file of what is to be sent to it first.
fn with_descriptors(state: HandedClient, socket: &Socket, unsent: &[u8]) -> io::Result<Quiesced> {
    let mut descriptors = vec![share(socket)?];
    if !unsent.is_empty() {
        descriptors.push(file_of(unsent)?);
    }
    Ok((state, descriptors))
}
