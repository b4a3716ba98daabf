//! The cluster as a check sees it: all that is so at one moment, including what no process knows.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::ClientId;
use crate::ring::simulated::scheduler::{MachineId, ProcessId, World, with};

/// Invariant; returns how it is violated.
pub(super) type Check = Rc<dyn Fn(&View<'_>) -> Option<String>>;

/// The cluster at one moment.
pub struct View<'a>(&'a World);

/// Owner of the lock of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of its connection.
    pub client: usize,
    /// Process, and the machine it runs on.
    pub process: ProcessId,
    /// See `process`.
    pub machine: MachineId,
    /// Set if it has let go of the image, and may only have failed to say so.
    pub has_let_go: bool,
}

impl View<'_> {
    /// The pairs of an object.
    pub fn pairs(&self, pool: &str, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.0.rados.store.objects.get(&format!("{pool}/{name}")).map(|object| &object.pairs)
    }

    /// True if the connection with this number is shut out by the newest map.
    pub fn is_shut_out(&self, client: usize) -> bool {
        self.0.rados.is_blocked_now(ClientId::of(client))
    }

    /// True if it is shut out, or was in the past.
    pub fn was_shut_out(&self, client: usize) -> bool {
        self.0.rados.spans.contains_key(&ClientId::of(client))
    }

    /// Owner of the lock of an image.
    pub fn holder(&self, pool: &str, name: &str) -> Option<Holder> {
        let locker = self.0.rados.store.image(&format!("{pool}/{name}"))?.lock?;
        let client = &self.0.rados.clients[locker.0.number()];
        let (process, machine) = (client.process, client.machine);
        let has_let_go = self.0.rados.let_go.contains(&locker);
        Some(Holder { client: locker.0.number(), process, machine, has_let_go })
    }

    /// The connections on which an image is open.
    pub fn openers(&self, pool: &str, name: &str) -> Vec<usize> {
        let image = self.0.rados.store.image(&format!("{pool}/{name}"));
        image.into_iter().flat_map(|image| &image.watchers).map(|(client, _)| client.number()).collect()
    }

    /// The connections of a machine that have sent writes which may yet take effect: not done, and not shut out.
    pub fn writers(&self, machine: MachineId) -> Vec<usize> {
        let writers = self.writing(|_| true).into_iter().filter(|(_, of)| *of == machine);
        writers.map(|(client, _)| client).collect()
    }

    /// The connections that have sent such writes to an image, with their machines.
    pub fn writers_to(&self, pool: &str, name: &str) -> Vec<(usize, MachineId)> {
        let image = format!("{pool}/{name}");
        self.writing(|written| written == image)
    }

    fn writing(&self, is_it: impl Fn(&str) -> bool) -> Vec<(usize, MachineId)> {
        let rados = &self.0.rados;
        let may_write = |operation: &&super::Operation| {
            operation.work.is_some()
                && operation.writes.as_deref().is_some_and(&is_it)
                && !rados.is_blocked_now(operation.client)
        };
        let writing = rados.operations.iter().filter(may_write);
        let mut clients: Vec<(usize, MachineId)> = writing
            .map(|operation| operation.client.number())
            .map(|client| (client, rados.clients[client].machine))
            .collect();
        clients.dedup();
        clients
    }

    /// True if a process has ended, in whatever way.
    pub fn has_died(&self, process: ProcessId) -> bool {
        self.0.has_died(process)
    }
}

impl World {
    /// Looks whether all is as it has to be.
    pub(super) fn check_rados(&mut self) {
        let Some(check) = self.rados.check.clone() else { return };
        if let Some(fault) = check(&View(self)) {
            self.fail(fault);
        }
    }
}

/// Has this looked at whenever an object, the lock of an image or the blocklist has changed.
pub fn check_always(check: impl Fn(&View<'_>) -> Option<String> + 'static) {
    with(|world| world.rados.check = Some(Rc::new(check)));
}

/// Looks at the cluster.
pub fn look<T>(with_view: impl FnOnce(&View<'_>) -> T) -> T {
    with(|world| with_view(&View(world)))
}
