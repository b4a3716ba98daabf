//! The discovery log: which subsystems a host finds at which addresses of this target, and of other gateways of its group.
//! Telling hosts that it changed is not here.

use std::net::{IpAddr, SocketAddr};

use nvme::discovery::{
    AddressFamily, DISCOVERY_NQN, DiscoveryEntry, DiscoveryLogHeader, Nqn, RECORD_BYTES, SubsystemType,
    entry_flags, transport_requirements,
};
use nvme::log_page::{LogPageId, LogPageRequest, SupportedLogPages, log_page_support};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::answer::Answer;
use super::log_page::{cut, decode, looked_at};
use crate::limits::{ADMIN_QUEUE_ENTRIES_MAX, BUFFER_LENGTH_MAX};
use crate::target::config::{OtherPort, PortConfig, ReferralConfig, TlsUse};
use crate::target::controller::{Controller, Notice};
use crate::target::fabric::{Directory, Fabric};
use crate::target::served::Subsystem;

/// Answers Get Log Page of a discovery controller.
pub(crate) fn answer(
    entry: &SubmissionEntry,
    controller: &Controller,
    fabric: &Fabric,
    reached: Option<IpAddr>,
) -> Answer {
    let request = decode(entry);
    match request.id {
        LogPageId::DISCOVERY => {
            looked_at(controller, Notice::DiscoveryLog, &request);
            page(controller, &fabric.directory(), reached, &request)
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

/// The part of the discovery log that was asked for. The log of many subsystems at many ports has megabytes, of which hosts read
/// some kilobytes at a time: no more than these are made.
fn page(
    controller: &Controller,
    directory: &Directory,
    reached: Option<IpAddr>,
    request: &LogPageRequest,
) -> Answer {
    let log_entries = log_entries(controller, directory);
    let header = DiscoveryLogHeader::new(directory.generation, log_entries.clone().count() as u64);
    let records = header.record_count.get() as usize + 1;
    let offset = usize::try_from(request.offset).unwrap_or(usize::MAX);
    let wanted = request.length_bytes().min(BUFFER_LENGTH_MAX as u64) as usize;
    let first = (offset / RECORD_BYTES).min(records);
    let end = offset.saturating_add(wanted).div_ceil(RECORD_BYTES).min(records);
    let mut part = Vec::with_capacity((end - first) * RECORD_BYTES);
    if first == 0 && end > 0 {
        part.extend_from_slice(header.as_bytes());
    }
    // The first record is the header.
    let number = first.max(1);
    for log_entry in log_entries.skip(number - 1).take(end.saturating_sub(number)) {
        part.extend_from_slice(log_entry.entry(controller, directory, reached).as_bytes());
    }
    cut(&part, &LogPageRequest { offset: (offset - first * RECORD_BYTES) as u64, ..*request })
}

/// Content of an entry of the discovery log.
#[derive(Clone, Copy)]
enum LogEntry<'a> {
    Subsystem(&'a Subsystem, &'a PortConfig),
    /// Address of this service itself. Its unique NQN distinguishes it from other discovery
    /// services (TP8013).
    Service(&'a PortConfig),
    Referral(&'a ReferralConfig),
    /// The discovery service of another gateway of this one's group.
    Elsewhere(&'a OtherPort),
}

impl LogEntry<'_> {
    fn entry(
        &self,
        controller: &Controller,
        directory: &Directory,
        reached: Option<IpAddr>,
    ) -> DiscoveryEntry {
        let host = controller.host.nqn.as_str();
        let entry = |kind, nqn: &Nqn, port: &PortConfig| {
            let mut entry = entry(kind, nqn, port, reached);
            let subsystem = if let Self::Subsystem(subsystem, _) = self { Some(*subsystem) } else { None };
            match tls_for(host, subsystem, directory, port) {
                TlsUse::Required => entry.set_tls(true),
                TlsUse::Allowed => entry.set_tls(false),
                TlsUse::Off => {}
            }
            entry
        };
        let entry = match self {
            Self::Subsystem(subsystem, port) => {
                Nqn::new(&subsystem.nqn).ok().map(|nqn| entry(SubsystemType::NVM, &nqn, port))
            }
            Self::Service(port) => Nqn::new(&controller.subsystem.nqn).ok().map(|nqn| {
                let mut entry = entry(SubsystemType::CURRENT_DISCOVERY, &nqn, port);
                // All ports tell a host the same.
                entry.flags =
                    U16::new(entry_flags::PERSISTENT_CONNECTIONS | entry_flags::DUPLICATE_INFORMATION);
                entry
            }),
            Self::Referral(config) => referral(config),
            Self::Elsewhere(OtherPort { port, is_known }) => {
                Nqn::new(directory.config.discovery_nqn.as_deref().unwrap_or(DISCOVERY_NQN)).ok().map(|nqn| {
                    let mut entry = entry(SubsystemType::REFERRAL, &nqn, port);
                    // The host has nothing to gain from this referral, and would wait long for a
                    // gateway that does not respond.
                    if *is_known {
                        entry.flags = entry_flags::DUPLICATE_INFORMATION.into();
                    }
                    entry
                })
            }
        };
        // Names were checked when they were configured.
        entry.unwrap_or_default()
    }
}

/// TLS requirement of a subsystem, or of this service, on a port, as this host sees it: TLS, no
/// TLS, or no TLS at first and a generated key afterwards (secure channel concatenation). nvme-cli
/// follows the entry: it uses a configured key where TLS is required, generates one where TLS is
/// possible (from 2.16 on; earlier versions want a configured key in both cases), and connects
/// without TLS otherwise. A port that takes both kinds of hosts therefore returns a different entry
/// to each.
fn tls_for(host: &str, subsystem: Option<&Subsystem>, directory: &Directory, port: &PortConfig) -> TlsUse {
    match directory.tls_on(port.id) {
        TlsUse::Off => TlsUse::Off,
        _ if subsystem.is_some_and(|subsystem| subsystem.concatenates(host)) => TlsUse::Allowed,
        TlsUse::Required => TlsUse::Required,
        TlsUse::Allowed => {
            let nqn = subsystem.map_or(DISCOVERY_NQN, |subsystem| subsystem.nqn.as_str());
            match directory.has_tls_key(port, host, nqn) {
                true => TlsUse::Required,
                false => TlsUse::Off,
            }
        }
    }
}

/// All that the host of this controller finds, in the order of the log.
fn log_entries<'a>(
    controller: &'a Controller,
    directory: &'a Directory,
) -> impl Iterator<Item = LogEntry<'a>> + Clone {
    let ports = &directory.config.ports;
    let found = directory.subsystems.iter().filter(|subsystem| subsystem.allows(&controller.host.nqn));
    let subsystems = found.flat_map(move |subsystem| {
        let ports = ports.iter().chain(directory.known_elsewhere()).filter(|port| subsystem.is_on(port));
        ports.map(|port| LogEntry::Subsystem(subsystem, port))
    });
    let referrals = directory.config.referrals.iter().map(LogEntry::Referral);
    let elsewhere = directory.directives.elsewhere.iter().map(LogEntry::Elsewhere);
    subsystems.chain(ports.iter().map(LogEntry::Service)).chain(referrals).chain(elsewhere)
}

fn entry(kind: SubsystemType, nqn: &Nqn, port: &PortConfig, reached: Option<IpAddr>) -> DiscoveryEntry {
    let (family, address) = advertised(port, reached);
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
fn advertised(port: &PortConfig, reached: Option<IpAddr>) -> (AddressFamily, String) {
    if let Some(advertise) = &port.advertise {
        return (family_of(advertise), advertise.clone());
    }
    let listened = port.address.ip();
    let address = if listened.is_unspecified() { reached.unwrap_or(listened) } else { listened };
    let address = SocketAddr::new(address, 0).ip().to_canonical();
    (if address.is_ipv6() { AddressFamily::IPV6 } else { AddressFamily::IPV4 }, address.to_string())
}
