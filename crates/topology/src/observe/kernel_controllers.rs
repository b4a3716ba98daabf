//! Controllers of the kernel's initiator, with what decides the number of their I/O queues: their interface or local
//! address, and what the kernel logged. Which connection is which queue is in `kernel`.

use std::io;
use std::net::IpAddr;

use super::ObserveError;
use super::kernel::{CLASS, address_of, address_value};
use super::reader::{Reader, numbered};
use crate::KernelController;
use crate::kernel_route::InterfaceAddress;
use crate::limit_line::last_creation;

/// Reads all, in order of their numbers.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<KernelController>, ObserveError> {
    let mut names: Vec<(u32, String)> =
        reader.list(CLASS).into_iter().filter_map(|name| Some((numbered(&name, "nvme")?, name))).collect();
    names.sort_unstable();
    let mut found = Vec::new();
    for (_, name) in names {
        found.extend(controller(reader, name)?);
    }
    if found.is_empty() {
        return Ok(found);
    }
    let addresses = reader.machine.addresses();
    let addresses: Vec<InterfaceAddress> = answered(reader, "addresses of this machine", addresses)?;
    let log = reader.machine.queue_log();
    let log: Vec<String> = answered(reader, "the kernel's log (/dev/kmsg)", log)?;
    for controller in &mut found {
        let has = |address: &&InterfaceAddress| Some(address.address.to_canonical()) == controller.local;
        controller.holder = addresses.iter().find(has).map(|address| address.interface.clone());
        controller.creation = last_creation(log.iter().map(String::as_str), &controller.name);
    }
    Ok(found)
}

fn controller(reader: &mut Reader<'_>, name: String) -> Result<Option<KernelController>, ObserveError> {
    let path = |file: &str| format!("{CLASS}/{name}/{file}");
    let transport = reader.text(&path("transport")).filter(|name| matches!(name.as_str(), "tcp" | "mptcp"));
    let Some(transport) = transport else { return Ok(None) };
    let address = reader.text(&path("address")).unwrap_or_default();
    let local: Option<IpAddr> = address_of(&address).and_then(|(_, sources)| sources.first().copied());
    let queues: u32 = reader.value(&path("queue_count"), "a number of queues")?.unwrap_or(0);
    Ok(Some(KernelController {
        transport,
        // The admin queue is counted there.
        io_queues: queues.saturating_sub(1),
        local,
        host_iface: address_value(&address, "host_iface").map(str::to_owned),
        holder: None,
        creation: None,
        name,
    }))
}

/// An answer of the kernel, or a note that only root gets it. Recordings of earlier versions do not have all.
fn answered<T>(
    reader: &mut Reader<'_>,
    what: &str,
    answer: io::Result<Vec<T>>,
) -> Result<Vec<T>, ObserveError> {
    match answer {
        Ok(found) => Ok(found),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.into()),
        Err(error) => {
            if error.kind() == io::ErrorKind::PermissionDenied {
                reader.shortfall(what, &error.to_string(), true);
            }
            Ok(Vec::new())
        }
    }
}
