//! Operations on their way: to an OSD, through it, and back. A connection's operations arrive and take effect in the order in which
//! they were sent; whether one may is said by the map that the OSD has then.

use std::fmt;
use std::rc::Rc;

use super::{Answer, ClientId, MONITOR, Step};
use crate::ring::Moment;
use crate::ring::simulated::scheduler::{MachineId, What, World};

/// Work of an OSD or the monitors.
pub(crate) type Work = Box<dyn FnOnce(&mut World, Moment) -> Outcome>;
/// Result of the work: an error is its number.
pub(crate) type Outcome = Result<Answer, i32>;
/// Continuation at the client.
pub(super) type Then = Box<dyn FnOnce(&mut World, Outcome)>;

/// An operation.
pub(super) struct Operation {
    pub(super) client: ClientId,
    osd: usize,
    /// The map that the client acted by; in the answer, the OSD's.
    epoch: u64,
    /// The image that it writes to, if it does.
    pub(super) writes: Option<Rc<str>>,
    pub(super) work: Option<Work>,
    pub(super) then: Option<Then>,
    outcome: Option<Outcome>,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("client", &self.client).finish_non_exhaustive()
    }
}

impl World {
    /// Sends an operation, whose client waits for this time at most; 0 is for as long as it takes.
    pub(super) fn send_to_osd(
        &mut self,
        client: ClientId,
        osd: usize,
        (work, then): (Work, Then),
        timeout_ms: u64,
    ) -> usize {
        let (id, writes) = (self.rados.operations.len(), None);
        let epoch = self.rados.clients[client.0].epoch;
        let (work, then, outcome) = (Some(work), Some(then), None);
        self.rados.operations.push(Operation { client, osd, epoch, writes, work, then, outcome });
        if timeout_ms > 0 {
            self.rados_after(timeout_ms * 1_000_000, Step::Timeout(id));
        }
        if self.rados.clients[client.0].stuck.contains(&osd) {
            self.rados.clients[client.0].outbox.push(id);
        } else {
            self.go_out(id);
        }
        id
    }

    fn go_out(&mut self, id: usize) {
        let (client, osd) = (self.rados.operations[id].client, self.rados.operations[id].osd);
        let time = self.rados.time(self.rados.mood.way_us);
        let last = self.rados.clients[client.0].arrival.get(&osd).map_or(0, |at| at.0 + 1);
        let at = Moment(last.max(self.now.0 + time));
        self.rados.clients[client.0].arrival.insert(osd, at);
        self.at(at, What::Rados(Step::Arrive(id)));
    }

    /// An operation is at its OSD, which may not be able to do it yet.
    pub(super) fn arrive_at_osd(&mut self, id: usize) {
        let (client, number, epoch) = {
            let operation = &self.rados.operations[id];
            (operation.client, operation.osd, operation.epoch)
        };
        let operations = &self.rados.operations;
        let osd = &self.rados.osds[number];
        let is_behind = osd.epoch < epoch;
        let is_second = osd.waiting.iter().any(|other| operations[*other].client == client);
        if osd.is_silent || is_behind || is_second {
            self.rados.osds[number].waiting.push(id);
            if is_behind && !is_second {
                // It asks for the map that it lacks.
                let time = self.rados.time((500, 20_000));
                self.rados_after(time, Step::Map(number));
            }
            return;
        }
        let work = self.rados.time(self.rados.mood.work_us);
        let time = if number == MONITOR { work + self.rados.time(self.rados.mood.commit_us) } else { work };
        let last = self.rados.clients[client.0].execution.get(&number).map_or(0, |at| at.0 + 1);
        let at = Moment(last.max(self.now.0 + time));
        self.rados.clients[client.0].execution.insert(number, at);
        self.at(at, What::Rados(Step::Execute(id)));
    }

