//! `selvedge attach detach`: ends the processes of disks, and takes away what processes have left that are gone.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use attach::ublk::FoundDevice;
use engine::address::HostAddress;
use serde::Serialize;

use super::list::is_orphan;
use super::process::{Manner, Process};
use super::record::{self, KnownRecord};
use crate::disk_users::DiskUsers;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::report;

/// Time for a process to end: data that its devices have not written yet is written first.
const END_LIMIT: Duration = Duration::from_secs(60);
pub(super) const ALL: &str = "all";

/// Detaches what is named.
pub(super) fn run(named: &[String], force: bool, format: OutputFormat) -> Result<(), Failure> {
    // Before anything can be refused: a process that was killed before it had a record has left nothing else to find it by.
    record::remove_left_places();
    let found = FoundDevice::all().unwrap_or_default();
    let is_all = named.iter().any(|name| name == ALL);
    let mut places: Vec<String> = named.iter().filter(|name| *name != ALL).map(|name| place(name)).collect();
    let (mut named_records, mut orphans) = (Vec::new(), Vec::new());
    let all = KnownRecord::all();
    // A process with disks of a file has a record of each.
    let of_process = |process: Process| {
        let own = all.iter().filter(move |known| known.record.process == process);
        own.flat_map(|known| known.record.places()).collect::<Vec<String>>()
    };
    let named = places.clone();
    for known in &all {
        let own = known.record.places();
        if !is_all && !own.iter().any(|place| named.contains(place)) {
            continue;
        }
        let all_own = if known.is_alive() { of_process(known.record.process) } else { own.clone() };
        if let Some(other) = all_own.iter().find(|place| !is_all && !named.contains(place)) {
            let pid = known.record.process.pid;
            return Err(Failure::failed(format!("process {pid} has {other} too: name all of its disks")));
        }
        places.retain(|place| !own.contains(place));
        named_records.push(known.path.clone());
    }
    for place in places {
        let Some(device) = found.iter().find(|device| device.path() == Path::new(&place)) else {
            return Err(Failure::failed(unknown(&place)));
        };
        if !is_orphan(device) {
            let pid = device.process.unwrap_or_default();
            return Err(Failure::failed(format!(
                "{place} is served by another program, process {pid}: end that"
            )));
        }
        orphans.push(*device);
    }
    let records = ended_first(all, &named_records);
    let devices: Vec<&FoundDevice> =
        records.iter().flat_map(|known| known.devices(&found)).chain(&orphans).collect();
    let users = DiskUsers::live();
    let name = |device: &FoundDevice| format!("ublkb{}", device.number);
    let used = devices.iter().find_map(|device| Some((device, users.of(&name(device))?)));
    if let Some((device, reason)) = used.as_ref().filter(|_| !force) {
        return Err(Failure::failed(format!("{} is in use: {reason}", device.path().display())));
    }
    // A process that sees programs with its disks open waits for them, too.
    let is_open = || devices.iter().any(|device| users.opener(&name(device)).is_some());
    let manner = match force {
        false => Manner::Waiting,
        true if used.is_some() || is_open() => Manner::Insisting,
        true => Manner::Plain,
    };
    let mut detached = Detached { manner, detached: Vec::new() };
    records.into_iter().try_for_each(|known| detached.detach(&known, &found))?;
    orphans.iter().try_for_each(|device| detached.delete(device))?;
    report::print_as(format, &detached)
}

/// Returns the records with these paths, those of ended processes first. Each ended one is locked, and other commands wait for it:
/// not until a process of another disk has ended. All other records are unlocked.
fn ended_first(all: Vec<KnownRecord>, named: &[PathBuf]) -> Vec<KnownRecord> {
    let mut records: Vec<KnownRecord> = all.into_iter().filter(|known| named.contains(&known.path)).collect();
    records.sort_by_key(KnownRecord::is_alive);
    records
}

/// Why there is nothing to detach there.
pub(super) fn unknown(place: &str) -> String {
    if place.starts_with("/dev/ublkb") && Path::new(&place.replace("ublkb", "ublkc")).exists() {
        return format!("{place} belongs to another user: only that user and root may detach it");
    }
    format!("{place} is not attached: see `selvedge attach list`")
}

/// Returns the place of a disk from its name on the command line.
pub(super) fn place(name: &str) -> String {
    let number =
        name.trim_start_matches("/dev/").strip_prefix("ublk").map(|rest| rest.trim_start_matches(['b', 'c']));
    if let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) {
        return format!("/dev/ublkb{number}");
    }
    if let Ok(written) = name.parse::<HostAddress>()
        && written.port().is_some()
        && let Some(address) = written.literal(0)
    {
        return address.to_string();
    }
    let path = name.strip_prefix("unix:").unwrap_or(name);
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Detached disks, as printed.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Detached {
    /// Manner in which processes are asked to end.
    #[serde(skip)]
    manner: Manner,
    detached: Vec<DetachedDisk>,
}

