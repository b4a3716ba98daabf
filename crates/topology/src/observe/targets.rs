//! Connections that a target on this machine serves: the kernel's, ours, or whatever listens where targets do. Which queue
//! a connection is only the target knows.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::ObserveError;
use super::flows::{Connections, Found};
use super::reader::Reader;
use crate::socket::{Socket, SocketState};
use crate::{FlowOwner, FlowSource};

const KERNEL_PORTS: &str = "sys/kernel/config/nvmet/ports";
/// Ports of NVMe/TCP and of its discovery service (TCP transport 3.1.1, IANA's registry).
const WELL_KNOWN_PORTS: [u16; 2] = [4420, 8009];
/// Name of our own program's process.
const PROGRAM: &str = "selvedge";

/// Adds a target's connections to those found.
pub(super) fn read(
    reader: &mut Reader<'_>,
    connections: &Connections,
    found: &mut Vec<Found>,
) -> Result<(), ObserveError> {
    let kernels = kernel_ports(reader)?;
    let mut listeners = Vec::new();
    for socket in connections.all.iter().filter(|socket| socket.state == SocketState::Listen) {
        let port = socket.local.port();
        let is_targets = WELL_KNOWN_PORTS.contains(&port)
            || (socket.pid.is_none() && kernels.contains(&port))
            || socket.pid.is_some_and(|pid| is_program(reader, pid));
        if is_targets {
            listeners.push(socket);
        }
    }
    for socket in connections.all.iter().filter(|socket| socket.state == SocketState::Established) {
        let Some(listener) = listeners.iter().find(|listener| accepts(listener.local, socket)) else {
            continue;
        };
        found.push(Found {
            owner: FlowOwner::Target { pid: socket.pid.or(listener.pid) },
            controller: String::new(),
            subsystem_nqn: None,
            queue_id: None,
            source: FlowSource::Guessed,
            worker: None,
            ends: (socket.local, socket.peer),
        });
    }
    Ok(())
}

/// Ports that the kernel's target listens on with TCP.
fn kernel_ports(reader: &mut Reader<'_>) -> Result<BTreeSet<u16>, ObserveError> {
    let mut ports = BTreeSet::new();
    for name in reader.list(KERNEL_PORTS) {
        let path = |file: &str| format!("{KERNEL_PORTS}/{name}/{file}");
        if reader.text(&path("addr_trtype")).as_deref() == Some("tcp") {
            ports.extend(reader.value::<u16>(&path("addr_trsvcid"), "a TCP port")?);
        }
    }
    Ok(ports)
}

fn is_program(reader: &mut Reader<'_>, pid: u32) -> bool {
    reader.text(&format!("proc/{pid}/comm")).as_deref() == Some(PROGRAM)
}

/// True if a connection came to a listening address.
fn accepts(listener: SocketAddr, socket: &Socket) -> bool {
    let (at, local) = (listener.ip().to_canonical(), socket.local.ip().to_canonical());
    listener.port() == socket.local.port() && (at.is_unspecified() || at == local)
}
