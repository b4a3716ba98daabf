//! The discovery log of a target, what it leads to, and the subsystem that is meant where none is named. Printing it is the
//! commands' to do.

use std::collections::BTreeSet;
use std::fmt;

use chart::units;
use command_line::eprintln;
use engine::address::HostAddress;
use engine::initiator::Controller;
use nvme::discovery::{
    AddressFamily, DiscoveryEntry, Nqn, SubsystemType, TransportType, entry_flags, tcp_security,
    transport_requirements,
};
use serde::Serialize;

use crate::config::connection::Connection;
use crate::failure::Failure;

/// Discovery services that are asked where one refers to others.
const SERVICES_MAX: usize = 32;

/// Reads the discovery log of the target at `connection`.
pub fn read(connection: &Connection) -> Result<Log, Failure> {
    let controller = Controller::connect(connection.discovery()).map_err(Failure::failed)?;
    let records = controller.discovery_log().map_err(Failure::failed)?;
    Ok(Log {
        generation_counter: records.generation_counter,
        records: records.entries.iter().map(Record::new).collect(),
    })
}

/// A subsystem at an address, as a discovery log shows it.
pub struct Shown {
    pub nqn: Nqn,
    /// The connection to that address.
    pub connection: Connection,
    /// True if the port accepts only TLS.
    pub requires_tls: bool,
}

/// The subsystems that this host is shown by the target at `connection` and by the services that it refers to. Records
/// without a usable address, and other services that do not answer, are reported and left out.
///
/// # Errors
/// When the target does not answer, or nothing is left.
pub fn shown(connection: &Connection) -> Result<Vec<Shown>, Failure> {
    let mut services = vec![connection.clone()];
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let mut asked = 0;
    while let Some(service) = services.get(asked).cloned() {
        match read(&service) {
            Ok(log) => log.follow(&service, &mut services, &mut found, &mut failed),
            Err(failure) if asked == 0 => return Err(failure),
            Err(failure) => failed.push(failure),
        }
        asked += 1;
    }
    if found.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0));
    }
    for failure in failed {
        eprintln!("selvedge: {}", failure.line().unwrap_or_default());
    }
    Ok(found)
}

/// The subsystem that is meant where none is named: the only one that the target lets this host find.
pub fn subsystem(connection: &Connection, named: Option<&Nqn>) -> Result<Nqn, Failure> {
    if let Some(nqn) = named {
        return Ok(nqn.clone());
    }
    let log = read(connection)?;
    let found =
        log.records.iter().filter(|record| record.is_tcp_subsystem).map(|record| record.subnqn.as_str());
    let found: BTreeSet<&str> = found.collect();
    match found.iter().map(|nqn| Nqn::new(nqn)).collect::<Result<Vec<_>, _>>().as_deref() {
        Ok([only]) => Ok(only.clone()),
        Ok([]) => Err(none(connection)),
        _ => {
            let names = found.into_iter().collect::<Vec<_>>().join(", ");
            Err(Failure::usage(format!(
                "there are several subsystems at {}; name one with -n: {names}",
                connection.addresses()
            )))
        }
    }
}

/// The target shows this host no subsystem.
pub fn none(connection: &Connection) -> Failure {
    Failure::failed(format!(
        "no subsystem at {} lets this host in; its NQN is {}: run `selvedge host allow SUBSYSTEM NQN` on the target",
        connection.addresses(),
        connection.host_nqn()
    ))
}

/// A discovery log.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Log {
    generation_counter: u64,
    pub records: Vec<Record>,
}

impl Log {
    /// Adds the subsystems and the services that this log of `service` leads to, and the errors of its records.
    fn follow(
        &self,
        service: &Connection,
        services: &mut Vec<Connection>,
        found: &mut Vec<Shown>,
        failed: &mut Vec<Failure>,
    ) {
        for record in self.records.iter().filter(|record| record.is_tcp_subsystem || record.is_referral) {
            let address = HostAddress::of_record(&record.traddr, &record.trsvcid, service.address);
            match (address, Nqn::new(&record.subnqn)) {
                (Err(error), _) => failed.push(Failure::failed(error)),
                (Ok(address), _) if record.is_referral => {
                    let is_known = services.iter().any(|known| known.address == address);
                    if !is_known && services.len() < SERVICES_MAX {
                        services.push(service.at(address));
                    }
                }
                (Ok(address), Ok(nqn)) => {
                    let requires_tls = record.requires_tls();
                    found.push(Shown { nqn, connection: service.at(address), requires_tls });
                }
                (Ok(_), Err(_)) => {}
            }
        }
    }
}

