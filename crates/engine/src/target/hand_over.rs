//! Hand-over of a target's hosts to another process, or take-over from one, without a reconnection.
//! Consists of data ([`HandedTarget`]) and sockets. Until the old process has left, and from
//! the start of the new one on, only one of them may serve, which the caller ensures.

mod beside;
mod images;
mod new_process;
mod old_process;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use beside::{Releases, TakesOver};
pub use new_process::SocketChannel;
pub use old_process::unknown_to;
pub use words::{Offer, State, TargetProtocol, Word, known};

use super::Target;
use super::handed_target::{
    HandedController, HandedNamespace, HandedQueue, HandedReservations, HandedTarget,
};
use super::lock::lock;
use super::messaging::{
    Adoption, AdoptionError, Arrival, Freeze, Frozen, FrozenReactor, HandOverOrder, Message,
};
use super::served::Namespace;
use uuid::Uuid;

use crate::backend::Backend;
#[cfg(not(feature = "simulation"))]
use crate::claims::InheritedMemory;
use crate::hand_over::{HandOverError, LATE_IMAGE};
use crate::limits::{FREEZE_PATIENCE_MS, FREEZE_STALL_MS};
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::{self, Hold, Socket, tcp};

/// Time beyond their own deadlines after which a reactor counts as hung.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// State that one process of a target hands over to the next.
#[derive(Debug, Default)]
pub struct HandOver {
    /// All but the sockets.
    pub state: HandedTarget,
    /// The sockets of the queues, in their order.
    pub queues: Vec<Arc<Socket>>,
    /// Connections from which nothing has come, with the port they came by and where they came from.
    pub arrivals: Vec<(u16, SocketAddr, Arc<Socket>)>,
}

impl Target {
    /// Why this target cannot be handed over: what it has that lives in its memory alone, or belongs to it as a process.
    pub fn obstacles(&self) -> Vec<String> {
        let mut obstacles = Vec::new();
        for (nqn, namespace) in self.fabric.namespaces() {
            let what = match &*namespace.backend {
                Backend::Memory(memory) if !memory.is_shareable() => {
                    Some("its blocks are in memory that this system does not let another process have")
                }
                backend if backend.has_been_late() => Some(LATE_IMAGE),
                _ => None,
            };
            obstacles.extend(what.map(|what| format!("namespace {} of {nqn}: {what}", namespace.nsid)));
        }
        obstacles
    }

