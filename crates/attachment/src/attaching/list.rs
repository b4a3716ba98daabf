//! `selvedge attach list`: what is attached, and what processes have left that are gone.

use std::fmt;

use attach::ublk::{DeviceState, FoundDevice};
use serde::Serialize;
use uuid::Uuid;

use super::process;
use super::record::{AttachMethod, KnownRecord, RecordedDisk};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::report;
use crate::report::table::{Side, Table};

/// Prints them.
pub(super) fn run(format: OutputFormat) -> Result<(), Failure> {
    // Who may not ask the driver has no devices.
    let found = FoundDevice::all().unwrap_or_default();
    report::print_as(format, &AttachedDisks::of(&KnownRecord::all(), &found))
}

/// Attached disks, as printed.
#[derive(Serialize, schemars::JsonSchema)]
pub struct AttachedDisks {
    disks: Vec<ListedDisk>,
}

/// A disk, or what is left of one.
#[derive(Serialize, schemars::JsonSchema)]
struct ListedDisk {
    #[serde(rename = "way")]
    method: AttachMethod,
    /// The block device, the Unix socket, or the address and port of the NBD server.
    place: String,
    state: State,
    /// The process that serves it, or did.
    pid: Option<u32>,
    /// The subsystem; none where there is no record of the device.
    nqn: Option<String>,
    nsid: Option<u32>,
    /// UUID or NGUID of the namespace, or what stands for it.
    namespace: Option<Uuid>,
}

/// State of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Attached: its process serves the disk.
    Attached,
    /// Waiting: its process has ended; requests to the block device wait for a recovery.
    Waiting,
    /// Left: its process has ended, and the disk cannot be recovered.
    Left,
}

impl AttachedDisks {
    fn of(records: &[KnownRecord], found: &[FoundDevice]) -> Self {
        let mut disks = Vec::new();
        for known in records {
            let recoverable = known.recoverable(found);
            let state = |disk: &RecordedDisk| match disk.device {
                _ if known.is_alive() => State::Attached,
                Some(device) if recoverable.iter().any(|found| device.is(found)) => State::Waiting,
                _ => State::Left,
            };
            let record = &known.record;
            disks.extend(record.disks.iter().map(|disk| ListedDisk {
                method: record.method,
                place: disk.place(),
                state: state(disk),
                pid: Some(record.process.pid),
                nqn: Some(record.nqn.clone()),
                nsid: Some(disk.nsid),
                namespace: Some(disk.namespace),
            }));
        }
        let recorded =
            |device: &FoundDevice| records.iter().any(|known| !known.devices(&[*device]).is_empty());
        disks.extend(found.iter().filter(|device| is_orphan(device) && !recorded(device)).map(Self::orphan));
        Self { disks }
    }

    fn orphan(device: &FoundDevice) -> ListedDisk {
        ListedDisk {
            method: AttachMethod::Ublk,
            place: device.path().display().to_string(),
            state: State::Left,
            pid: device.process,
            nqn: None,
            nsid: None,
            namespace: None,
        }
    }
}

/// True if no process serves a device. A device that was never served may be served soon.
pub(super) fn is_orphan(device: &FoundDevice) -> bool {
    let is_served = device.process.is_some_and(process::is_there);
    !is_served && (device.state != DeviceState::Live || device.process.is_some())
}

impl fmt::Display for AttachedDisks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.disks.is_empty() {
            return writeln!(f, "nothing is attached");
        }
        let columns = ["disk", "way", "subsystem", "nsid", "process"];
        let mut table = Table::new(&columns.map(|name| (name, Side::Left)));
        for disk in &self.disks {
            let method = match disk.method {
                AttachMethod::Ublk => "ublk",
                AttachMethod::Nbd => "nbd",
                AttachMethod::VhostUser => "vhost-user",
            };
            let process = match (disk.state, disk.pid) {
                (State::Attached, Some(pid)) => pid.to_string(),
                (State::Waiting, _) => "its process is gone: selvedge attach recover".to_owned(),
                _ => format!("its process is gone: selvedge attach detach {}", disk.place),
            };
            table.row(vec![
                disk.place.clone(),
                method.to_owned(),
                disk.nqn.clone().unwrap_or_else(|| "-".into()),
                disk.nsid.map_or_else(|| "-".into(), |nsid| nsid.to_string()),
                process,
            ]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_process_is_an_orphan() {
        let device = |state, process| FoundDevice { number: 1, mark: 0, state, process, owner: None };
        let this = std::process::id();
        assert!(!is_orphan(&device(DeviceState::Live, Some(this))));
        assert!(!is_orphan(&device(DeviceState::Live, None)));
        // The numbers of processes end below.
        assert!(is_orphan(&device(DeviceState::Waiting, Some(u32::MAX >> 1))));
        assert!(is_orphan(&device(DeviceState::Dead, None)));
        let listed = AttachedDisks::of(&[], &[device(DeviceState::Dead, None)]);
        assert!(listed.to_string().contains("selvedge attach detach /dev/ublkb1"), "{listed}");
    }
}
