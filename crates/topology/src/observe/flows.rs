//! Connections of NVMe/TCP queues: of programs, of the kernel's initiator, of targets; each with what its socket says and
//! the interface it goes by.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::reader::Reader;
use super::{ObserveError, kernel, programs, targets};
use crate::limits::FLOWS_MAX;
use crate::machine::Sockets;
use crate::socket::{Socket, SocketState};
use crate::{Flow, FlowOwner, FlowSource, Interface, Worker};

/// Both ends of a connection, as seen from this machine.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A queue of which the connection is known, before its socket is asked.
pub(super) struct Found {
    pub(super) owner: FlowOwner,
    pub(super) controller: String,
    pub(super) subsystem_nqn: Option<String>,
    pub(super) queue_id: Option<u16>,
    pub(super) source: FlowSource,
    pub(super) worker: Option<Worker>,
    pub(super) ends: Ends,
}

/// All TCP sockets, by their ends.
pub(super) struct Connections {
    pub(super) all: Vec<Socket>,
    by_ends: HashMap<Ends, usize>,
    /// Processes whose sockets could not be seen.
    pub(super) unread_processes: u32,
    /// True if the kernel has listed its sockets.
    pub(super) is_listed: bool,
}

impl Connections {
    fn new(sockets: Sockets) -> Self {
        let Sockets { sockets: all, unread_processes, refusals } = sockets;
        let connected = all.iter().enumerate().filter(|(_, socket)| socket.state == SocketState::Established);
        let by_ends = connected.map(|(at, socket)| (unscoped((socket.local, socket.peer)), at)).collect();
        Self { by_ends, unread_processes, is_listed: refusals.is_empty(), all }
    }

    /// The connected socket with these ends.
    pub(super) fn with_ends(&self, ends: Ends) -> Option<&Socket> {
        self.by_ends.get(&unscoped(ends)).map(|at| &self.all[*at])
    }
}

/// Removes the interface of a link-local address, which not all sources name.
fn unscoped((local, peer): Ends) -> Ends {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    (plain(local), plain(peer))
}

/// Reads them, programs' first, each in order of queue.
pub(super) fn read(reader: &mut Reader<'_>, interfaces: &[Interface]) -> Result<Vec<Flow>, ObserveError> {
    let sockets = reader.machine.sockets()?;
    reader.refusals(&sockets.refusals, str::to_owned);
    let connections = Connections::new(sockets);
    let mut found = programs::read(reader, &connections)?;
    let has_kernel = kernel::read(reader, &connections, &mut found)?;
    targets::read(reader, &connections, &mut found)?;
    if connections.unread_processes > 0 && (has_kernel || !found.is_empty()) {
        let reason = format!("{} processes do not let their sockets be seen", connections.unread_processes);
        reader.shortfall("which process has which connection", &reason, true);
    }
    let mut seen = HashSet::new();
    found.retain(|queue| seen.insert(unscoped(queue.ends)));
    if found.len() > FLOWS_MAX {
        let reason = format!("there are {}, of which {FLOWS_MAX} are looked at", found.len());
        reader.shortfall("connections of NVMe/TCP queues", &reason, false);
        found.truncate(FLOWS_MAX);
    }
    let mut routes = RouteCache { interfaces, known: HashMap::new() };
    let mut flows = Vec::new();
    for queue in found {
        flows.push(flow(reader, &connections, &mut routes, queue)?);
    }
    flows.sort_by_cached_key(order);
    Ok(flows)
}

/// Gives flows of which everything else is known the interfaces that their packets leave by.
pub(super) fn located(
    reader: &mut Reader<'_>,
    interfaces: &[Interface],
    mut flows: Vec<Flow>,
) -> Result<Vec<Flow>, ObserveError> {
    let mut routes = RouteCache { interfaces, known: HashMap::new() };
    for flow in &mut flows {
        let (local, peer) = (flow.local.ip().to_canonical(), flow.peer.ip().to_canonical());
        flow.interface = routes.interface(reader, 0, local, peer)?;
    }
    flows.sort_by_cached_key(order);
    Ok(flows)
}

/// Sort key of a flow: owner, process, controller with its number as a number, queue.
fn order(flow: &Flow) -> (u8, u32, (String, u64), Option<u16>, SocketAddr, SocketAddr) {
    let (rank, pid) = match flow.owner {
        FlowOwner::Initiator { pid } => (0, pid),
        FlowOwner::Kernel => (1, 0),
        FlowOwner::Target { pid } => (2, pid.unwrap_or(0)),
    };
    let word = flow.controller.trim_end_matches(|last: char| last.is_ascii_digit());
    let number = flow.controller[word.len()..].parse().unwrap_or(0);
    (rank, pid, (word.to_owned(), number), flow.queue_id, flow.local, flow.peer)
}

fn flow(
    reader: &mut Reader<'_>,
    connections: &Connections,
    routes: &mut RouteCache<'_>,
    queue: Found,
) -> Result<Flow, ObserveError> {
    let socket = connections.with_ends(queue.ends);
    let (local, peer) = queue.ends;
    let bound = socket.map_or(0, |socket| socket.interface_index);
    Ok(Flow {
        interface: routes.interface(reader, bound, local.ip().to_canonical(), peer.ip().to_canonical())?,
        owner: queue.owner,
        controller: queue.controller,
        subsystem_nqn: queue.subsystem_nqn,
        queue_id: queue.queue_id,
        source: queue.source,
        worker: queue.worker,
        local,
        peer,
        receive_queue_bytes: socket.map_or(0, |socket| socket.receive_queue_bytes),
        send_queue_bytes: socket.map_or(0, |socket| socket.send_queue_bytes),
        rtt_us: socket.and_then(|socket| socket.rtt_us),
        retransmissions: socket.and_then(|socket| socket.retransmissions),
    })
}

/// The interfaces that packets leave by, each asked once.
struct RouteCache<'a> {
    interfaces: &'a [Interface],
    known: HashMap<(IpAddr, IpAddr), Option<String>>,
}

impl RouteCache<'_> {
    fn interface(
        &mut self,
        reader: &mut Reader<'_>,
        bound: u32,
        local: IpAddr,
        peer: IpAddr,
    ) -> Result<Option<String>, ObserveError> {
        if let Some(interface) = self.interfaces.iter().find(|interface| interface.index == bound) {
            return Ok(Some(interface.name.clone()));
        }
        if let Some(known) = self.known.get(&(local, peer)) {
            return Ok(known.clone());
        }
        let interface = match reader.machine.route(peer, Some(local)) {
            Ok(name) => Some(name),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error.into()),
            Err(error) => {
                let what = format!("route from {local} to {peer}");
                let needs_root = error.kind() == io::ErrorKind::PermissionDenied;
                reader.shortfall(&what, &error.to_string(), needs_root);
                None
            }
        };
        self.known.insert((local, peer), interface.clone());
        Ok(interface)
    }
}
