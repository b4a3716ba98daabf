//! Attachment of a namespace by another process of this machine, as records show it, or by the kernel's initiator. Two writers that
//! do not know of each other destroy a file system: each caches what the other changes. A block device whose process has ended is
//! a writer too: its requests wait for the next process.

use std::fmt;
use std::path::{Path, PathBuf};

use attach::ublk::FoundDevice;

use super::record::{KnownRecord, RecordedDisk};
use crate::kernel_initiator::Controllers;

/// Attachment of a namespace by another process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OtherAttachment {
    place: String,
    user: User,
    is_read_only: bool,
}

/// User of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    Process(u32),
    Kernel,
    /// Process that has ended, with the path of its record; its block device waits for the next process.
    Ended(u32, PathBuf),
}

impl OtherAttachment {
    /// Finds other attachments of the same namespace in these records, except in the record at `own`. `found` are the block
    /// devices of the kernel's driver.
    pub(super) fn find(
        disk: &RecordedDisk,
        records: &[KnownRecord],
        found: &[FoundDevice],
        own: Option<&Path>,
    ) -> Vec<Self> {
        let others = records.iter().filter(|known| Some(known.path.as_path()) != own);
        let disks = others.flat_map(|known| Self::of_record(known, found));
        disks.filter(|(other, _)| other.namespace == disk.namespace).map(|(_, other)| other).collect()
    }

