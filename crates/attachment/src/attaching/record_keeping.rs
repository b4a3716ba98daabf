//! Record of this process, written while no other process looks for writers or writes its own: of two that attach a namespace at
//! once, the first one gets it.

use std::path::Path;

use super::Attaching;
use super::other_attachment::OtherAttachment;
use super::record::{AttachMethod, KeptRecord, KnownRecord, Record, RecordedDisk};
use super::records_lock::RecordsLock;
use crate::failure::Failure;
use crate::kernel_initiator::Controllers;

impl Attaching<'_> {
    /// Looks for other attachments of these namespaces, except in the record at `own`.
    ///
    /// # Errors
    /// When one of them writes, and this process would.
    pub(super) fn check_alone(&self, disks: &mut [RecordedDisk], own: Option<&Path>) -> Result<(), Failure> {
        let records = KnownRecord::all();
        for disk in disks {
            let mut others = OtherAttachment::find(disk, &records, &self.found, own);
            others.extend(OtherAttachment::of_kernel(&Controllers::live(), self.nqn.as_str(), disk.nsid));
            disk.is_second |= !others.is_empty();
            let refusal = OtherAttachment::refusal(disk, &others);
            if let Some(reason) = refusal.filter(|_| !self.flags.allow_second_attach) {
                return Err(Failure::failed(reason));
            }
        }
        Ok(())
    }

    /// Writes the record of this process, in the place of the previous one's.
    ///
    /// # Errors
    /// When another process has attached one of the disks meanwhile.
    pub(super) fn keep(
        &self,
        method: AttachMethod,
        mut disks: Vec<RecordedDisk>,
        previous: Option<&Path>,
    ) -> Result<Option<KeptRecord>, Failure> {
        if previous.is_some() {
            return Ok(self.try_keep(method, disks, previous));
        }
        let lock = RecordsLock::take();
        if lock.is_some() {
            self.check_alone(&mut disks, None)?;
        }
        let kept = self.try_keep(method, disks.clone(), None);
        // This process may have been stopped between both, and another one has its record by now.
        let is_first = lock.as_ref().is_some_and(|lock| !lock.is_passed());
        if let (false, Some(kept)) = (is_first, &kept) {
            // Two processes that began at once find each other's record, and both end.
            self.check_alone(&mut disks, Some(&kept.content().1))?;
        }
        Ok(kept)
    }

    fn try_keep(
        &self,
        method: AttachMethod,
        disks: Vec<RecordedDisk>,
        previous: Option<&Path>,
    ) -> Option<KeptRecord> {
        let record = Record::new(self.line.clone(), method, self.nqn, disks);
        let kept = record.keep(previous);
        if let Err(reason) = &kept {
            // Sockets are created again by the next process; a device is lost without the record.
            match method {
                AttachMethod::Ublk => tracing::warn!(
                    target: "selvedge::commands::attach::record_keeping",
                    reason,
                    "cannot write the record of attached disks; if this process is killed, its devices cannot be recovered"
                ),
                _ => tracing::debug!(
                    target: "selvedge::commands::attach::record_keeping",
                    reason, "cannot write the record of attached disks"
                ),
            }
        }
        kept.ok()
    }
}
