//! The resets of other controllers that one controller was asked for, and their log (TP8028).

use nvme::Status;
use nvme::cross_reset::ControllerInstance;
use nvme::log_page::{CrossResetEntry, CrossResetLog, CrossResetStatus, cross_reset_flags};
use zerocopy::little_endian::U16;

use crate::limits::{CROSS_RESET_ENTRIES, CROSS_RESETS_MAX};

/// The resets that one controller was asked for.
#[derive(Debug, Default)]
pub(crate) struct CrossResets {
    log: Vec<Entry>,
    /// Controllers whose resets are answered when they are complete, and therefore have no log
    /// entry.
    held: Vec<ControllerInstance>,
}

#[derive(Debug)]
struct Entry {
    impacted: ControllerInstance,
    asked_id: u16,
    status: CrossResetStatus,
}

impl Entry {
    fn has_ended(&self) -> bool {
        self.status != CrossResetStatus::InProgress
    }
}

impl CrossResets {
    /// Records a reset that begins; one of a living controller gets an entry in the log.
    pub(crate) fn begin(
        &mut self,
        impacted: ControllerInstance,
        asked_id: u16,
        is_living: bool,
    ) -> Result<(), Status> {
        let in_progress: Vec<&ControllerInstance> = self
            .log
            .iter()
            .filter(|entry| !entry.has_ended())
            .map(|entry| &entry.impacted)
            .chain(&self.held)
            .collect();
        if in_progress.contains(&&impacted) {
            return Err(Status::CROSS_CONTROLLER_RESET_IN_PROGRESS);
        }
        if in_progress.len() >= usize::from(CROSS_RESETS_MAX) {
            return Err(Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED);
        }
        if !is_living {
            self.held.push(impacted);
            return Ok(());
        }
        if self.log.len() >= CROSS_RESET_ENTRIES {
            return Err(Status::CROSS_CONTROLLER_RESET_LOG_FULL);
        }
        self.log.push(Entry { impacted, asked_id, status: CrossResetStatus::InProgress });
        Ok(())
    }

    /// Records what has become of a reset. Returns whether the log reports it.
    pub(crate) fn end(&mut self, impacted: &ControllerInstance, status: CrossResetStatus) -> bool {
        self.held.retain(|held| held != impacted);
        let entry = self.log.iter_mut().find(|entry| !entry.has_ended() && entry.impacted == *impacted);
        entry.is_some_and(|entry| {
            entry.status = status;
            true
        })
    }

    /// A reset that was to begin does not.
    pub(crate) fn take_back(&mut self, impacted: &ControllerInstance) {
        self.log.retain(|entry| entry.has_ended() || entry.impacted != *impacted);
    }

    /// Forgets the log: its controller is reset itself.
    pub(crate) fn clear_log(&mut self) {
        self.log.clear();
    }

    /// True if no reset is recorded.
    pub(crate) fn is_quiet(&self) -> bool {
        self.log.is_empty() && self.held.is_empty()
    }

    /// The log page.
    pub(crate) fn page(&self) -> CrossResetLog {
        let entry = |entry: &Entry| CrossResetEntry {
            impacted_controller_id: U16::new(entry.impacted.controller_id),
            uniquifier: entry.impacted.uniquifier,
            reserved_3: 0,
            asked_controller_id: U16::new(entry.asked_id),
            status: entry.status as u8,
            // A request that is not valid, or not begun, gets no entry.
            flags: cross_reset_flags::VALIDATED | cross_reset_flags::INITIATED,
        };
        CrossResetLog { entries: self.log.iter().map(entry).collect() }
    }

