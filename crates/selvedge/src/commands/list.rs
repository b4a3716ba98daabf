//! `selvedge list`: the namespaces of one subsystem, or of all that a target's discovery log shows.

use std::fmt;

use engine::address::NetAddress;
use engine::initiator::{Controller, NamespaceInfo};
use nvme::discovery::Nqn;
use nvme::identify::ascii;
use serde::Serialize;
use uuid::Uuid;

use crate::config::connection::Connection;
use crate::discovery::{self, Shown};
use crate::failure::Failure;
use crate::flags::look::ListFlags;
use crate::report;
use crate::report::table::{Side, Table};
use crate::spec::size::Size;

/// Ports of a subsystem that are tried before it counts as one without an answer.
const PORTS_MAX: usize = 8;

/// Prints the list. The error of a subsystem without an answer goes to stderr, and the command fails at the end.
pub(super) fn run(flags: &ListFlags) -> Result<(), Failure> {
    let connection = Connection::one(&flags.connection)?;
    let mut list = List { namespaces: Vec::new() };
    let mut failed = Vec::new();
    for (nqn, connections) in subsystems(&connection, flags.nqn.as_ref())? {
        match at_any(&connections, &nqn) {
            Ok(found) => list.namespaces.extend(found),
            Err(failure) => failed.push((nqn, failure)),
        }
    }
    if let [(_, _)] = failed.as_slice()
        && list.namespaces.is_empty()
    {
        return Err(failed.remove(0).1);
    }
    report::print_as(flags.output.output_format, &list)?;
    let Some((nqn, failure)) = failed.first() else { return Ok(()) };
    let reason = failure.line().unwrap_or_default();
    Err(Failure::failed(format!("{} of the subsystems did not answer; {nqn}: {reason}", failed.len())))
}

/// Returns the subsystems to list, each with its addresses in the order in which to try them.
fn subsystems(connection: &Connection, nqn: Option<&Nqn>) -> Result<Vec<(Nqn, Vec<Connection>)>, Failure> {
    if let Some(nqn) = nqn {
        return Ok(vec![(nqn.clone(), vec![connection.clone()])]);
    }
    let mut found: Vec<(Nqn, Vec<Connection>)> = Vec::new();
    for Shown { nqn, connection: shown, .. } in discovery::shown(connection)? {
        // A subsystem with several ports is one subsystem: the port that answered us is the one to prefer.
        match found.iter_mut().find(|(other, _)| *other == nqn) {
            Some((_, ports)) if shown.address == connection.address => ports.insert(0, shown),
            Some((_, ports)) => ports.push(shown),
            None => found.push((nqn, vec![shown])),
        }
    }
    if found.is_empty() {
        return Err(discovery::none(connection));
    }
    Ok(found)
}

/// Returns the namespaces that the first port shows to which a connection succeeds, or the failure of the first port.
fn at_any(connections: &[Connection], nqn: &Nqn) -> Result<Vec<Row>, Failure> {
    let mut first = None;
    for connection in connections.iter().take(PORTS_MAX) {
        match namespaces(connection, nqn) {
            Ok(found) => return Ok(found),
            Err(failure) => first = first.or(Some(failure)),
        }
    }
    Err(first.unwrap_or_else(|| Failure::failed(format!("{nqn} has no address"))))
}

fn namespaces(connection: &Connection, nqn: &Nqn) -> Result<Vec<Row>, Failure> {
    let controller = Controller::connect(connection.subsystem(nqn)).map_err(Failure::failed)?;
    let identify = controller.identify();
    let (model, serial) = (ascii(&identify.model_number), ascii(&identify.serial_number));
    let row = |info: &NamespaceInfo| Row {
        nqn: nqn.to_string(),
        address: NetAddress::from(connection.address).to_string(),
        nsid: info.nsid,
        size: info.size_bytes(),
        block_size: info.block_size,
        uuid: info.uuid.map(|uuid| Uuid::from_bytes(uuid).to_string()),
        model: model.clone(),
        serial: serial.clone(),
    };
    Ok(controller.namespaces().map_err(Failure::failed)?.iter().map(row).collect())
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct List {
    namespaces: Vec<Row>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Row {
    nqn: String,
    address: String,
    nsid: u32,
    size: u64,
    block_size: u32,
    uuid: Option<String>,
    model: String,
    serial: String,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespaces.is_empty() {
            return writeln!(f, "no namespaces");
        }
        let mut table = Table::new(&[
            ("subsystem", Side::Left),
            ("nsid", Side::Right),
            ("size", Side::Right),
            ("block", Side::Right),
            ("uuid", Side::Left),
            ("model", Side::Left),
            ("serial", Side::Left),
        ]);
        for row in &self.namespaces {
            table.row(vec![
                row.nqn.clone(),
                row.nsid.to_string(),
                Size(row.size).to_string(),
                row.block_size.to_string(),
                row.uuid.clone().unwrap_or_else(|| "-".into()),
                row.model.clone(),
                row.serial.clone(),
            ]);
        }
        write!(f, "{table}")
    }
}