/// A disk that is no longer there.
#[derive(Serialize, schemars::JsonSchema)]
struct DetachedDisk {
    /// The block device, the Unix socket, or the address and port of the NBD server.
    place: String,
    /// The process that was asked to end; none where it was gone.
    pid: Option<u32>,
    /// The block device is open: its number is free when the last user closes it.
    in_use: bool,
}

impl Detached {
    fn detach(&mut self, known: &KnownRecord, found: &[FoundDevice]) -> Result<(), Failure> {
        if known.is_alive() {
            return self.end(known);
        }
        for device in known.devices(found) {
            self.delete(device)?;
        }
        for socket in known.record.disks.iter().filter_map(|disk| disk.socket.as_ref()) {
            remove_socket(socket);
        }
        let left = known.record.places().into_iter();
        let left: Vec<String> =
            left.filter(|place| self.detached.iter().all(|disk| disk.place != *place)).collect();
        self.detached.extend(left.into_iter().map(|place| DetachedDisk { place, pid: None, in_use: false }));
        known.remove();
        Ok(())
    }

    /// Ends a process, and waits for it.
    fn end(&mut self, known: &KnownRecord) -> Result<(), Failure> {
        let process = known.record.process;
        let pid = process.pid;
        match process.end(END_LIMIT, self.manner) {
            Ok(true) => {}
            Ok(false) => {
                let waited = END_LIMIT.as_secs();
                return Err(Failure::failed(format!(
                    "process {pid} was asked to end, and has not in {waited} s"
                )));
            }
            Err(error) => {
                return Err(Failure::failed(format!("process {pid} cannot be asked to end: {error}")));
            }
        }
        if self.manner == Manner::Insisting {
            // A process that took both signals at once has left its devices.
            for device in known.devices(&FoundDevice::all().unwrap_or_default()) {
                device.delete().map_err(Failure::failed)?;
            }
        }
        let places = known.record.places().into_iter();
        self.detached.extend(places.map(|place| DetachedDisk { place, pid: Some(pid), in_use: false }));
        Ok(())
    }

    /// Takes away a device that no process serves.
    fn delete(&mut self, device: &FoundDevice) -> Result<(), Failure> {
        let is_free = device.delete().map_err(Failure::failed)?;
        let place = device.path().display().to_string();
        self.detached.push(DetachedDisk { place, pid: None, in_use: !is_free });
        Ok(())
    }
}

/// Removes the file of a socket without a listener.
fn remove_socket(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        // One that stays is replaced by the next process.
        let _ = fs::remove_file(path);
    }
}

impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detached.is_empty() {
            return writeln!(f, "nothing is attached");
        }
        for disk in &self.detached {
            let what = match disk.pid {
                Some(pid) => format!("process {pid} has ended"),
                None => "its process was gone".to_owned(),
            };
            let in_use = if disk.in_use { "; its number is free when the last user closes it" } else { "" };
            writeln!(f, "{} is detached: {what}{in_use}", disk.place)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::record::tests::record_of;
    use super::*;

    #[test]
    fn records_of_other_disks_are_not_locked_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let known = |name: &str, is_alive: bool| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.lock().unwrap();
            KnownRecord { path, record: record_of(3, 7), lock: (!is_alive).then_some(file) }
        };
        let all = vec![known("other", false), known("living", true), known("ended", false)];
        let paths = ["living", "ended", "other"].map(|name| folder.path().join(name));
        let records = ended_first(all, &paths[..2]);
        let order: Vec<&Path> = records.iter().map(|known| known.path.as_path()).collect();
        assert_eq!(order, [&*paths[1], &*paths[0]]);
        let is_free = |path: &Path| File::open(path).unwrap().try_lock().is_ok();
        assert!(is_free(&paths[2]) && !is_free(&paths[1]));
    }

    #[test]
    fn a_place_is_found_however_it_is_written() {
        for name in ["/dev/ublkb3", "ublkb3", "/dev/ublkc3"] {
            assert_eq!(place(name), "/dev/ublkb3");
        }
        assert_eq!(place("127.0.0.1:10809"), "127.0.0.1:10809");
        let here = std::env::current_dir().unwrap().join("a.nbd").display().to_string();
        assert_eq!(
            (place("a.nbd"), place("unix:a.nbd"), place("unix:/a/b")),
            (here.clone(), here, "/a/b".to_owned())
        );
    }
}
