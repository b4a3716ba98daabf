//! `selvedge upgrade`: another program in place of a running target, whose hosts notice a pause and nothing else.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use administration::succession::{Channel, ask, await_end, program, start};
use chart::units;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use crate::control::socket;
use crate::failure::Failure;
use crate::flags::control::UpgradeFlags;
use crate::report;
use crate::spec::endpoint::Endpoint;
use crate::succession::place_of;

/// Time for the new process until its control API answers.
const ADMINISTRATION: Duration = Duration::from_secs(10);
/// Time-out for a target to report its command line.
const ANSWER: Duration = Duration::from_secs(10);
/// Interval of requests to the new process.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

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
    /// From its start until the old process had ended.
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
    let about = ask(&channel, ANSWER).map_err(unreachable)?;
    let is_same = || fs::metadata(&program).is_ok_and(|file| about.program == Some((file.dev(), file.ino())));
    if flags.if_changed && is_same() {
        let unchanged = Unchanged { process: about.process, program: program.display().to_string() };
        return report::print_as(flags.control.output.output_format, &unchanged);
    }
    if !about.obstacles.is_empty() {
        return Err(Failure::failed(format!(
            "the target cannot be upgraded without a restart: {}",
            about.obstacles.join("; ")
        )));
    }
    let old = i32::try_from(about.process).ok().and_then(Pid::from_raw);
    let old = old.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let old = old.ok_or_else(|| Failure::failed("the target has ended"))?;
    let begun = Instant::now();
    let mut new = start(&program, &about, &place)
        .map_err(|error| Failure::failed(format!("{} cannot be started: {error}", program.display())))?;
    await_end(&old, &mut new, (&program, Some(&place)), "the target")?;
    let disconnected = await_administration(&place, &mut new);
    let upgraded = Upgraded {
        old_process: about.process,
        old_version: about.version,
        process: new.id(),
        program: program.display().to_string(),
        took_ms: begun.elapsed().as_millis() as u64,
        disconnected,
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

/// Waits until the new process can be administered: who asks it something behind this command is to reach it. It serves
/// already, so that nothing depends on it. Returns the hosts that had to connect again.
fn await_administration(place: &Path, new: &mut Child) -> Vec<String> {
    let until = Instant::now() + ADMINISTRATION;
    while Instant::now() < until && matches!(new.try_wait(), Ok(None)) {
        let about = Channel::connect(place).and_then(|channel| ask(&channel, ANSWER));
        if let Some(about) = about.ok().filter(|about| about.process == new.id()) {
            return about.disconnected;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Vec::new()
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
