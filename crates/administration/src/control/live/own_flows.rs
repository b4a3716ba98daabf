//! The target's connections as the tuner's flows, as far as it knows them itself: queue, ends, reactor.

use std::net::SocketAddr;

use engine::target::{ControllerStatus, ReactorStatus, TargetStatus};
use engine::transport::{StreamInfo, SubflowInfo};
use topology::{CpuSet, Flow, FlowOwner, FlowSource, Worker};

/// The connections of all queues, each with the name of its reactor's thread. A queue over MPTCP has several.
pub(super) fn own_flows(status: &TargetStatus) -> Vec<(Flow, String)> {
    let queues = status
        .controllers
        .iter()
        .flat_map(|controller| controller.queues.iter().map(move |queue| (controller, queue)));
    let flows = queues.flat_map(|(controller, queue)| {
        let worker = worker(&status.reactors, queue.reactor);
        let streams = queue
            .stream
            .iter()
            .flat_map(|stream| stream.subflows.iter().map(move |subflow| (stream, subflow)));
        streams.map(move |stream| {
            let flow =
                Flow { queue_id: Some(queue.queue_id), worker: worker.clone(), ..flow(controller, stream) };
            (flow, format!("reactor-{}", queue.reactor))
        })
    });
    flows.collect()
}

/// A TCP connection of a controller, as far as the target knows it. For MPTCP, the kernel counts
/// queued bytes over all subflows.
fn flow(controller: &ControllerStatus, (stream, subflow): (&StreamInfo, &SubflowInfo)) -> Flow {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let bounded = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Flow {
        owner: FlowOwner::Target { pid: Some(std::process::id()) },
        controller: format!("cntlid {}", controller.cntlid),
        subsystem_nqn: Some(controller.subsystem.clone()),
        queue_id: None,
        source: FlowSource::Program,
        worker: None,
        local: plain(subflow.local),
        peer: plain(subflow.remote),
        interface: None,
        receive_queue_bytes: bounded(stream.unread_bytes),
        send_queue_bytes: bounded(stream.unsent_bytes),
        rtt_us: Some(subflow.rtt_us),
        retransmissions: Some(bounded(subflow.retransmits)),
    }
}

/// The worker of a reactor, without its thread: the CPU that it is pinned to.
fn worker(reactors: &[ReactorStatus], number: usize) -> Option<Worker> {
    let cpu = reactors.iter().find(|reactor| reactor.number == number)?.cpu?;
    let cpu = u32::try_from(cpu).ok()?;
    Some(Worker { thread: None, cpu: Some(cpu), allowed: CpuSet::one(cpu), is_movable: false })
}