    /// Extensions of the hand-over format that a process has to know to take this target over.
    pub fn needs(&self) -> Vec<&'static str> {
        let namespaces = self.fabric.namespaces();
        let has_memory =
            namespaces.iter().any(|(_, namespace)| matches!(&*namespace.backend, Backend::Memory(_)));
        let is_special = |(_, namespace): &(String, Arc<Namespace>)| namespace.handed().is_some();
        let has_keys = !self.fabric.generated_keys.handed(ring::now()).is_empty();
        [
            (has_memory, "memory"),
            (namespaces.iter().any(is_special), "marked blocks"),
            (has_keys, "generated keys"),
        ]
        .into_iter()
        .filter_map(|(is_so, what)| is_so.then_some(what))
        .collect()
    }

    /// The sockets that listen, for the process that goes on in its place.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn listening(&self) -> std::io::Result<Vec<tcp::Shared>> {
        self.configurator.listening()
    }

    /// Descriptors of the locks on files, devices and state, for the process that replaces this
    /// one.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn holds(&self) -> std::io::Result<Vec<Hold>> {
        let namespaces = self.fabric.namespaces();
        let files = namespaces.iter().filter_map(|(_, namespace)| match &*namespace.backend {
            Backend::Device(device) => device.held(),
            Backend::Memory(_) | Backend::Null(_) => None,
        });
        // A simulated target has no state directory.
        #[cfg(not(feature = "simulation"))]
        let archive = self.fabric.archive();
        #[cfg(not(feature = "simulation"))]
        let files = files.chain(archive.iter().map(|archive| archive.held()));
        files.collect()
    }

    /// The blocks of namespaces in memory, for the process that goes on in its place.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    #[cfg(not(feature = "simulation"))]
    pub fn memories(&self) -> std::io::Result<Vec<InheritedMemory>> {
        let namespaces = self.fabric.namespaces();
        let memories = namespaces.iter().filter_map(|(_, namespace)| match &*namespace.backend {
            Backend::Memory(memory) => Some((namespace.uuid, memory.shared()?)),
            Backend::Device(_) | Backend::Null(_) => None,
        });
        let inherited = |(uuid, shared): ([u8; 16], std::io::Result<(u64, _)>)| {
            shared.map(|(room, file)| InheritedMemory { namespace: Uuid::from_bytes(uuid), room, file })
        };
        memories.map(inherited).collect()
    }

    /// Brings everything to rest: nothing is accepted, received, done or sent until [`Self::go_on`]. Hosts notice a pause.
    /// Connections that wait for their hosts too long are closed; so are those that cannot be handed over.
    ///
    /// # Errors
    /// What does not come to rest in time. Everything goes on then.
    pub fn freeze(&self) -> Result<HandOver, HandOverError> {
        self.freeze_within(Duration::from_millis(FREEZE_STALL_MS), Duration::from_millis(FREEZE_PATIENCE_MS))
    }

    /// The same with other times: for a host that sends and takes nothing of what it owes, and for all and the storage.
    ///
    /// # Errors
    /// As above.
    pub fn freeze_within(&self, stall: Duration, patience: Duration) -> Result<HandOver, HandOverError> {
        self.configurator.hold(true);
        let begun = ring::now();
        let (answer, answers) = channel();
        let (deadline, hosts_deadline) = (begun.after(patience), begun.after(patience + patience / 4));
        let order = Freeze { begun, stall, deadline, hosts_deadline, answer };
        self.fabric.tell_reactors(|| Message::HandOver(HandOverOrder::Freeze(order.clone())));
        drop(order);
        let frozen = self.await_frozen(&answers, patience);
        if frozen.is_err() {
            self.go_on();
        }
        frozen.map(|frozen| self.hand_over_of(frozen))
    }

    fn await_frozen(
        &self,
        answers: &Receiver<Result<FrozenReactor, HandOverError>>,
        patience: Duration,
    ) -> Result<FrozenReactor, HandOverError> {
        let mut all = FrozenReactor::default();
        let patience = patience + ANSWER_TIMEOUT;
        for _ in self.fabric.mailboxes().all() {
            let answer = answers.recv_timeout(patience).map_err(|_| HandOverError::Reactor)?;
            let FrozenReactor { connections, disconnected } = answer?;
            all.connections.extend(connections);
            all.disconnected.extend(disconnected);
        }
        Ok(all)
    }

    /// State to hand over, except for queues whose controllers cannot be handed over.
    fn hand_over_of(&self, frozen: FrozenReactor) -> HandOver {
        let FrozenReactor { connections: frozen, disconnected } = frozen;
        let mut hand_over = HandOver { state: self.fabric.handed(), ..HandOver::default() };
        hand_over.state.disconnected = disconnected;
        let mut queues: Vec<(HandedQueue, Arc<Socket>)> = Vec::new();
        for Frozen { socket, port, peer, queue } in frozen {
            match queue {
                Some(queue) => queues.push((queue, socket)),
                None => hand_over.arrivals.push((port, peer, socket)),
            }
        }
        // Admin queues come before the others, which need their controllers.
        queues.sort_by_key(|(queue, _)| (queue.queue_id, queue.controller_id));
        let admin = queues.iter().filter(|(queue, _)| queue.queue_id == 0);
        let handed = |(queue, _): &(HandedQueue, Arc<Socket>)| {
            self.fabric.controller(queue.controller_id)?.handed(queue.peer.ip())
        };
        hand_over.state.controllers = admin.filter_map(handed).collect();
        let namespaces = self.fabric.namespaces();
        hand_over.state.served = numbers(&namespaces);
        hand_over.state.namespaces =
            namespaces.iter().filter_map(|(_, namespace)| namespace.handed()).collect();
        hand_over.state.reservations =
            namespaces.iter().filter_map(|(_, namespace)| namespace.handed_reservations()).collect();
        let ids: Vec<u16> = hand_over.state.controllers.iter().map(|controller| controller.id).collect();
        queues.retain(|(queue, _)| ids.contains(&queue.controller_id));
        (hand_over.state.queues, hand_over.queues) = queues.into_iter().unzip();
        hand_over
    }

    /// Goes on with everything: what [`Self::freeze`] brought to rest, or what [`Self::take_over`] has taken.
    pub fn go_on(&self) {
        self.fabric.tell_reactors(|| Message::HandOver(HandOverOrder::Thaw));
        for arrival in std::mem::take(&mut *lock(&self.resting)) {
            self.place(arrival, Message::Connection);
        }
        self.configurator.hold(false);
    }

    /// Closes what was handed over, or taken over, and does not continue here. Hosts get no notice.
    pub fn disown(&self) {
        lock(&self.resting).clear();
        self.fabric.tell_reactors(|| Message::HandOver(HandOverOrder::Leave));
    }

    /// Ends, and leaves what rests to another process: its hosts hear nothing.
    pub fn leave(&self) {
        self.disown();
        self.shutdown();
    }

    /// Takes over what another process has handed over; it rests until [`Self::go_on`]. To be asked of a target that was started
    /// held ([`super::TargetConfig::is_held`]). What it cannot take over is closed: with each the reason, by its host's name.
    ///
    /// # Errors
    /// When a namespace is not here, or what is known of it cannot be taken over: hosts would lose it, write what is reserved
    /// against them, or read what was marked.
    pub fn take_over(&self, hand_over: HandOver) -> Result<Vec<(String, String)>, HandOverError> {
        let HandOver { state, queues, arrivals } = hand_over;
        let namespaces = self.fabric.namespaces();
        let here = numbers(&namespaces);
        // A namespace that could not be opened yet may be absent for new hosts, but not for those
        // that have it.
        if let Some((nqn, nsid)) = state.served.difference(&here).next() {
            return Err(HandOverError::NotAvailable { nqn: nqn.clone(), nsid: *nsid });
        }
        self.fabric.go_on(state.tag, &state.uniquifiers);
        self.fabric.generated_keys.go_on(&state.generated_keys, ring::now());
        self.fabric.take_former_keys(&state.former_keys);
        let known = Known::of(namespaces);
        known.take_namespaces(state.namespaces)?;
        known.take_reservations(state.reservations)?;
        let controllers: BTreeMap<u16, HandedController> =
            state.controllers.into_iter().map(|controller| (controller.id, controller)).collect();
        let all = state.queues.into_iter().zip(queues);
        let (admin, io): (Vec<_>, Vec<_>) = all.partition(|(queue, _)| queue.queue_id == 0);
        let (mut failed, mut disconnected) = (Vec::new(), state.disconnected);
        for queues in [admin, io] {
            let mut asked = Vec::new();
            for (queue, socket) in queues {
                let Some(controller) = controllers.get(&queue.controller_id) else { continue };
                let name = format!("{} queue {}", controller.host_nqn, queue.queue_id);
                let host = format!("{} at {}", controller.host_nqn, queue.peer.ip());
                let (answer, is_done) = channel();
                self.adopt(queue, controller.clone(), socket, answer);
                asked.push((name, host, is_done));
            }
            for (name, host, is_done) in asked {
                let reason = match is_done.recv_timeout(ANSWER_TIMEOUT) {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => HandOverError::Reactor.to_string(),
                };
                failed.push((name, reason));
                disconnected.insert(host);
            }
        }
        // Half-open connections stay unread until this process serves.
        *lock(&self.disconnected) = disconnected;
        let arrivals = arrivals.into_iter().map(|(port, peer, socket)| Arrival { socket, port, peer });
        lock(&self.resting).extend(arrivals);
        Ok(failed)
    }

    /// Hosts, with their addresses, that had to connect again when this process took over.
    pub fn disconnected(&self) -> BTreeSet<String> {
        lock(&self.disconnected).clone()
    }

    fn adopt(
        &self,
        queue: HandedQueue,
        controller: HandedController,
        socket: Arc<Socket>,
        answer: Sender<Result<(), AdoptionError>>,
    ) {
        let arrival = Arrival { socket, port: queue.port, peer: queue.peer };
        self.place(arrival, |arrival| {
            Message::HandOver(HandOverOrder::Adopt(Box::new(Adoption { arrival, queue, controller, answer })))
        });
    }

    /// Gives a connection to the reactor that has the fewest.
    fn place(&self, arrival: Arrival, message: impl FnOnce(Arrival) -> Message) {
        let reactors = self.fabric.mailboxes().all();
        if let Some(reactor) = reactors.iter().min_by_key(|reactor| reactor.connections()) {
            reactor.count_connection();
            reactor.send(message(arrival));
        }
    }
}

