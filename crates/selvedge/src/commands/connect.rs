//! `selvedge connect`: has the kernel's own initiator connect to subsystems, and says which controllers and disks that gives.

mod explanation;
mod persistence;
mod request;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

pub(super) use self::persistence::{Forgotten, forget};
use self::request::{Request, requests};
use super::attach;
use super::tune::{self, Tuned};
use crate::bench::matching::Matching;
use crate::config::connection::Connection;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::connect::ConnectFlags;
use crate::flags::connection::Transport;
use crate::kernel_initiator::{Controllers, FabricsDevice, Refusal};
use crate::report;
use crate::spec::size::Size;

/// For how long it is waited for the disks of a controller that shows none.
const DISKS_LIMIT: Duration = Duration::from_secs(5);

/// Connects, and tells.
pub(super) fn run(flags: &ConnectFlags) -> Result<(), Failure> {
    refuse_others(flags)?;
    persistence::check(flags)?;
    let connection = match flags.nqn {
        Some(_) => Connection::new(&flags.connection)?,
        None => Connection::to_discover(&flags.connection)?,
    };
    if flags.dry_run {
        return plan(flags, &requests(flags, &connection)?);
    }
    let device = FabricsDevice::look()?;
    if flags.tune {
        tune::check()?;
    }
    eprintln!("connecting to {}", connection.addresses());
    let requests = requests(flags, &connection)?;
    let queues = queues(flags, &requests);
    let mut connected = Connected::default();
    let mut done = Vec::with_capacity(requests.len());
    for request in &requests {
        match connect(flags, &device, request, queues) {
            Ok(controller) => {
                connected.controllers.push(controller);
                done.push(request);
            }
            Err(failure) => connected.failed.push(FailedConnection::new(request, &failure)),
        }
    }
    connected.look_for_disks(&Controllers::live());
    let mut problems: Vec<String> = connected.failed.iter().map(ToString::to_string).collect();
    if flags.persistent && !done.is_empty() {
        match persistence::keep(flags, &connection, &done, queues) {
            Ok(place) => connected.kept_in = Some(place),
            Err(failure) => problems.extend(failure.line()),
        }
    }
    finish(flags, connected, problems)
}

/// Tunes and prints the connections, and reports the problems.
fn finish(flags: &ConnectFlags, mut connected: Connected, mut problems: Vec<String>) -> Result<(), Failure> {
    let is_json = flags.output.output_format == OutputFormat::Json;
    if !is_json {
        report::print(&connected)?;
    }
    let names = connected.names();
    if flags.tune && !names.is_empty() {
        match tune::tune(&names, is_json) {
            Ok(tuned) if is_json => connected.tuned = Some(tuned),
            Ok(tuned) => tuned.print()?,
            Err(failure) => {
                problems.extend(failure.line().map(|why| format!("connected, and not tuned: {why}")));
            }
        }
    }
    if is_json {
        report::print_json(&connected)?;
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::failed(problems.join("; "))) }
}

/// Refuses what this program's own initiator has, and the kernel's does not.
fn refuse_others(flags: &ConnectFlags) -> Result<(), Failure> {
    let connection = &flags.connection;
    let refused = [
        (connection.transport == Transport::Mptcp, "-t mptcp"),
        (connection.reauth_interval.is_some(), "--reauth-interval"),
        (connection.tls_record_limit.is_some(), "--tls-record-limit"),
    ];
    match refused.iter().find(|(is_given, _)| *is_given) {
        Some((_, name)) => Err(Failure::usage(format!(
            "{name}: the kernel's initiator does not have it; `selvedge attach` does"
        ))),
        None => Ok(()),
    }
}

/// Returns the number of I/O queues to ask for: with --tune at most as many as the interfaces have.
fn queues(flags: &ConnectFlags, requests: &[Request]) -> Option<u16> {
    let asked = flags.kernel.nr_io_queues;
    if !flags.tune {
        return asked;
    }
    let paths: Vec<_> = requests.iter().map(|request| request.path.clone()).collect();
    Some(Matching::look(&paths).queues(asked))
}

/// Prints what would be asked for.
fn plan(flags: &ConnectFlags, requests: &[Request]) -> Result<(), Failure> {
    let queues = queues(flags, requests);
    let mut connections = Vec::with_capacity(requests.len());
    for request in requests {
        let options = request.options(flags, queues, None)?;
        connections.push(PlannedConnection {
            nqn: request.nqn.to_string(),
            address: request.path.address.to_string(),
            options: options.to_string(),
        });
    }
    report::print_as(flags.output.output_format, &Planned { connections })
}

