//! `selvedge disconnect`: has the kernel's own initiator delete controllers, and waits until they are gone.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use chart::units::plural;
use engine::address::{HostAddress, NetAddress};
use schemars::JsonSchema;
use serde::Serialize;

use super::connect::{Forgotten, forget};
use crate::disk_users::DiskUsers;
use crate::failure::Failure;
use crate::flags::connect::DisconnectFlags;
use crate::kernel_initiator::{Controller, Controllers, DISCOVERY_CONF, Wanted, without_lines};
use crate::report;

/// For how long it is waited for one controller: the kernel first ends what is outstanding, and a target may be gone.
const GONE_LIMIT: Duration = Duration::from_secs(60);

/// Disconnects, and says how many there were.
pub(super) fn run(flags: &DisconnectFlags) -> Result<(), Failure> {
    let addresses = addresses(flags)?;
    let machine = Controllers::live();
    let all = machine.all();
    let chosen = chosen(flags, &machine, &all, &addresses)?;
    if !flags.force {
        refuse_used(&machine, &all, &chosen, &DiskUsers::live())?;
    }
    let mut disconnected = Disconnected::default();
    let mut problems = Vec::new();
    for controller in &chosen {
        match machine.delete(&controller.name, GONE_LIMIT) {
            Ok(()) => disconnected.controllers.push(DisconnectedController::of(controller)),
            // Another program was faster.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => problems.push(problem(&controller.name, &error)),
        }
    }
    if flags.persistent && problems.is_empty() {
        disconnected.forgotten = forgotten(flags, &addresses, &chosen)?;
    }
    report::print_as(flags.output.output_format, &disconnected)?;
    if problems.is_empty() { Ok(()) } else { Err(Failure::failed(problems.join("; "))) }
}

fn problem(name: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{name}: to disconnect the kernel's initiator is root's"),
        ErrorKind::TimedOut => {
            format!("{name} is still there after {} s; `dmesg` says more", GONE_LIMIT.as_secs())
        }
        _ => format!("{name}: {error}"),
    }
}

/// The addresses that are meant, all of those of a name; port 0 is any.
fn addresses(flags: &DisconnectFlags) -> Result<Vec<NetAddress>, Failure> {
    let mut found = Vec::new();
    for text in &flags.traddr {
        let written: HostAddress = text.parse().map_err(Failure::usage)?;
        found.extend(written.all(flags.trsvcid.unwrap_or(0)).map_err(Failure::failed)?);
    }
    Ok(found)
}

/// The controllers that are meant.
fn chosen<'a>(
    flags: &DisconnectFlags,
    machine: &Controllers,
    all: &'a [Controller],
    addresses: &[NetAddress],
) -> Result<Vec<&'a Controller>, Failure> {
    if let Some(device) = &flags.device {
        let name = device.strip_prefix("/dev/").unwrap_or(device);
        let found = all.iter().find(|controller| controller.name == name);
        return found.map(|controller| vec![controller]).ok_or_else(|| {
            let is_local = machine.has(name);
            let why = if is_local { "is not connected over a network" } else { "is not there" };
            Failure::failed(format!(
                "the controller {name} {why}; `selvedge disconnect -n NQN` takes a subsystem"
            ))
        });
    }
    let wanted = Wanted { nqn: None, addresses };
    let is_meant = |controller: &&Controller| {
        flags.nqn.as_ref().is_none_or(|nqn| nqn.as_str() == controller.nqn)
            && match controller.peer() {
                Some(peer) => wanted.has_address(&peer),
                None => addresses.is_empty(),
            }
    };
    Ok(all.iter().filter(is_meant).collect())
}

/// Refuses to take the last path of a disk that is in use.
fn refuse_used(
    machine: &Controllers,
    all: &[Controller],
    chosen: &[&Controller],
    users: &DiskUsers,
) -> Result<(), Failure> {
    let is_chosen = |controller: &Controller| chosen.iter().any(|other| other.name == controller.name);
    let left = all.iter().filter(|controller| !is_chosen(controller) && controller.state == "live");
    let stays: BTreeSet<String> =
        left.flat_map(|controller| machine.disks(&controller.name)).map(|disk| disk.name).collect();
    let goes = chosen.iter().flat_map(|controller| machine.disks(&controller.name));
    let used = goes.filter(|disk| !stays.contains(&disk.name)).find_map(|disk| users.of(&disk.name));
    match used {
        Some(what) => Err(Failure::failed(format!(
            "{what}, and nothing was disconnected: stop its users first, or lose unwritten data with --force"
        ))),
        None => Ok(()),
    }
}

