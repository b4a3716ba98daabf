//! Subsystems with their namespaces and hosts, and the fabric: all that the reactors of one target share.
//! Its locks are taken by Connect, admin commands and administration, never by a read or a write.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use nvme::discovery::DISCOVERY_NQN;

use super::controller::Controller;
use super::counters::{Counts, QueueCounters};
use super::namespace::Namespace;
use super::reactor::{Mailbox, Message};
use super::{SubsystemConfig, TargetError};
use crate::limits::CONTROLLERS_MAX;

/// The namespaces of a subsystem, by identifier: namespace n stands at n - 1.
#[derive(Debug, Default)]
pub(super) struct NamespaceTable(Vec<Option<Arc<Namespace>>>);

impl NamespaceTable {
    fn new(namespaces: Vec<Namespace>) -> Self {
        let length = namespaces.iter().map(|namespace| namespace.nsid as usize).max().unwrap_or(0);
        let mut table = vec![None; length];
        for namespace in namespaces {
            let at = namespace.nsid as usize - 1;
            table[at] = Some(Arc::new(namespace));
        }
        Self(table)
    }

    /// The namespace with this identifier.
    pub(super) fn get(&self, nsid: u32) -> Option<&Namespace> {
        self.0.get((nsid as usize).checked_sub(1)?)?.as_deref()
    }

    /// All namespaces in the order of their identifiers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.0.iter().flatten().map(|namespace| &**namespace)
    }
}

/// A queue's own handle on the namespaces. It can be held on to during a command without touching the counter that
/// all reactors share.
#[derive(Debug)]
pub(super) struct NamespaceView(Arc<NamespaceTable>);

impl NamespaceView {
    pub(super) fn new(table: Arc<NamespaceTable>) -> Rc<Self> {
        Rc::new(Self(table))
    }
}

impl std::ops::Deref for NamespaceView {
    type Target = NamespaceTable;

    fn deref(&self) -> &NamespaceTable {
        &self.0
    }
}

/// A subsystem.
#[derive(Debug)]
pub(super) struct Subsystem {
    pub(super) nqn: String,
    pub(super) serial: String,
    pub(super) model: String,
    pub(super) is_discovery: bool,
    pub(super) started: Instant,
    allow_any_host: bool,
    hosts: Vec<String>,
    namespaces: RwLock<Arc<NamespaceTable>>,
    counters: Mutex<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    living: Vec<Arc<QueueCounters>>,
    retired: Counts,
}

impl Subsystem {
    /// Opens a subsystem's namespaces.
    pub(super) fn open(config: &SubsystemConfig) -> Result<Self, TargetError> {
        let mut namespaces = Vec::with_capacity(config.namespaces.len());
        for namespace in &config.namespaces {
            namespaces.push(Namespace::open(&config.nqn, namespace)?);
        }
        Ok(Self {
            nqn: config.nqn.clone(),
            serial: config.serial.clone(),
            model: config.model.clone(),
            is_discovery: false,
            started: Instant::now(),
            allow_any_host: config.allow_any_host,
            hosts: config.hosts.clone(),
            namespaces: RwLock::new(Arc::new(NamespaceTable::new(namespaces))),
            counters: Mutex::default(),
        })
    }

    /// The discovery subsystem, which is on every port and open to every host.
    fn discovery() -> Self {
        Self {
            nqn: DISCOVERY_NQN.to_owned(),
            serial: "discovery".to_owned(),
            model: "Selvedge".to_owned(),
            is_discovery: true,
            started: Instant::now(),
            allow_any_host: true,
            hosts: Vec::new(),
            namespaces: RwLock::default(),
            counters: Mutex::default(),
        }
    }

    /// Whether the host with this name may connect.
    pub(super) fn allows(&self, host_nqn: &str) -> bool {
        self.allow_any_host || self.hosts.iter().any(|host| host == host_nqn)
    }