    /// Returns attached disks of a record: all of a living process, and those of an ended one that wait for the next.
    fn of_record<'a>(known: &'a KnownRecord, found: &[FoundDevice]) -> Vec<(&'a RecordedDisk, Self)> {
        let (pid, recoverable) = (known.record.process.pid, known.recoverable(found));
        let user = if known.is_alive() { User::Process(pid) } else { User::Ended(pid, known.path.clone()) };
        let waits = |disk: &RecordedDisk| {
            disk.device.is_some_and(|device| recoverable.iter().any(|found| device.is(found)))
        };
        let attached = known.record.disks.iter().filter(|disk| known.is_alive() || waits(disk));
        let of = |disk: &RecordedDisk| Self {
            place: disk.place(),
            user: user.clone(),
            is_read_only: disk.read_only,
        };
        attached.map(|disk| (disk, of(disk))).collect()
    }

    /// Finds the disk of the kernel's initiator, which may write.
    pub(super) fn of_kernel(controllers: &Controllers, nqn: &str, nsid: u32) -> Option<Self> {
        let own = controllers.all().into_iter().filter(|controller| controller.nqn == nqn);
        let disk = own.flat_map(|own| controllers.disks(&own.name)).find(|disk| disk.nsid == nsid)?;
        Some(Self { place: disk.device.display().to_string(), user: User::Kernel, is_read_only: false })
    }

    /// Reason why a disk must not be attached for writing beside these, if one of them writes.
    pub(super) fn refusal(disk: &RecordedDisk, others: &[Self]) -> Option<String> {
        let writer = others.iter().find(|other| !other.is_read_only).filter(|_| !disk.read_only)?;
        Some(writer.refusal_of(disk.nsid, "use that one, detach it, or attach with --read-only"))
    }

    /// Reason why the kernel must not connect to a subsystem, if a namespace of it is attached for writing.
    pub(super) fn writer_of(nqn: &str, records: &[KnownRecord], found: &[FoundDevice]) -> Option<String> {
        let own = records.iter().filter(|known| known.record.nqn == nqn);
        let mut attached = own.flat_map(|known| Self::of_record(known, found));
        let (disk, writer) = attached.find(|(_, other)| !other.is_read_only)?;
        Some(writer.refusal_of(disk.nsid, "detach it first"))
    }

    /// Reason why this namespace is not attached, and what to do. `remedy` is for a disk that is served.
    fn refusal_of(&self, nsid: u32, remedy: &str) -> String {
        let Self { place, user, .. } = self;
        let reason = match user {
            User::Process(_) | User::Kernel => format!(
                "attached for writing as {place} by {user} already; two disks with one content destroy each other's file systems: \
                 {remedy}"
            ),
            User::Ended(_, record) => format!(
                "{place} has requests of {user}, and waits for the next one (record {}): run `selvedge attach recover`, or \
                 `selvedge attach detach {place}`",
                record.display()
            ),
        };
        format!("namespace {nsid}: {reason} (--allow-second-attach is for programs that share a disk)")
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Kernel => write!(f, "the kernel's initiator"),
            Self::Ended(pid, _) => write!(f, "process {pid}, which has ended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use attach::ublk::DeviceState;

    use super::super::record::tests::record_of;
    use super::*;
    use crate::disk_users::write_tree;

    fn known(path: &str, lock: Option<std::fs::File>) -> KnownRecord {
        KnownRecord { path: path.into(), record: record_of(3, 7), lock }
    }

    #[test]
    fn a_second_writer_is_refused_with_the_place_and_the_process_of_the_first() {
        let (first, pid) = (known("/a.json", None), std::process::id());
        let disk = RecordedDisk { device: None, ..first.record.disks[0].clone() };
        let refusal = |disk: &RecordedDisk, known: KnownRecord, own: Option<&str>| {
            let others = OtherAttachment::find(disk, &[known], &[], own.map(Path::new));
            (others.len(), OtherAttachment::refusal(disk, &others))
        };
        let (count, reason) = refusal(&disk, first, None);
        let reason = reason.expect("two writers");
        assert!(
            count == 1 && reason.contains("/dev/ublkb3") && reason.contains(&format!("process {pid} ")),
            "{reason}"
        );
        assert_eq!(refusal(&disk, known("/a.json", None), Some("/a.json")), (0, None), "its own record");
        let dead = known("/a.json", Some(tempfile::tempfile().unwrap()));
        assert_eq!(refusal(&disk, dead, None), (0, None), "its process has ended");
        let other = RecordedDisk { namespace: uuid::Uuid::from_u128(8), ..disk.clone() };
        assert_eq!(refusal(&other, known("/a.json", None), None), (0, None));
        // One of both only reads: the second is known, and allowed.
        let reader = RecordedDisk { read_only: true, ..disk.clone() };
        assert_eq!(refusal(&reader, known("/a.json", None), None), (1, None));
        let mut read = known("/a.json", None);
        read.record.disks[0].read_only = true;
        assert_eq!(refusal(&disk, read, None), (1, None));
    }

    #[test]
    fn the_kernel_does_not_connect_to_what_is_written_by_a_living_process() {
        let writer = |known: KnownRecord, nqn| OtherAttachment::writer_of(nqn, &[known], &[]);
        let reason = writer(known("/a.json", None), "nqn.a").expect("a writer");
        assert!(
            reason.starts_with("namespace 1: attached for writing as /dev/ublkb3 by process "),
            "{reason}"
        );
        assert_eq!(writer(known("/a.json", None), "nqn.b"), None);
        assert_eq!(writer(known("/a.json", Some(tempfile::tempfile().unwrap())), "nqn.a"), None);
        let mut reader = known("/a.json", None);
        reader.record.disks[0].read_only = true;
        assert_eq!(writer(reader, "nqn.a"), None);
    }

    #[test]
    fn a_block_device_that_waits_for_the_next_process_is_a_writer() {
        let dead = || [known("/run/a.json", Some(tempfile::tempfile().unwrap()))];
        let disk =
            RecordedDisk { device: None, socket: Some("/a.nbd".into()), ..record_of(3, 7).disks.remove(0) };
        let device =
            FoundDevice { number: 3, mark: 7, state: DeviceState::Waiting, process: None, owner: None };
        let refusal = |disk: &RecordedDisk, device: FoundDevice| {
            let others = OtherAttachment::find(disk, &dead(), &[device], None);
            OtherAttachment::refusal(disk, &others)
        };
        let reason = refusal(&disk, device).expect("two writers");
        for part in
            ["namespace 1: /dev/ublkb3 ", "/run/a.json", "`selvedge attach recover`", "--allow-second-attach"]
        {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let connects = |device| OtherAttachment::writer_of("nqn.a", &dead(), &[device]);
        assert_eq!(connects(device), Some(reason));
        // Its number is another device's by now, or it is lost.
        for other in [FoundDevice { mark: 8, ..device }, FoundDevice { state: DeviceState::Dead, ..device }] {
            assert_eq!((refusal(&disk, other), connects(other)), (None, None));
        }
        let reader = RecordedDisk { read_only: true, ..disk };
        assert_eq!(refusal(&reader, device), None);
    }

    #[test]
    fn a_disk_of_the_kernel_is_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        write_tree(
            folder.path(),
            &[
                ("sys/class/nvme/nvme1/transport", "tcp\n"),
                ("sys/class/nvme/nvme1/subsysnqn", "nqn.a\n"),
                ("sys/class/nvme/nvme1/nvme1n1/nsid", "1\n"),
                ("sys/block/nvme1n1/size", "2048\n"),
                ("dev/nvme1n1", ""),
            ],
        );
        let found = |nqn, nsid| OtherAttachment::of_kernel(&Controllers::at(folder.path()), nqn, nsid);
        let disk = record_of(3, 7).disks.remove(0);
        let reason = OtherAttachment::refusal(&disk, &[found("nqn.a", 1).expect("a disk")]);
        let reason = reason.expect("two writers");
        assert!(reason.contains("as /dev/nvme1n1 by the kernel's initiator already"), "{reason}");
        assert_eq!((found("nqn.a", 2), found("nqn.b", 1)), (None, None));
    }
}