/// Takes what was meant out of the files for the next boot.
fn forgotten(
    flags: &DisconnectFlags,
    addresses: &[NetAddress],
    chosen: &[&Controller],
) -> Result<Vec<ForgottenEntries>, Failure> {
    let nqn = flags.nqn.as_ref().map(|nqn| nqn.as_str());
    let entries = match chosen {
        [controller] if flags.device.is_some() => match controller.peer() {
            Some(peer) => forget(&Wanted { nqn: Some(&controller.nqn), addresses: &[peer] })?,
            None => Vec::new(),
        },
        _ => forget(&Wanted { nqn, addresses })?,
    };
    warn_of_lines(chosen);
    Ok(entries.into_iter().map(ForgottenEntries::of).collect())
}

/// Warns of lines for discovery services that reconnect these controllers at boot: such a line is
/// about all subsystems there.
fn warn_of_lines(chosen: &[&Controller]) {
    let peers: Vec<NetAddress> = chosen.iter().filter_map(|controller| controller.peer()).collect();
    let text = fs::read_to_string(DISCOVERY_CONF).unwrap_or_default();
    if !peers.is_empty() && without_lines(&text, &Wanted { nqn: None, addresses: &peers }).1 > 0 {
        eprintln!(
            "{DISCOVERY_CONF} has a line for such an address, and connects all that it shows at boot: `selvedge disconnect \
             --all-of -a ADDR --persistent` takes it out"
        );
    }
}

/// Deleted controllers and removed entries, as printed.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Disconnected {
    controllers: Vec<DisconnectedController>,
    /// Entries removed from the files for the next boot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<ForgottenEntries>,
}

/// A controller that is gone.
#[derive(Debug, Serialize, JsonSchema)]
struct DisconnectedController {
    controller: String,
    nqn: String,
    /// Address in the kernel's syntax.
    address: String,
}

/// Entries of a file that are gone.
#[derive(Debug, Serialize, JsonSchema)]
struct ForgottenEntries {
    file: PathBuf,
    entries: usize,
}

impl DisconnectedController {
    fn of(controller: &Controller) -> Self {
        let Controller { name, nqn, address, .. } = controller;
        Self { controller: name.clone(), nqn: nqn.clone(), address: address.clone() }
    }
}

impl ForgottenEntries {
    fn of(forgotten: Forgotten) -> Self {
        Self { file: forgotten.place, entries: forgotten.entries }
    }
}

impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DisconnectedController { controller, nqn, address } in &self.controllers {
            writeln!(f, "{controller}: {nqn} at {address}")?;
        }
        writeln!(f, "disconnected {}", plural(self.controllers.len() as u64, "controller"))?;
        for ForgottenEntries { file, entries } in &self.forgotten {
            let entries = if *entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
            writeln!(f, "took {entries} out of {}", file.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(arguments: &str) -> DisconnectFlags {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: DisconnectFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }

    fn controller(name: &str, nqn: &str, address: &str) -> Controller {
        let (ip, service) = address.split_once(':').unwrap();
        Controller {
            name: name.to_owned(),
            transport: "tcp".to_owned(),
            nqn: nqn.to_owned(),
            address: format!("traddr={ip},trsvcid={service},src_addr=10.0.0.1"),
            state: "live".to_owned(),
        }
    }

    fn all() -> Vec<Controller> {
        vec![
            controller("nvme0", "nqn.a", "10.0.0.2:4420"),
            controller("nvme1", "nqn.a", "10.0.0.2:4421"),
            controller("nvme2", "nqn.b", "10.0.0.2:4420"),
            controller("nvme3", "nqn.b", "10.0.0.3:4420"),
        ]
    }

    #[test]
    fn controllers_are_chosen_by_name_and_address() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Controllers::at(folder.path());
        let names = |arguments: &str| {
            let (flags, all) = (flags(arguments), all());
            let addresses = addresses(&flags).unwrap();
            let chosen = chosen(&flags, &machine, &all, &addresses).unwrap();
            chosen.iter().map(|controller| controller.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("-n nqn.a"), "nvme0 nvme1");
        assert_eq!(names("-n nqn.a -a 10.0.0.2 -s 4421"), "nvme1");
        assert_eq!(names("-n nqn.c"), "");
        assert_eq!(names("-d nvme2"), "nvme2");
        assert_eq!(names("-d /dev/nvme2"), "nvme2");
        assert_eq!(names("--all-of -a 10.0.0.2"), "nvme0 nvme1 nvme2");
        assert_eq!(names("--all-of -a 10.0.0.2:4420,10.0.0.3"), "nvme0 nvme2 nvme3");
        let missing = chosen(&flags("-d nvme9"), &machine, &all(), &[]).unwrap_err().line().unwrap();
        assert!(missing.contains("is not there"), "{missing}");
    }

    #[test]
    fn it_says_how_many() {
        let mut disconnected = Disconnected::default();
        assert_eq!(disconnected.to_string(), "disconnected 0 controllers\n");
        disconnected.controllers.push(DisconnectedController::of(&all()[0]));
        disconnected.forgotten.push(ForgottenEntries { file: "a".into(), entries: 1 });
        assert!(disconnected.to_string().ends_with("disconnected 1 controller\ntook 1 entry out of a\n"));
    }
}