/// Asks the kernel for one controller.
fn connect(
    flags: &ConnectFlags,
    device: &FabricsDevice,
    request: &Request,
    queues: Option<u16>,
) -> Result<ConnectedController, Failure> {
    if request.requires_tls && request.path.tls.is_none() && !request.path.concat {
        return Err(Failure::failed("the target requires TLS: name the key file with --tls-key-file"));
    }
    let writer = attach::writer_of(&request.nqn).filter(|_| !flags.allow_second_attach);
    if let Some(reason) = writer {
        return Err(Failure::failed(reason));
    }
    // What the kernel does not know is known before anything is changed.
    let unknown = device.unknown(&request.options(flags, queues, None)?);
    if !unknown.is_empty() {
        return Err(Failure::failed(explanation::of_unknown(&unknown)));
    }
    let keys = tls::insert(flags, device, request)?;
    let options = request.options(flags, queues, keys)?;
    let controllers = Controllers::live();
    let (controller, was_connected) = match device.connect(&options) {
        Ok(instance) => (Some(format!("nvme{instance}")), false),
        Err(Refusal::AlreadyConnected) => {
            let nqn = request.nqn.as_str();
            let mut all = controllers.all().into_iter();
            let known = all.find(|known| known.nqn == nqn && known.is_at(request.path.address));
            (known.map(|known| known.name), true)
        }
        Err(Refusal::Refused(error, log)) => {
            return Err(Failure::failed(explanation::of_refusal(&error, &log, request)));
        }
        Err(Refusal::NotUnderstood(answer)) => {
            return Err(Failure::failed(format!("unexpected answer of the kernel: `{}`", answer.trim())));
        }
    };
    Ok(ConnectedController {
        controller,
        nqn: request.nqn.to_string(),
        address: request.path.address.to_string(),
        was_connected,
    })
}

/// Controllers and disks after connecting, as printed.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Connected {
    controllers: Vec<ConnectedController>,
    /// The disks of these controllers, those of several paths once.
    namespaces: Vec<ConnectedNamespace>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedConnection>,
    /// The file that has it for the next boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tuned: Option<Tuned>,
}

/// A controller of the kernel's.
#[derive(Debug, Serialize, JsonSchema)]
struct ConnectedController {
    /// The kernel's name of it, as in `nvme0`; absent where one is connected by another name of this address.
    controller: Option<String>,
    nqn: String,
    address: String,
    /// True if the controller existed already, and was left unchanged.
    was_connected: bool,
}

/// A namespace as a disk.
#[derive(Debug, Serialize, JsonSchema)]
struct ConnectedNamespace {
    nqn: String,
    nsid: u32,
    /// Path of the device file.
    device: PathBuf,
    size_bytes: u64,
}

/// Connection that failed.
#[derive(Debug, Serialize, JsonSchema)]
struct FailedConnection {
    nqn: String,
    address: String,
    reason: String,
}

/// Connections of a dry run, as printed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Planned {
    connections: Vec<PlannedConnection>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlannedConnection {
    nqn: String,
    address: String,
    /// Options in the kernel's syntax, without secrets.
    options: String,
}

impl Connected {
    /// The names of the controllers.
    fn names(&self) -> Vec<String> {
        self.controllers.iter().filter_map(|controller| controller.controller.clone()).collect()
    }

    /// Waits for the disks, which come after the controllers.
    fn look_for_disks(&mut self, machine: &Controllers) {
        let mut found = BTreeMap::new();
        for ConnectedController { controller, nqn, was_connected, .. } in &self.controllers {
            let Some(name) = controller else { continue };
            let disks =
                if *was_connected { machine.disks(name) } else { machine.wait_for_disks(name, DISKS_LIMIT) };
            for disk in disks {
                found.insert((nqn.clone(), disk.nsid, disk.device), disk.size_bytes);
            }
        }
        let namespace =
            |((nqn, nsid, device), size_bytes)| ConnectedNamespace { nqn, nsid, device, size_bytes };
        self.namespaces = found.into_iter().map(namespace).collect();
    }
}

impl FailedConnection {
    fn new(request: &Request, failure: &Failure) -> Self {
        Self {
            nqn: request.nqn.to_string(),
            address: request.path.address.to_string(),
            reason: failure.line().unwrap_or_default(),
        }
    }
}

impl fmt::Display for FailedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.nqn, self.address, self.reason)
    }
}

impl fmt::Display for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ConnectedController { controller, nqn, address, was_connected } in &self.controllers {
            let name = controller.as_deref().unwrap_or("a controller");
            let already = if *was_connected { ", connected already" } else { "" };
            writeln!(f, "{name}: {nqn} at {address}{already}")?;
        }
        for ConnectedNamespace { nqn, nsid, device, size_bytes } in &self.namespaces {
            writeln!(f, "{}: namespace {nsid} of {nqn}, {}", device.display(), Size(*size_bytes))?;
        }
        if self.namespaces.is_empty() && !self.controllers.is_empty() {
            writeln!(f, "there is no disk yet: `dmesg` has the messages of the kernel about the namespaces")?;
        }
        if let Some(place) = &self.kept_in {
            writeln!(f, "kept in {}", place.display())?;
        }
        Ok(())
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for connection in &self.connections {
            writeln!(f, "{}", connection.options)?;
        }
        Ok(())
    }
}