    /// Removes the entries of resets that have ended, as far as they stand within bytes `from` to `to` of the log page
    /// `page` that the host was given.
    pub(crate) fn remove_ended(&mut self, page: &CrossResetLog, from: u64, to: u64) {
        let mut at = 0;
        self.log.retain(|entry| {
            let (start, end) = (CrossResetLog::length_bytes(at), CrossResetLog::length_bytes(at + 1));
            let shown = page.entries.get(at).and_then(CrossResetEntry::status);
            at += 1;
            // One that has ended since the page was made stays, for the host does not know it yet.
            let is_known = entry.has_ended() && shown == Some(entry.status);
            !(is_known && start as u64 >= from && end as u64 <= to)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESSFUL: CrossResetStatus = CrossResetStatus::Successful;

    fn instance(controller_id: u16) -> ControllerInstance {
        ControllerInstance { controller_id, uniquifier: 1, random_number: 7 }
    }

    #[test]
    fn so_many_are_in_progress_and_no_more() {
        let mut resets = CrossResets::default();
        for id in 0..u16::from(CROSS_RESETS_MAX) {
            assert_eq!(resets.begin(instance(id), 99, id % 2 == 0), Ok(()));
            let again = resets.begin(instance(id), 99, id % 2 != 0);
            assert_eq!(again, Err(Status::CROSS_CONTROLLER_RESET_IN_PROGRESS));
        }
        for is_living in [true, false] {
            let more = resets.begin(instance(50), 99, is_living);
            assert_eq!(more, Err(Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED));
        }
        assert!(!resets.end(&instance(1), SUCCESSFUL), "it had no entry");
        assert_eq!(resets.begin(instance(50), 99, false), Ok(()));
        assert!(resets.end(&instance(0), SUCCESSFUL) && !resets.end(&instance(0), SUCCESSFUL));
        assert_eq!(resets.begin(instance(0), 99, true), Ok(()));
    }

    #[test]
    fn a_log_that_is_never_read_becomes_full() {
        let mut resets = CrossResets::default();
        for id in 0..CROSS_RESET_ENTRIES as u16 {
            assert_eq!(resets.begin(instance(id), 99, true), Ok(()));
            assert!(resets.end(&instance(id), SUCCESSFUL));
        }
        let full = resets.begin(instance(500), 99, true);
        assert_eq!(full, Err(Status::CROSS_CONTROLLER_RESET_LOG_FULL));
        assert_eq!(resets.begin(instance(500), 99, false), Ok(()), "one that is gone needs no entry");
        let page = resets.page();
        resets.remove_ended(&page, 0, 8 + 8 * 3 + 7);
        let left: Vec<u16> = resets.page().entries.iter().map(|e| e.impacted_controller_id.get()).collect();
        assert_eq!(left, (3..CROSS_RESET_ENTRIES as u16).collect::<Vec<u16>>());
    }

    #[test]
    fn only_what_the_host_has_seen_ended_is_removed() {
        let mut resets = CrossResets::default();
        resets.begin(instance(1), 99, true).expect("room");
        resets.begin(instance(2), 99, true).expect("room");
        resets.end(&instance(1), SUCCESSFUL);
        let page = resets.page();
        resets.end(&instance(2), SUCCESSFUL);
        resets.remove_ended(&page, 0, u64::MAX);
        let left = resets.page().entries;
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].impacted_controller_id.get(), left[0].status), (2, 1));
        let page = resets.page();
        resets.remove_ended(&page, 9, u64::MAX);
        assert_eq!(resets.page().entries.len(), 1, "only a part of it was read");
    }
    #[test]
    fn what_has_failed_or_was_never_begun_may_be_asked_for_again() {
        let mut resets = CrossResets::default();
        resets.begin(instance(1), 99, true).expect("room");
        resets.take_back(&instance(1));
        assert!(resets.page().entries.is_empty());
        resets.begin(instance(1), 99, true).expect("it was taken back");
        assert!(resets.end(&instance(1), CrossResetStatus::Failed));
        resets.take_back(&instance(1));
        assert_eq!(resets.page().entries[0].status(), Some(CrossResetStatus::Failed), "it has ended");
        resets.begin(instance(1), 99, true).expect("the first has failed");
        let page = resets.page();
        resets.remove_ended(&page, 0, u64::MAX);
        let left: Vec<u8> = resets.page().entries.iter().map(|entry| entry.status).collect();
        assert_eq!(left, [CrossResetStatus::InProgress as u8]);
    }
}
