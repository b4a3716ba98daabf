//! `selvedge upgrade`: another program in place of a running target, whose hosts notice a pause and nothing else.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use administration::upgrade::{
    ANSWER, Channel, OtherProcess, ask, await_end, await_report, program, runs, start,
};
use chart::units;
use engine::target::hand_over::TargetProtocol;
use serde::Serialize;

use crate::control::socket;
use crate::failure::Failure;
use crate::flags::control::UpgradeFlags;
use crate::hand_over::place_of;
use crate::report;
use crate::spec::endpoint::Endpoint;

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Upgraded {
    /// The process that served, and its version.
    #[serde(rename = "former_process")]
    old_process: u32,
    #[serde(rename = "former_version")]
    old_version: String,
    /// The process that serves now.
    process: u32,
    /// Path of the program.
    program: String,
    /// From its start until the old process had ended, or was no longer awaited.
    took_ms: u64,
    /// Hosts, with their addresses, that were too slow to be handed over, and connect again.
    disconnected: Vec<String>,
}

impl fmt::Display for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old_process, old_version, process, program, took_ms, disconnected } = self;
        write!(
            f,
            "process {process} ({program}) serves in place of process {old_process} ({old_version}); it took \
             {took_ms} ms"
        )?;
        match disconnected.as_slice() {
            [] => writeln!(f),
            hosts => {
                let count = units::plural(hosts.len() as u64, "host");
                writeln!(f, "; {count} connected again: {}", hosts.join(", "))
            }
        }
    }
}

/// With `--if-changed`: nothing was to be done.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Unchanged {
    /// The process that serves, as before.
    process: u32,
    /// Path of the program.
    program: String,
}

impl fmt::Display for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "process {} runs {} already", self.process, self.program)
    }
}

/// Starts the new process, and waits until it serves.
pub(super) fn run(flags: &UpgradeFlags) -> Result<(), Failure> {
    let program = program(flags.program.as_deref())?;
    let place = place_of(&control(flags)?);
    let unreachable = |error: std::io::Error| {
        Failure::failed(format!(
            "no target can be upgraded at {}: {error}; if one runs there, restart it",
            place.display()
        ))
    };
    let channel = Channel::connect(&place).map_err(unreachable)?;
    check_user(&channel)?;
    let about = ask::<TargetProtocol>(&channel, ANSWER).map_err(unreachable)?;
    if flags.if_changed && runs(&about, &program) {
        let unchanged = Unchanged { process: about.process, program: program.display().to_string() };
        return report::print_as(flags.control.output.output_format, &unchanged);
    }
    if !about.obstacles.is_empty() {
        return Err(Failure::failed(format!(
            "the target cannot be upgraded without a restart: {}",
            about.obstacles.join("; ")
        )));
    }
    let old = OtherProcess::of(&about).ok_or_else(|| Failure::failed("the target has ended"))?;
    let begun = Instant::now();
    let mut new = start(&program, &about, &place)
        .map_err(|error| Failure::failed(format!("{} cannot be started: {error}", program.display())))?;
    let serves = |number: u32| {
        let about = Channel::connect(&place).and_then(|channel| ask::<TargetProtocol>(&channel, ANSWER));
        about.is_ok_and(|about| about.process == number)
    };
    if !await_end(&old, &mut new, (&program, Some(&place)), "the target", serves)? {
        eprintln!(
            "selvedge: process {0} serves no longer and has not ended; end it: kill -KILL {0}",
            old.number()
        );
    }
    // Requests that follow this command are to reach the new process.
    let number = new.id();
    let report = await_report::<TargetProtocol>(&place, &mut new, |about| about.process == number);
    let upgraded = Upgraded {
        old_process: about.process,
        old_version: about.version,
        process: number,
        program: program.display().to_string(),
        took_ms: begun.elapsed().as_millis() as u64,
        disconnected: report.map(|about| about.disconnected).unwrap_or_default(),
    };
    report::print_as(flags.control.output.output_format, &upgraded)
}

/// The control socket of the target that is meant.
fn control(flags: &UpgradeFlags) -> Result<PathBuf, Failure> {
    match &flags.control.control {
        Some(Endpoint::Unix(path)) => return Ok(path.clone()),
        Some(other) => {
            return Err(Failure::usage(format!(
                "{other} is not a control socket of this machine: write unix:PATH"
            )));
        }
        None => {}
    }
    let all: Vec<PathBuf> =
        socket::default_folders().iter().flat_map(|folder| socket::living_sockets(folder)).collect();
    match all.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::failed(
            "no target runs here that can be found; name its socket with --control unix:PATH",
        )),
        several => Err(Failure::usage(format!(
            "{} targets run here; name one with --control unix:PATH",
            several.len()
        ))),
    }
}

/// The new process has the rights of who starts it, which have to be those of the target.
fn check_user(channel: &Channel) -> Result<(), Failure> {
    let peer = rustix::net::sockopt::socket_peercred(channel).map_err(Failure::failed)?;
    if peer.uid == rustix::process::geteuid() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the target runs as user {}, and the new process has to as well: systemctl reload selvedge, or sudo -u",
        peer.uid.as_raw()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_connected_again_are_counted_in_the_line() {
        let upgraded = |disconnected: &[&str]| Upgraded {
            old_process: 2,
            old_version: "0.2.0".to_owned(),
            process: 3,
            program: "/usr/bin/selvedge".to_owned(),
            took_ms: 50,
            disconnected: disconnected.iter().map(|host| (*host).to_owned()).collect(),
        };
        let line = upgraded(&[]).to_string();
        assert!(line.ends_with("(0.2.0); it took 50 ms\n"), "{line}");
        let line = upgraded(&["nqn.a at 10.0.0.7", "nqn.b at 10.0.0.8"]).to_string();
        assert!(
            line.ends_with("50 ms; 2 hosts connected again: nqn.a at 10.0.0.7, nqn.b at 10.0.0.8\n"),
            "{line}"
        );
    }
}
