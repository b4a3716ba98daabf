//! Connections to the cluster, as the world has them: whose they are, which map they act by, and what is in their sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::{MONITOR, PING, Step};
use crate::ring::Moment;
use crate::ring::simulated::scheduler::{FiberId, MachineId, ProcessId, World};

/// A connection to the cluster, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(super) usize);

impl ClientId {
    /// The connection with this number.
    pub const fn of(number: usize) -> Self {
        Self(number)
    }

    /// Number of the connection.
    pub const fn number(self) -> usize {
        self.0
    }
}

/// Called on a thread of the library's.
pub(crate) type Callback = Arc<dyn Fn() + Send + Sync>;

/// A connection.
pub(super) struct Client {
    pub(super) process: ProcessId,
    pub(super) machine: MachineId,
    /// The newest map that it has.
    pub(super) epoch: u64,
    /// Set once it has learned that it is shut out.
    pub(super) is_shut_out: bool,
    pub(super) is_closed: bool,
    /// To which OSDs its way was cut, and carries nothing before the system sends again.
    pub(super) stuck: BTreeSet<usize>,
    /// Operations it has sent meanwhile, and answers that were to reach it.
    pub(super) outbox: Vec<usize>,
    pub(super) inbox: Vec<usize>,
    /// Last arrival at each OSD of what it has sent, and last execution there.
    pub(super) arrival: BTreeMap<usize, Moment>,
    pub(super) execution: BTreeMap<usize, Moment>,
    pub(super) heard: Moment,
    /// Callback of each of its watches, for a notification or the loss of the watch.
    pub(super) watches: BTreeMap<u64, Callback>,
    pub(super) calls: Vec<Callback>,
    /// The thread that makes the calls.
    pub(super) caller: Option<FiberId>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("process", &self.process).finish_non_exhaustive()
    }
}

impl World {
    /// A new connection of the running process.
    pub(super) fn add_client(&mut self) -> ClientId {
        let process = self.running().expect("a connection belongs to a process");
        let machine = self.machine_of(process);
        let id = ClientId(self.rados.clients.len());
        let is_cut = self.rados.cuts.contains_key(&machine);
        let stuck = (0..=MONITOR).filter(|_| is_cut).collect();
        self.rados.clients.push(Client {
            process,
            machine,
            epoch: self.rados.epoch,
            is_shut_out: false,
            is_closed: false,
            stuck,
            outbox: Vec::new(),
            inbox: Vec::new(),
            arrival: BTreeMap::new(),
            execution: BTreeMap::new(),
            heard: self.now,
            watches: BTreeMap::new(),
            calls: Vec::new(),
            caller: None,
        });
        self.rados_after(PING.as_nanos() as u64, Step::Ping(id));
        id
    }

    /// True if a client can reach an OSD now: its process runs, and its connection carries.
    pub(super) fn is_responsive(&self, id: ClientId, osd: usize) -> bool {
        let client = &self.rados.clients[id.0];
        !client.is_closed
            && !client.stuck.contains(&osd)
            && !self.has_died(client.process)
            && !self.is_paused(client.process)
    }

    /// True if a client's watches are there for an OSD.
    pub(super) fn is_watching(&self, id: ClientId, osd: usize) -> bool {
        let client = &self.rados.clients[id.0];
        let patience = std::time::Duration::from_millis(self.rados.mood.watch_ms);
        !client.is_closed
            && !self.rados.is_blocked(id, self.rados.osds[osd].epoch)
            && self.now.since(client.heard) < patience
    }

    /// A client says that it is there, as far as it can; one that could not for too long learns that its watches are gone.
    pub(super) fn ping(&mut self, id: ClientId) {
        if self.rados.clients[id.0].is_closed || self.has_died(self.rados.clients[id.0].process) {
            return;
        }
        let is_answered = !self.rados.osds[MONITOR].is_silent;
        if is_answered && self.is_responsive(id, MONITOR) {
            if !self.is_watching(id, 0) {
                self.lose_watches(id);
            }
            self.rados.clients[id.0].heard = self.now;
        }
        self.rados_after(PING.as_nanos() as u64, Step::Ping(id));
    }

    fn lose_watches(&mut self, id: ClientId) {
        self.rados.store.forget_watches(id);
        let callbacks: Vec<Callback> = self.rados.clients[id.0].watches.values().cloned().collect();
        callbacks.into_iter().for_each(|callback| self.call_back(id, callback));
    }

    /// Has a thread of a client's library call this.
    pub(super) fn call_back(&mut self, id: ClientId, callback: Callback) {
        let client = &mut self.rados.clients[id.0];
        client.calls.push(callback);
        if let Some(caller) = client.caller {
            self.unpark(caller);
        }
    }

    /// Closes a connection to further requests. Those sent go on.
    pub(super) fn close_client(&mut self, id: ClientId) {
        self.rados.store.forget_watches(id);
        let client = &mut self.rados.clients[id.0];
        client.is_closed = true;
        client.watches.clear();
        client.calls.clear();
        if let Some(caller) = client.caller.take() {
            self.unpark(caller);
        }
    }

    /// Records that a process has ended: the answers to its requests are ignored.
    pub(in super::super) fn leave_rados(&mut self, process: ProcessId) {
        for client in self.rados.clients.iter_mut().filter(|client| client.process == process) {
            client.inbox.clear();
            client.watches.clear();
            client.calls.clear();
            client.caller = None;
        }
        let clients = &self.rados.clients;
        let of = |operation: &&mut super::Operation| clients[operation.client.0].process == process;
        let gone: Vec<_> =
            self.rados.operations.iter_mut().filter(of).map(|operation| operation.then.take()).collect();
        drop(gone);
    }

    /// A machine has lost its power, and with it what it had not sent.
    pub(in super::super) fn forget_rados(&mut self, machine: MachineId) {
        for client in self.rados.clients.iter_mut().filter(|client| client.machine == machine) {
            client.outbox.clear();
        }
    }
}