/// Entry of the log, with the names that nvme-cli uses.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Record {
    trtype: String,
    adrfam: String,
    subtype: String,
    portid: u16,
    cntlid: u16,
    pub trsvcid: String,
    pub subnqn: String,
    pub traddr: String,
    /// TLS requirement of the port.
    treq: String,
    sectype: String,
    /// True for an NVM subsystem that this host can connect to over TCP.
    #[serde(skip)]
    pub is_tcp_subsystem: bool,
    /// True for another discovery service over TCP that may know more.
    #[serde(skip)]
    is_referral: bool,
}

impl Record {
    /// True if the port accepts only TLS.
    fn requires_tls(&self) -> bool {
        self.treq == "required"
    }

    fn new(entry: &DiscoveryEntry) -> Self {
        let subnqn = match entry.nqn() {
            Ok(nqn) => nqn.to_string(),
            Err(error) => format!("({error})"),
        };
        Self {
            trtype: transport_type(entry.transport_type),
            adrfam: address_family(entry.address_family),
            subtype: subsystem_type(entry.subsystem_type),
            portid: entry.port_id.get(),
            cntlid: entry.controller_id.get(),
            trsvcid: entry.service_id(),
            traddr: entry.address(),
            treq: match entry.secure_channel() {
                transport_requirements::SECURE_CHANNEL_NOT_SPECIFIED => "not specified".into(),
                transport_requirements::SECURE_CHANNEL_REQUIRED => "required".into(),
                transport_requirements::SECURE_CHANNEL_NOT_REQUIRED => "not required".into(),
                other => format!("unknown ({other})"),
            },
            sectype: match entry.tcp_security() {
                tcp_security::NONE => "none".into(),
                tcp_security::TLS_1_2 => "tls12".into(),
                tcp_security::TLS_1_3 => "tls13".into(),
                other => format!("unknown ({other})"),
            },
            is_tcp_subsystem: entry.is_tcp_subsystem(),
            is_referral: entry.transport_type == TransportType::TCP
                && entry.subsystem_type == SubsystemType::REFERRAL
                && entry.flags.get() & entry_flags::DUPLICATE_INFORMATION == 0,
            subnqn,
        }
    }
}

fn transport_type(kind: TransportType) -> String {
    match kind {
        TransportType::TCP => "tcp".into(),
        TransportType::RDMA => "rdma".into(),
        TransportType::FIBRE_CHANNEL => "fc".into(),
        TransportType::LOOP => "loop".into(),
        TransportType(other) => format!("unknown ({other})"),
    }
}

fn address_family(family: AddressFamily) -> String {
    match family {
        AddressFamily::IPV4 => "ipv4".into(),
        AddressFamily::IPV6 => "ipv6".into(),
        AddressFamily::INFINIBAND => "ib".into(),
        AddressFamily::FIBRE_CHANNEL => "fc".into(),
        AddressFamily::LOOP => "loop".into(),
        AddressFamily(other) => format!("unknown ({other})"),
    }
}

fn subsystem_type(kind: SubsystemType) -> String {
    match kind {
        SubsystemType::NVM => "nvme subsystem".into(),
        SubsystemType::REFERRAL => "discovery subsystem referral".into(),
        SubsystemType::CURRENT_DISCOVERY => "current discovery subsystem".into(),
        SubsystemType(other) => format!("unknown ({other})"),
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = units::plural(self.records.len() as u64, "record");
        writeln!(f, "{records}, generation {}", self.generation_counter)?;
        for (index, record) in self.records.iter().enumerate() {
            writeln!(f, "\n{index}  {}", record.subnqn)?;
            writeln!(f, "   type     {}", record.subtype)?;
            writeln!(f, "   address  {} {} port {}", record.trtype, record.traddr, record.trsvcid)?;
            write!(f, "   port id  {}, {}, security {}", record.portid, record.adrfam, record.sectype)?;
            if record.treq == "not specified" { writeln!(f) } else { writeln!(f, ", {}", record.treq) }?;
        }
        Ok(())
    }
}
