//! The slowly changing part of the live view: connected hosts with their queues, and what is
//! served. It is sent when a viewer begins to look, and every few seconds, since it costs a system
//! call for each connection.

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

/// Connected hosts, and the served subsystems and namespaces.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveRoster")]
pub(in crate::control) struct Roster {
    /// The program's version.
    version: &'static str,
    /// Start of the target, in seconds since 1970.
    started_s: u64,
    ports: Vec<PortStatus>,
    subsystems: Vec<SubsystemStatus>,
    namespaces: Vec<NamespaceStatus>,
    /// Namespaces that are left out, since there are too many.
    namespaces_omitted: usize,
    controllers: Vec<ControllerEntry>,
    /// Queues that are left out, with their controllers, since there are too many.
    queues_omitted: usize,
    /// Limits of one host and of one network.
    quotas: Quotas,
    /// Refused connects and queues, by the rule that refused them.
    refusals: BTreeMap<&'static str, u64>,
}

/// A controller.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveControllerLine")]
struct ControllerEntry {
    cntlid: u16,
    subsystem: String,
    host_nqn: String,
    /// The port it came by.
    port: u16,
    /// True if it takes I/O commands.
    ready: bool,
    /// True if its host is gone while storage still works on commands of it.
    ending: bool,
    /// State of its host's authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<AuthenticationStatus>,
    /// Queues of the controller, the admin queue first.
    queues: Vec<QueueEntry>,
}

/// A queue, which is a connection.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveQueueLine")]
struct QueueEntry {
    /// 0 for the admin queue.
    queue_id: u16,
    reactor: usize,
    /// The host's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    /// Round-trip time as the kernel reports it; missing if the connection has just ended.
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
fn bounded(controllers: Vec<ControllerStatus>) -> (Vec<ControllerEntry>, usize) {
    let (mut entries, mut queues, mut omitted) = (Vec::new(), 0, 0);
    for controller in controllers {
        let more = controller.queues.len();
        if omitted > 0 || queues + more > ROSTER_QUEUES_MAX {
            omitted += more;
            continue;
        }
        queues += more;
        entries.push(ControllerEntry {
            cntlid: controller.cntlid,
            subsystem: controller.subsystem,
            host_nqn: controller.host_nqn,
            port: controller.port,
            ready: controller.ready,
            ending: controller.ending,
            authentication: controller.authentication,
            queues: controller.queues.into_iter().map(QueueEntry::new).collect(),
        });
    }
    (entries, omitted)
}

impl QueueEntry {
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