    /// An operation takes effect, if its client may.
    pub(super) fn execute(&mut self, id: usize) {
        let (client, number) = (self.rados.operations[id].client, self.rados.operations[id].osd);
        let osd = &self.rados.osds[number];
        if osd.is_silent {
            // What the same connection has sent later, and has come meanwhile, is behind it.
            let is_later = |other: &usize| self.rados.operations[*other].client == client && *other > id;
            let place = osd.waiting.iter().position(is_later).unwrap_or(osd.waiting.len());
            return self.rados.osds[number].waiting.insert(place, id);
        }
        let is_blocked = number != MONITOR && self.rados.is_blocked(client, osd.epoch);
        let Some(work) = self.rados.operations[id].work.take() else { return };
        let outcome = if is_blocked { Err(libc::ESHUTDOWN) } else { work(self, self.now) };
        if std::mem::take(&mut self.rados.store.has_changed) {
            self.check_rados();
        }
        let epoch = self.rados.osds[number].epoch;
        let operation = &mut self.rados.operations[id];
        (operation.outcome, operation.epoch) = (Some(outcome), epoch);
        if self.rados.clients[client.0].stuck.contains(&number) {
            self.rados.clients[client.0].inbox.push(id);
        } else {
            let time = self.rados.time(self.rados.mood.way_us);
            self.rados_after(time, Step::Reply(id));
        }
    }

    /// An answer is at its client.
    pub(super) fn reply(&mut self, id: usize) {
        let operation = &mut self.rados.operations[id];
        let (then, outcome) = (operation.then.take(), operation.outcome.take());
        let client = &mut self.rados.clients[operation.client.0];
        client.epoch = client.epoch.max(operation.epoch);
        client.heard = self.now;
        client.is_shut_out |= outcome == Some(Err(libc::ESHUTDOWN));
        if let (Some(then), Some(outcome)) = (then, outcome) {
            then(self, outcome);
        }
    }

    /// A client no longer waits for an operation, which may be carried out yet.
    pub(super) fn time_out(&mut self, id: usize) {
        let operation = &mut self.rados.operations[id];
        let process = self.rados.clients[operation.client.0].process;
        if let Some(then) = operation.then.take() {
            if self.is_paused(process) {
                self.rados.operations[id].then = Some(then);
                return self.rados_after(50_000_000, Step::Timeout(id));
            }
            then(self, Err(libc::ETIMEDOUT));
        }
    }

    /// All connections of a machine carry nothing from now on.
    pub(super) fn cut_cluster(&mut self, machine: MachineId) {
        self.rados.cuts.insert(machine, self.now);
        for client in self.rados.clients.iter_mut().filter(|client| client.machine == machine) {
            client.stuck = (0..=MONITOR).collect();
        }
    }

    /// The way is there again. The system sends again after a while.
    pub(super) fn mend_cluster(&mut self, machine: MachineId) {
        let Some(since) = self.rados.cuts.remove(&machine) else { return };
        let cut = self.now.since(since).as_nanos() as u64;
        // Each connection sends again in its own time.
        for id in (0..self.rados.clients.len()).map(ClientId) {
            if self.rados.clients[id.0].machine == machine {
                for osd in self.rados.clients[id.0].stuck.clone() {
                    let time = self.rados.random.below(cut + 1);
                    self.rados_after(time, Step::Flush(id, osd));
                }
            }
        }
    }

    /// The system has sent again.
    pub(super) fn flush(&mut self, id: ClientId, osd: usize) {
        let machine = self.rados.clients[id.0].machine;
        if self.rados.cuts.contains_key(&machine) {
            return;
        }
        let (client, operations) = (&mut self.rados.clients[id.0], &self.rados.operations);
        client.stuck.remove(&osd);
        let is_there = |operation: &mut usize| operations[*operation].osd == osd;
        let out: Vec<usize> = client.outbox.extract_if(.., is_there).collect();
        let back: Vec<usize> = client.inbox.extract_if(.., is_there).collect();
        out.into_iter().for_each(|operation| self.go_out(operation));
        for operation in back {
            let time = self.rados.time(self.rados.mood.way_us);
            self.rados_after(time, Step::Reply(operation));
        }
    }
}