    /// The namespaces as they are now.
    pub(super) fn namespaces(&self) -> Arc<NamespaceTable> {
        self.namespaces.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counters for a new I/O queue.
    pub(super) fn new_counters(&self) -> Arc<QueueCounters> {
        let counters = Arc::new(QueueCounters::default());
        lock(&self.counters).living.push(counters.clone());
        counters
    }

    /// Takes the counters of a queue that ended into the sum.
    pub(super) fn retire_counters(&self, ended: &Arc<QueueCounters>) {
        let mut counters = lock(&self.counters);
        counters.living.retain(|living| !Arc::ptr_eq(living, ended));
        counters.retired += ended.counts();
    }

    /// What all queues have done since the target started.
    pub(super) fn counts(&self) -> Counts {
        let counters = lock(&self.counters);
        let mut sum = counters.retired;
        for queue in &counters.living {
            sum += queue.counts();
        }
        sum
    }
}

/// An address the target listens on, as discovery tells it.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) address: SocketAddr,
    pub(super) advertise: Option<String>,
}

/// What all reactors of a target share.
#[derive(Debug)]
pub(super) struct Fabric {
    subsystems: Vec<Arc<Subsystem>>,
    discovery: Arc<Subsystem>,
    pub(super) ports: Vec<Port>,
    controllers: Mutex<Controllers>,
    reactors: OnceLock<Vec<Arc<Mailbox>>>,
}

#[derive(Debug, Default)]
struct Controllers {
    by_id: HashMap<u16, Arc<Controller>>,
    last_id: u16,
}

/// Identifiers from here on mean something else (FFF0h and up are reserved).
const CONTROLLER_ID_END: u16 = 0xfff0;

impl Fabric {
    pub(super) fn new(subsystems: Vec<Arc<Subsystem>>, ports: Vec<Port>) -> Self {
        Self {
            subsystems,
            discovery: Arc::new(Subsystem::discovery()),
            ports,
            controllers: Mutex::default(),
            reactors: OnceLock::new(),
        }
    }

    /// Makes the reactors known, once they run.
    pub(super) fn introduce(&self, reactors: Vec<Arc<Mailbox>>) {
        let _ = self.reactors.set(reactors);
    }

    /// Controllers hold their reactors alive no longer.
    pub(super) fn forget_reactors(&self) {
        lock(&self.controllers).by_id.clear();
    }

    pub(super) fn reactors(&self) -> &[Arc<Mailbox>] {
        self.reactors.get().map_or(&[], |reactors| reactors)
    }

    /// The subsystems that hold namespaces.
    pub(super) fn subsystems(&self) -> &[Arc<Subsystem>] {
        &self.subsystems
    }

    /// The subsystem with this name.
    pub(super) fn find(&self, nqn: &str) -> Option<&Arc<Subsystem>> {
        if nqn == DISCOVERY_NQN {
            return Some(&self.discovery);
        }
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }

    /// Makes a controller, or `None` when there are as many as there may be.
    pub(super) fn add_controller(&self, make: impl FnOnce(u16) -> Controller) -> Option<Arc<Controller>> {
        let mut controllers = lock(&self.controllers);
        if controllers.by_id.len() >= CONTROLLERS_MAX {
            return None;
        }
        // The next free one after the last: an identifier comes back as late as possible, so that a host that still
        // uses an old one finds nobody rather than somebody else.
        let mut id = controllers.last_id;
        loop {
            id = if id + 1 >= CONTROLLER_ID_END { 1 } else { id + 1 };
            if !controllers.by_id.contains_key(&id) {
                break;
            }
        }
        controllers.last_id = id;
        let controller = Arc::new(make(id));
        controllers.by_id.insert(id, controller.clone());
        Some(controller)
    }

    /// The controller with this identifier.
    pub(super) fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        lock(&self.controllers).by_id.get(&id).cloned()
    }

    /// Controllers of a subsystem, in the order of their identifiers.
    pub(super) fn controller_ids(&self, subsystem: &Subsystem) -> Vec<u16> {
        let controllers = lock(&self.controllers);
        let mut ids: Vec<u16> = controllers
            .by_id
            .values()
            .filter(|controller| controller.subsystem.nqn == subsystem.nqn)
            .map(|controller| controller.id)
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Ends a controller: no queue of it goes on, and its identifier may be used again.
    pub(super) fn end_controller(&self, controller: &Controller) {
        if controller.end() {
            lock(&self.controllers).by_id.remove(&controller.id);
            self.close_queues(controller.id);
        }
    }

    /// Closes the I/O queues of a controller wherever they are.
    pub(super) fn close_queues(&self, controller_id: u16) {
        for reactor in self.reactors() {
            reactor.send(Message::CloseQueues(controller_id));
        }
    }
}

/// Takes a lock whose holder cannot have left it half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
