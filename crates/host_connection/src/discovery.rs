//! The discovery log of a target, and the subsystem that is meant where none is named. Printing it is the commands' to do.

use std::collections::BTreeSet;
use std::fmt;

use chart::units;
use engine::initiator::Controller;
use nvme::discovery::{
    AddressFamily, DiscoveryEntry, Nqn, SubsystemType, TransportType, tcp_security, transport_requirements,
};
use serde::Serialize;

use crate::config::connection::Connection;
use crate::failure::Failure;

/// Reads the discovery log of the target at `connection`.
pub fn read(connection: &Connection) -> Result<Log, Failure> {
    let controller = Controller::connect(connection.discovery()).map_err(Failure::failed)?;
    let records = controller.discovery_log().map_err(Failure::failed)?;
    Ok(Log {
        generation_counter: records.generation_counter,
        records: records.entries.iter().map(Record::new).collect(),
    })
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
}

impl Record {
    /// True if the port accepts only TLS.
    pub fn requires_tls(&self) -> bool {
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
