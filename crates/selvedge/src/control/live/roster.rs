//! What changes seldom: who is connected by which queues, and what is served. It is told when somebody begins to look,
//! and every few seconds, since the kernel is asked about each connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use engine::target::{
    AuthenticationStatus, ControllerStatus, NamespaceStatus, PortStatus, QueueStatus, Quotas,
    SubsystemStatus, TargetStatus,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::administration::Administration;
use super::super::limits::{ROSTER_NAMESPACES_MAX, ROSTER_QUEUES_MAX};
use crate::version;

/// Who is connected, and what is served.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveRoster")]
pub(in crate::control) struct Roster {
    /// The program's version.
    version: &'static str,
    /// When the target started, in seconds since 1970.
    started_s: u64,
    ports: Vec<PortStatus>,
    subsystems: Vec<SubsystemStatus>,
    namespaces: Vec<NamespaceStatus>,
    /// Namespaces that are left out, since there are too many.
    namespaces_omitted: usize,
    controllers: Vec<ControllerLine>,
    /// Queues that are left out, with their controllers, since there are too many.
    queues_omitted: usize,
    /// How much one host may take, and one network.
    quotas: Quotas,
    /// How often hosts got no controller or queue, by the rule in their way.
    refusals: BTreeMap<&'static str, u64>,
}

/// A controller.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveControllerLine")]
struct ControllerLine {
    cntlid: u16,
    subsystem: String,
    host_nqn: String,
    /// The port it came by.
    port: u16,
    /// Whether it takes I/O commands.
    ready: bool,
    /// Whether its host is gone, and the storage still works on commands of it.
    ending: bool,
    /// How its host has authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<AuthenticationStatus>,
    /// Its queues, the admin queue first.
    queues: Vec<QueueLine>,
}

/// A queue, which is a connection.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveQueueLine")]
struct QueueLine {
    /// 0 for the admin queue.
    queue_id: u16,
    reactor: usize,
    /// The host's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    /// What the kernel reports; missing when the connection has just ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_us: Option<u32>,
    /// Segments that were sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmits: Option<u64>,
    /// Bytes that were written and are not acknowledged yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsent_bytes: Option<u64>,
    /// TCP connections that it goes over, where they are several (MPTCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    subflows: Option<usize>,
    /// The cipher suite, where it is TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cipher: Option<&'static str>,
}

impl Roster {
    pub(super) fn new(administration: &Administration, status: TargetStatus) -> Self {
        let started = administration.started().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut namespaces = status.namespaces;
        let namespaces_omitted = namespaces.len().saturating_sub(ROSTER_NAMESPACES_MAX);
        namespaces.truncate(ROSTER_NAMESPACES_MAX);
        let (controllers, queues_omitted) = bounded(status.controllers);
        Self {
            version: version::NUMBER,
            started_s: started.as_secs(),
            ports: status.ports,
            subsystems: status.subsystems,
            namespaces,
            namespaces_omitted,
            controllers,
            queues_omitted,
            quotas: status.quotas,
            refusals: status.refusals,
        }
    }
}

/// Controllers until there are too many queues, and how many queues are left out.
fn bounded(controllers: Vec<ControllerStatus>) -> (Vec<ControllerLine>, usize) {
    let (mut lines, mut queues, mut omitted) = (Vec::new(), 0, 0);
    for controller in controllers {
        let more = controller.queues.len();
        if omitted > 0 || queues + more > ROSTER_QUEUES_MAX {
            omitted += more;
            continue;
        }
        queues += more;
        lines.push(ControllerLine {
            cntlid: controller.cntlid,
            subsystem: controller.subsystem,
            host_nqn: controller.host_nqn,
            port: controller.port,
            ready: controller.ready,
            ending: controller.ending,
            authentication: controller.authentication,
            queues: controller.queues.into_iter().map(QueueLine::new).collect(),
        });
    }
    (lines, omitted)
}

impl QueueLine {
    fn new(queue: QueueStatus) -> Self {
        let stream = queue.stream.as_ref();
        Self {
            queue_id: queue.queue_id,
            reactor: queue.reactor,
            peer: queue.peer,
            rtt_us: stream.map(|stream| stream.rtt_us),
            retransmits: stream.map(|stream| stream.retransmits),
            unsent_bytes: stream.map(|stream| stream.unsent_bytes),
            subflows: stream.map(|stream| stream.subflows.len()).filter(|count| *count > 1),
            tls_cipher: queue.tls.map(|tls| tls.cipher),
        }
    }
}
