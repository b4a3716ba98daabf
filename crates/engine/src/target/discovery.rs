//! The discovery log: which subsystems a host finds at which addresses of this target.
//! Referrals and changes while hosts watch are not here.

use std::net::{IpAddr, SocketAddr};

use nvme::discovery::{
    AddressFamily, DiscoveryEntry, Nqn, SubsystemType, encode_discovery_log, transport_requirements,
};
use nvme::log_page::{LogPageId, SupportedLogPages, log_page_support};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::admin::Answer;
use super::controller::Controller;
use super::log_page::{cut, decode};
use super::subsystem::{Fabric, Port};
use crate::limits::ADMIN_QUEUE_ENTRIES_MAX;
use crate::ring::Socket;

/// The log's generation: it never changes while the target runs, and hosts expect a number from 1 on.
const GENERATION: u64 = 1;

/// Answers Get Log Page of a discovery controller.
pub(super) fn answer(
    entry: &SubmissionEntry,
    controller: &Controller,
    fabric: &Fabric,
    socket: &Socket,
) -> Answer {
    let request = decode(entry);
    match request.id {
        LogPageId::DISCOVERY => {
            cut(&encode_discovery_log(GENERATION, &entries(controller, fabric, socket)), &request)
        }
        LogPageId::SUPPORTED_LOG_PAGES => {
            let mut pages = SupportedLogPages::default();
            for id in [LogPageId::SUPPORTED_LOG_PAGES, LogPageId::DISCOVERY] {
                pages.set(id, log_page_support::SUPPORTED, 0);
            }
            cut(pages.as_bytes(), &request)
        }
        _ => Status::INVALID_LOG_PAGE.do_not_retry().into(),
    }
}

fn entries(controller: &Controller, fabric: &Fabric, socket: &Socket) -> Vec<DiscoveryEntry> {
    let mut entries = Vec::new();
    for subsystem in fabric.subsystems() {
        let Ok(nqn) = Nqn::new(&subsystem.nqn) else { continue };
        if !subsystem.allows(&controller.host.nqn) {
            continue;
        }
        for (number, port) in fabric.ports.iter().enumerate() {
            let (family, address) = advertised(port, socket);
            let service = port.address.port().to_string();
            let mut entry = DiscoveryEntry::tcp(SubsystemType::NVM, &nqn, family, &address, &service);
            entry.port_id = U16::new(number as u16 + 1);
            entry.admin_queue_size_max = U16::new(ADMIN_QUEUE_ENTRIES_MAX);
            entry.transport_requirements = transport_requirements::FLOW_CONTROL_DISABLE;
            entries.push(entry);
        }
    }
    entries
}

/// The address to tell a host: the one to be advertised, the one listened on, or, where that is any address of the
/// machine, the one the host has reached.
fn advertised(port: &Port, socket: &Socket) -> (AddressFamily, String) {
    if let Some(advertise) = &port.advertise {
        let is_ipv6 = advertise.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        let family = if is_ipv6 { AddressFamily::IPV6 } else { AddressFamily::IPV4 };
        return (family, advertise.clone());
    }
    let listened = port.address.ip();
    let address = if listened.is_unspecified() { socket.local_ip().unwrap_or(listened) } else { listened };
    let address = SocketAddr::new(address, 0).ip().to_canonical();
    (if address.is_ipv6() { AddressFamily::IPV6 } else { AddressFamily::IPV4 }, address.to_string())
}
