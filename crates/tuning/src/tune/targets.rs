//! Queues of the connections of targets on this machine, as the targets report them by their
//! control sockets.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use topology::{CpuSet, FlowOwner, FlowSource, Shortfall, Topology, Worker};

use crate::control::client::Client;
use crate::control::socket::{default_folders, living_sockets};
use crate::flags::control::ControlTlsFlags;
use crate::spec::endpoint::Endpoint;

/// Time-out for the answer of a target.
const PATIENCE: Duration = Duration::from_secs(1);

/// Part of a target's status with its queues.
#[derive(Debug, Default, Deserialize)]
struct Status {
    ports: Vec<Port>,
    controllers: Vec<Controller>,
    reactors: Vec<Reactor>,
}

#[derive(Debug, Deserialize)]
struct Port {
    address: SocketAddr,
}

#[derive(Debug, Deserialize)]
struct Controller {
    cntlid: u16,
    subsystem: String,
    queues: Vec<Queue>,
}

#[derive(Debug, Deserialize)]
struct Queue {
    queue_id: u16,
    reactor: usize,
    peer: Option<SocketAddr>,
}

#[derive(Debug, Deserialize)]
struct Reactor {
    number: usize,
    cpu: Option<u32>,
}

/// Reads the status of the targets at their default sockets, and names their connections' queues.
pub(crate) fn name_queues(topology: &mut Topology) {
    if !topology.flows.iter().any(is_unnamed) {
        return;
    }
    for path in default_folders().iter().flat_map(|folder| living_sockets(folder)) {
        match ask(&path) {
            Ok(status) => name(topology, &status),
            Err(reason) => topology.shortfalls.push(Shortfall {
                what: format!("queues of the target behind {}", path.display()),
                reason,
                needs_root: false,
            }),
        }
    }
}

fn ask(path: &Path) -> Result<Status, String> {
    let endpoint = Endpoint::Unix(path.to_owned());
    let client = Client::new(Some(&endpoint), None, &ControlTlsFlags::default())
        .map(|client| client.patient_for(PATIENCE));
    client.and_then(|client| client.get("/v1/status")).map_err(|failure| failure.line().unwrap_or_default())
}

fn is_unnamed(flow: &topology::Flow) -> bool {
    matches!(flow.owner, FlowOwner::Target { pid: Some(_) }) && flow.queue_id.is_none()
}

/// An address over IPv4 as such, however a socket for both families has it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn name(topology: &mut Topology, status: &Status) {
    let online = topology.processors.online.clone();
    for flow in topology.flows.iter_mut().filter(|flow| is_unnamed(flow)) {
        // A host may use one port for two targets at different ports of theirs.
        if !status.ports.iter().any(|port| port.address.port() == flow.local.port()) {
            continue;
        }
        let has_peer =
            |queue: &&Queue| queue.peer.is_some_and(|peer| canonical(peer) == canonical(flow.peer));
        let found = status
            .controllers
            .iter()
            .find_map(|controller| controller.queues.iter().find(has_peer).map(|queue| (controller, queue)));
        let Some((controller, queue)) = found else { continue };
        let reactor = status.reactors.iter().find(|reactor| reactor.number == queue.reactor);
        let cpu = reactor.and_then(|reactor| reactor.cpu);
        flow.controller = format!("cntlid {}", controller.cntlid);
        flow.subsystem_nqn = Some(controller.subsystem.clone());
        flow.queue_id = Some(queue.queue_id);
        flow.source = FlowSource::Program;
        // Reactors are placed by `serve --reactors`, each with many connections: none moves for one of them.
        let allowed = cpu.map_or_else(|| online.clone(), CpuSet::one);
        flow.worker = Some(Worker { thread: None, cpu, allowed, is_movable: false });
    }
}

#[cfg(test)]
mod tests {
    use topology::sample;

    use super::*;

    #[test]
    fn a_targets_connections_get_their_queues_names() {
        let mut topology = sample::topology("virtio-one-queue").unwrap();
        let targets: Vec<usize> =
            (0..topology.flows.len()).filter(|at| is_unnamed(&topology.flows[*at])).collect();
        assert!(!targets.is_empty(), "the machine has a target with connections");
        let flow = topology.flows[targets[0]].clone();
        let text = serde_json::json!({
            "ports": [{ "id": 1, "address": format!("[::]:{}", flow.local.port()), "transport": "tcp" }],
            "controllers": [{ "cntlid": 7, "subsystem": "nqn.a", "host_nqn": "nqn.h",
                "queues": [{ "queue_id": 3, "entries": 128, "reactor": 1, "peer": flow.peer, "stream": null }] }],
            "reactors": [{ "number": 0, "cpu": null }, { "number": 1, "cpu": 1 }],
        });
        let status: Status = serde_json::from_value(text).unwrap();
        let other = Status { ports: Vec::new(), ..Status::default() };
        name(&mut topology, &other);
        assert_eq!(topology.flows[targets[0]], flow, "another target's ports say nothing of it");
        name(&mut topology, &status);
        let named = &topology.flows[targets[0]];
        assert_eq!((named.queue_id, named.controller.as_str()), (Some(3), "cntlid 7"));
        assert_eq!(named.worker.as_ref().and_then(|worker| worker.cpu), Some(1));
        assert!(targets[1..].iter().all(|at| is_unnamed(&topology.flows[*at])), "others are as they were");
    }
}
