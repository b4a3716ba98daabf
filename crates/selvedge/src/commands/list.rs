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

/// Prints the list. The error of a subsystem without an answer goes to stderr, and the command fails at the end.
pub(super) fn run(flags: &ListFlags) -> Result<(), Failure> {
    let connection = Connection::one(&flags.connection)?;
    let mut list = List { namespaces: Vec::new() };
    let mut failed = Vec::new();
    for (connection, nqn) in subsystems(&connection, flags.nqn.as_ref())? {
        match namespaces(&connection, &nqn) {
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

/// Returns the subsystems to list, with their addresses.
fn subsystems(connection: &Connection, nqn: Option<&Nqn>) -> Result<Vec<(Connection, Nqn)>, Failure> {
    if let Some(nqn) = nqn {
        return Ok(vec![(connection.clone(), nqn.clone())]);
    }
    let mut found: Vec<(Connection, Nqn)> = Vec::new();
    for Shown { nqn, connection: shown, .. } in discovery::shown(connection)? {
        // A subsystem with several ports is one subsystem: the port that answered us is the one to prefer.
        match found.iter_mut().find(|(_, other)| *other == nqn) {
            Some(known) if shown.address == connection.address => known.0 = shown,
            Some(_) => {}
            None => found.push((shown, nqn)),
        }
    }
    if found.is_empty() {
        return Err(discovery::none(connection));
    }
    Ok(found)
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