/// Namespaces with their subsystems, by what hosts know them by: hosts wait while thousands of them
/// are found, each without a search.
struct Known(BTreeMap<[u8; 16], (String, Arc<Namespace>)>);

impl Known {
    fn of(namespaces: Vec<(String, Arc<Namespace>)>) -> Self {
        // The first of two subsystems that have the same one.
        Self(namespaces.into_iter().rev().map(|known| (known.1.uuid, known)).collect())
    }

    fn take_namespaces(&self, all: Vec<HandedNamespace>) -> Result<(), HandOverError> {
        for handed in all {
            let (nqn, namespace) = self.namespace_with(handed.namespace)?;
            namespace.go_on_as(handed).map_err(|error| HandOverError::Impossible {
                object: format!("namespace {} of {nqn}", namespace.nsid),
                source: error.into(),
            })?;
        }
        Ok(())
    }

    fn take_reservations(&self, all: Vec<HandedReservations>) -> Result<(), HandOverError> {
        for reservations in all {
            let (nqn, namespace) = self.namespace_with(reservations.namespace)?;
            namespace.go_on_with(reservations).map_err(|error| HandOverError::Impossible {
                object: format!("reservations of namespace {} of {nqn}", namespace.nsid),
                source: error.into(),
            })?;
        }
        Ok(())
    }

    fn namespace_with(&self, uuid: Uuid) -> Result<&(String, Arc<Namespace>), HandOverError> {
        self.0.get(uuid.as_bytes()).ok_or(HandOverError::NotServed(uuid))
    }
}

/// Namespaces by subsystem and identifier.
fn numbers(namespaces: &[(String, Arc<Namespace>)]) -> BTreeSet<(String, u32)> {
    namespaces.iter().map(|(nqn, namespace)| (nqn.clone(), namespace.nsid)).collect()
}
