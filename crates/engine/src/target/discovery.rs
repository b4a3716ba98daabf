//! The discovery log: which subsystems a host finds at which addresses of this target.
//! Telling hosts that it changed is not here.

use std::net::{IpAddr, SocketAddr};

use nvme::discovery::{
    AddressFamily, DISCOVERY_NQN, DiscoveryEntry, Nqn, SubsystemType, encode_discovery_log, entry_flags,
    transport_requirements,
};
use nvme::log_page::{LogPageId, SupportedLogPages, log_page_support};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::admin::Answer;
use super::config::{PortConfig, ReferralConfig};
use super::controller::Controller;
use super::event::Notice;
use super::fabric::{Directory, Fabric};
use super::log_page::{cut, decode, looked_at};
use crate::limits::ADMIN_QUEUE_ENTRIES_MAX;
use crate::ring::Socket;

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
            looked_at(controller, Notice::DiscoveryLog, &request);
            let directory = fabric.directory();
            cut(
                &encode_discovery_log(directory.generation, &entries(controller, &directory, socket)),
                &request,
            )
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

fn entries(controller: &Controller, directory: &Directory, socket: &Socket) -> Vec<DiscoveryEntry> {
    let mut entries = Vec::new();
    for subsystem in &directory.subsystems {
        let Ok(nqn) = Nqn::new(&subsystem.nqn) else { continue };
        if !subsystem.allows(&controller.host.nqn) {
            continue;
        }
        for port in directory.config.ports.iter().filter(|port| subsystem.is_on(port)) {
            entries.push(entry(SubsystemType::NVM, &nqn, port, socket));
        }
    }
    // Where this service itself is to be found: with a name of its own a host can tell it from others (TP8013).
    if let Ok(nqn) = Nqn::new(&controller.subsystem.nqn) {
        for port in &directory.config.ports {
            let mut entry = entry(SubsystemType::CURRENT_DISCOVERY, &nqn, port, socket);
            // All ports tell a host the same.
            entry.flags = U16::new(entry_flags::PERSISTENT_CONNECTIONS | entry_flags::DUPLICATE_INFORMATION);
            entries.push(entry);
        }
    }
    entries.extend(directory.config.referrals.iter().filter_map(referral));
    entries
}

fn entry(kind: SubsystemType, nqn: &Nqn, port: &PortConfig, socket: &Socket) -> DiscoveryEntry {
    let (family, address) = advertised(port, socket);
    let service = port.address.port().to_string();
    let mut entry = DiscoveryEntry::tcp(kind, nqn, family, &address, &service);
    entry.port_id = U16::new(port.id);
    entry.admin_queue_size_max = U16::new(ADMIN_QUEUE_ENTRIES_MAX);
    // A host without an identifier may connect; only what needs one is refused.
    entry.transport_requirements =
        transport_requirements::FLOW_CONTROL_DISABLE | transport_requirements::ZERO_HOST_ID;
    entry
}

fn referral(config: &ReferralConfig) -> Option<DiscoveryEntry> {
    let nqn = Nqn::new(config.nqn.as_deref().unwrap_or(DISCOVERY_NQN)).ok()?;
    let family = family_of(&config.address);
    let mut entry =
        DiscoveryEntry::tcp(SubsystemType::REFERRAL, &nqn, family, &config.address, &config.service);
    entry.admin_queue_size_max = U16::new(ADMIN_QUEUE_ENTRIES_MAX);
    Some(entry)
}

fn family_of(address: &str) -> AddressFamily {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => AddressFamily::IPV6,
        _ => AddressFamily::IPV4,
    }
}

/// The address to tell a host: the one to be advertised, the one listened on, or, where that is any address of the
/// machine, the one the host has reached.
fn advertised(port: &PortConfig, socket: &Socket) -> (AddressFamily, String) {
    if let Some(advertise) = &port.advertise {
        return (family_of(advertise), advertise.clone());
    }
    let listened = port.address.ip();
    let address = if listened.is_unspecified() { socket.local_ip().unwrap_or(listened) } else { listened };
    let address = SocketAddr::new(address, 0).ip().to_canonical();
    (if address.is_ipv6() { AddressFamily::IPV6 } else { AddressFamily::IPV4 }, address.to_string())
}
