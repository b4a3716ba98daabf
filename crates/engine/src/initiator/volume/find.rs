//! Finding a namespace: where its subsystem is served, as a discovery service says, and which number it has there.

use std::net::SocketAddr;

use nvme::discovery::DiscoveryEntry;

use super::NamespaceName;
use crate::address::HostAddress;
use crate::initiator::{ConnectOptions, Controller, InitiatorError};

/// The addresses at which a subsystem is served over TCP, as the discovery service at `address` says.
///
/// # Errors
/// When it cannot be asked, or knows none.
pub(super) fn addresses(address: SocketAddr, nqn: &str) -> Result<Vec<SocketAddr>, InitiatorError> {
    let controller = Controller::connect(ConnectOptions::discovery(address))?;
    let records = controller.discovery_log()?;
    let is_it = |entry: &&DiscoveryEntry| entry.is_tcp_subsystem() && entry.nqn().is_ok_and(|its| its == nqn);
    let mut found = Vec::new();
    for entry in records.entries.iter().filter(is_it) {
        if let Ok(at) = HostAddress::of_record(&entry.address(), &entry.service_id(), address)
            && !found.contains(&at)
        {
            found.push(at);
        }
    }
    if found.is_empty() {
        return Err(InitiatorError::NotFound { address, what: format!("TCP address of {nqn}") });
    }
    Ok(found)
}

/// The number of a namespace, as the first of these that can be connected to says.
///
/// # Errors
/// When none can be connected to, or the subsystem has no such namespace.
pub(super) fn nsid(paths: &[ConnectOptions], name: NamespaceName) -> Result<u32, InitiatorError> {
    let uuid = match name {
        NamespaceName::Nsid(nsid) => return Ok(nsid),
        NamespaceName::Uuid(uuid) => uuid,
    };
    let mut failed = InitiatorError::ApiMisuse("a volume needs at least one address".to_owned());
    for path in paths {
        match Controller::connect(ConnectOptions { io_queues: 0, ..path.clone() }) {
            Ok(controller) => {
                let namespaces = controller.namespaces()?;
                let found = namespaces.iter().find(|namespace| namespace.uuid == Some(uuid.into_bytes()));
                let address = path.address;
                let missing = || InitiatorError::NotFound { address, what: name.to_string() };
                return found.map(|namespace| namespace.nsid).ok_or_else(missing);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
