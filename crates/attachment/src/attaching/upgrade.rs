//! `selvedge attach upgrade`: another program in place of processes that have attached disks, whose users notice a pause and nothing
//! else.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use administration::upgrade::{
    ANSWER, Channel, OtherProcess, ask, await_end, await_report, program, runs, start,
};
use serde::Serialize;

use super::detach::{ALL, place, unknown};
use super::hand_over::AttachProtocol;
use super::record::{KnownRecord, upgrade_place};
use crate::failure::Failure;
use crate::flags::attach::UpgradeAttachFlags;
use crate::report;

/// Upgraded processes, as printed.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct UpgradedProcesses {
    processes: Vec<UpgradedProcess>,
}

/// A process that has disks, and the one that had them.
#[derive(Serialize, schemars::JsonSchema)]
struct UpgradedProcess {
    /// The process that served, and its version.
    #[serde(rename = "former_process")]
    old_process: u32,
    #[serde(rename = "former_version")]
    old_version: String,
    /// The process that serves now; the same where it runs the program already.
    process: u32,
    /// Path of the program.
    program: String,
    /// Block devices, Unix sockets, and addresses of NBD servers.
    places: Vec<String>,
    /// From its start until the old process had ended; nothing where nothing was to be done.
    took_ms: Option<u64>,
}

impl fmt::Display for UpgradedProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.processes {
            let UpgradedProcess { old_process, old_version, process, program, places, took_ms } = one;
            let places = places.join(", ");
            match took_ms {
                Some(took_ms) => writeln!(
                    f,
                    "{places}: process {process} ({program}) serves in place of process {old_process} ({old_version}); \
                     it took {took_ms} ms"
                )?,
                None => writeln!(f, "{places}: process {process} runs {program} already")?,
            }
        }
        Ok(())
    }
}

/// A process that has disks.
struct Running {
    process: u32,
    /// Path of the socket at which it waits for a new process.
    place: PathBuf,
    places: Vec<String>,
}

/// Starts the new processes, one after the other, and waits until each serves.
pub(super) fn run(flags: &UpgradeAttachFlags) -> Result<(), Failure> {
    let program = program(flags.program.as_deref())?;
    let mut upgraded = UpgradedProcesses::default();
    let mut outcome = Ok(());
    for running in chosen(flags)? {
        let places = running.places.join(", ");
        match upgrade(running, &program, flags.if_changed) {
            Ok(one) => upgraded.processes.push(one),
            Err(Failure::Failed(reason)) => {
                let reason = format!("{places}: {reason}");
                if outcome.is_err() {
                    eprintln!("selvedge: {reason}");
                } else {
                    outcome = Err(Failure::Failed(reason));
                }
            }
            Err(other) => return Err(other),
        }
    }
    report::print_as(flags.output.output_format, &upgraded)?;
    outcome
}

/// The processes of the disks that are named.
fn chosen(flags: &UpgradeAttachFlags) -> Result<Vec<Running>, Failure> {
    let is_all = flags.process.is_none() && flags.disks.iter().any(|name| name == ALL);
    let mut named: Vec<String> =
        flags.disks.iter().filter(|name| *name != ALL).map(|name| place(name)).collect();
    let mut all: Vec<Running> = Vec::new();
    for known in KnownRecord::all().iter().filter(|known| known.is_alive()) {
        let process = known.record.process.pid;
        let Some(folder) = known.path.parent() else { continue };
        let places = known.record.places();
        // One with disks of a file has a record of each.
        match all.iter_mut().find(|one| one.process == process) {
            Some(one) => one.places.extend(places),
            None => all.push(Running { process, place: upgrade_place(folder, process), places }),
        }
    }
    let is_named = |one: &Running| {
        is_all || flags.process == Some(one.process) || one.places.iter().any(|place| named.contains(place))
    };
    all.retain(is_named);
    named.retain(|name| !all.iter().any(|one| one.places.contains(name)));
    match (named.first(), flags.process) {
        (Some(missing), None) => Err(Failure::failed(unknown(missing))),
        (_, Some(process)) if all.is_empty() => Err(Failure::failed(format!(
            "process {process} has no attached disks: see `selvedge attach list`"
        ))),
        _ if all.is_empty() => Err(Failure::failed("nothing is attached")),
        _ => Ok(all),
    }
}

fn upgrade(running: Running, program: &Path, if_changed: bool) -> Result<UpgradedProcess, Failure> {
    let Running { process, place, places } = running;
    let unreachable = |error: std::io::Error| {
        let place = place.display();
        Failure::failed(format!(
            "process {process} does not wait for an upgrade at {place}: {error}; start it again instead"
        ))
    };
    let channel = Channel::connect(&place).map_err(unreachable)?;
    let peer = rustix::net::sockopt::socket_peercred(&channel).map_err(Failure::failed)?;
    if peer.uid != rustix::process::geteuid() {
        return Err(Failure::failed(format!(
            "process {process} runs as user {}, and the new one has to as well: systemctl reload, or sudo -u",
            peer.uid.as_raw()
        )));
    }
    let about = ask::<AttachProtocol>(&channel, ANSWER).map_err(unreachable)?;
    drop(channel);
    let mut upgraded = UpgradedProcess {
        old_process: about.process,
        old_version: about.version.clone(),
        process: about.process,
        program: program.display().to_string(),
        places,
        took_ms: None,
    };
    if if_changed && runs(&about, program) {
        return Ok(upgraded);
    }
    if !about.obstacles.is_empty() {
        return Err(Failure::failed(format!(
            "process {process} cannot be upgraded while it serves: {}",
            about.obstacles.join("; ")
        )));
    }
    let ended = || Failure::failed(format!("process {process} has ended"));
    let old = OtherProcess::of(&about).ok_or_else(ended)?;
    let begun = Instant::now();
    let mut new = start(program, &about, &place)
        .map_err(|error| Failure::failed(format!("{} cannot be started: {error}", program.display())))?;
    let serves = |number: u32| {
        let asked = place.parent().map(|folder| Channel::connect(&upgrade_place(folder, number)));
        let about = asked.map(|channel| ask::<AttachProtocol>(&channel?, ANSWER));
        about.is_some_and(|about| about.is_ok_and(|about| about.obstacles.is_empty()))
    };
    if !await_end(&old, &mut new, (program, None), &format!("process {process}"), serves)? {
        eprintln!(
            "selvedge: process {process} serves no longer and has not ended; end it: kill -KILL {process}"
        );
    }
    upgraded.took_ms = Some(begun.elapsed().as_millis() as u64);
    upgraded.process = new.id();
    // The next upgrade finds the new process at its own place.
    if let Some(place) = place.parent().map(|folder| upgrade_place(folder, new.id())) {
        await_report::<AttachProtocol>(&place, &mut new, |about| about.obstacles.is_empty());
    }
    Ok(upgraded)
}
