//! Attachment of a namespace by another living process of this machine, as records show it, or by the kernel's initiator. Two
//! writers that do not know of each other destroy a file system: each caches what the other changes.

use std::path::Path;

use super::record::{KnownRecord, RecordedDisk};
use crate::kernel_initiator::Controllers;

/// Attachment of a namespace by another process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OtherAttachment {
    place: String,
    /// Process, or the kernel.
    user: String,
    is_read_only: bool,
}

impl OtherAttachment {
    /// Finds other attachments of the same namespace in the records of living processes, except in
    /// the record at `own`.
    pub(super) fn find(disk: &RecordedDisk, records: &[KnownRecord], own: Option<&Path>) -> Vec<Self> {
        let others = records.iter().filter(|known| known.is_alive() && Some(known.path.as_path()) != own);
        let disks = others.flat_map(|known| {
            let pid = known.record.process.pid;
            known.record.disks.iter().map(move |other| (pid, other))
        });
        let same = disks.filter(|(_, other)| other.namespace == disk.namespace);
        same.map(|(pid, other)| Self::of(other, pid)).collect()
    }

    /// Finds the disk of the kernel's initiator, which may write.
    pub(super) fn of_kernel(controllers: &Controllers, nqn: &str, nsid: u32) -> Option<Self> {
        let own = controllers.all().into_iter().filter(|controller| controller.nqn == nqn);
        let disk = own.flat_map(|own| controllers.disks(&own.name)).find(|disk| disk.nsid == nsid)?;
        let (place, user) = (disk.device.display().to_string(), "the kernel's initiator".to_owned());
        Some(Self { place, user, is_read_only: false })
    }

    /// Reason why a disk must not be attached for writing beside these, if one of them writes.
    pub(super) fn refusal(disk: &RecordedDisk, others: &[Self]) -> Option<String> {
        let writer = others.iter().find(|other| !other.is_read_only).filter(|_| !disk.read_only)?;
        Some(format!(
            "namespace {}: {}; two disks with one content destroy each other's file systems: use that one, detach it, or attach \
             with --read-only (--allow-second-attach is for programs that share a disk)",
            disk.nsid,
            writer.words()
        ))
    }

    /// Reason why the kernel must not connect to a subsystem, if a namespace of it is attached for writing.
    pub(super) fn writer_of(nqn: &str, records: &[KnownRecord]) -> Option<String> {
        let mut living = records.iter().filter(|known| known.is_alive() && known.record.nqn == nqn);
        living.find_map(|known| {
            let disk = known.record.disks.iter().find(|disk| !disk.read_only)?;
            let writer = Self::of(disk, known.record.process.pid);
            Some(format!(
                "namespace {}: {}; two disks with one content destroy each other's file systems: detach it first \
                 (--allow-second-attach is for programs that share a disk)",
                disk.nsid,
                writer.words()
            ))
        })
    }

    fn of(disk: &RecordedDisk, pid: u32) -> Self {
        Self { place: disk.place(), user: format!("process {pid}"), is_read_only: disk.read_only }
    }

    /// Place and process, in words.
    fn words(&self) -> String {
        format!("attached for writing as {} by {} already", self.place, self.user)
    }
}

#[cfg(test)]
mod tests {
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
            let others = OtherAttachment::find(disk, &[known], own.map(Path::new));
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
        let writer = |known: KnownRecord, nqn| OtherAttachment::writer_of(nqn, &[known]);
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
