//! Expected content of a job's slots: number of writes, the last acknowledged one and the last
//! flushed one. The ledger decides which commands may be outstanding together, and does no I/O.

use super::stamp::Expected;

/// State of one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Writes that were submitted.
    submitted: u32,
    /// The newest write that was acknowledged.
    acknowledged: u32,
    /// The newest write that was acknowledged before a Flush which has completed.
    flushed: u32,
    /// Reads outstanding, or `WRITING`.
    busy: u32,
}

const WRITING: u32 = u32::MAX;

/// A slot and one of its generations.
pub(crate) type Written = (u64, u64);

/// The accounts of one job's slots.
#[derive(Debug)]
pub(crate) struct Ledger {
    accounts: Vec<Account>,
    writer: u64,
    /// Writes acknowledged since the last Flush was submitted.
    unflushed: Vec<Written>,
    /// Writes that the Flush in flight covers.
    flushing: Vec<Written>,
    /// True if the accounts come from the record of a run that a crash may have ended.
    after_crash: bool,
    /// True if the newest possible generation is known.
    bounded: bool,
}

impl Ledger {
    /// Returns a ledger for `slots` unwritten slots.
    pub(crate) fn new(slots: u64, writer: u64) -> Self {
        Self {
            accounts: vec![Account::default(); slots as usize],
            writer,
            unflushed: Vec::new(),
            flushing: Vec::new(),
            after_crash: false,
            bounded: true,
        }
    }

    /// The ledger of an earlier run, from its record: for each slot what was flushed and what was submitted.
    /// `bounded` says whether the latter is known.
    pub(crate) fn recorded(slots: u64, writer: u64, bounded: bool) -> Self {
        Self { after_crash: true, bounded, ..Self::new(slots, writer) }
    }

    /// Adds to a recorded slot.
    pub(crate) fn record(&mut self, slot: u64, flushed: u64, submitted: u64) {
        let account = &mut self.accounts[slot as usize];
        account.flushed = account.flushed.max(flushed as u32);
        account.submitted = account.submitted.max(submitted as u32).max(account.flushed);
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> u64 {
        self.accounts.len() as u64
    }

    /// True if `slot` was ever written.
    pub(crate) fn is_written(&self, slot: u64) -> bool {
        self.accounts[slot as usize].submitted > 0
    }

    /// Begins a read of `slot`, and says what it must find; `None` while a write is under way.
    pub(crate) fn begin_read(&mut self, slot: u64) -> Option<Expected> {
        let account = &mut self.accounts[slot as usize];
        if account.busy == WRITING {
            return None;
        }
        account.busy += 1;
        let writer = self.writer;
        Some(match account {
            _ if self.after_crash => Expected::Between {
                min: u64::from(account.flushed),
                max: self.bounded.then_some(u64::from(account.submitted)),
                writer,
            },
            Account { acknowledged: 0, .. } => Expected::Anything,
            _ => Expected::Exactly { generation: u64::from(account.acknowledged), writer },
        })
    }

    /// Ends a read.
    pub(crate) fn end_read(&mut self, slot: u64) {
        let account = &mut self.accounts[slot as usize];
        debug_assert!(account.busy != WRITING && account.busy > 0, "no read was begun");
        account.busy -= 1;
    }

    /// Begins a write of `slot`, and says its generation; `None` while anything else is under way there.
    pub(crate) fn begin_write(&mut self, slot: u64) -> Option<u64> {
        let account = &mut self.accounts[slot as usize];
        if account.busy != 0 {
            return None;
        }
        account.busy = WRITING;
        account.submitted += 1;
        Some(u64::from(account.submitted))
    }

    /// Ends a write that was acknowledged.
    pub(crate) fn end_write(&mut self, slot: u64, keep_for_flush: bool) {
        let account = &mut self.accounts[slot as usize];
        debug_assert_eq!(account.busy, WRITING, "no write was begun");
        account.busy = 0;
        account.acknowledged = account.submitted;
        if keep_for_flush {
            self.unflushed.push((slot, u64::from(account.acknowledged)));
        }
    }

    /// True if a Flush would make a write durable.
    pub(crate) fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    /// Begins a Flush: it covers what is acknowledged by now.
    pub(crate) fn begin_flush(&mut self) {
        debug_assert!(self.flushing.is_empty(), "one Flush at a time");
        std::mem::swap(&mut self.unflushed, &mut self.flushing);
    }

    /// Ends a Flush that was acknowledged, and hands what it made durable to `record`.
    pub(crate) fn end_flush<E>(&mut self, record: impl FnOnce(&[Written]) -> Result<(), E>) -> Result<(), E> {
        for &(slot, generation) in &self.flushing {
            let account = &mut self.accounts[slot as usize];
            account.flushed = account.flushed.max(generation as u32);
        }
        let recorded = record(&self.flushing);
        self.flushing.clear();
        recorded
    }

    /// The newest submitted generation of every slot that was written.
    pub(crate) fn submitted(&self) -> impl Iterator<Item = Written> + '_ {
        let accounts = self.accounts.iter().enumerate();
        accounts
            .filter(|(_, account)| account.submitted > 0)
            .map(|(slot, account)| (slot as u64, u64::from(account.submitted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_out_beside_a_write_of_the_same_slot() {
        let mut ledger = Ledger::new(2, 9);
        assert_eq!(ledger.begin_write(0), Some(1));
        assert_eq!(ledger.begin_write(0), None);
        assert_eq!(ledger.begin_read(0), None);
        assert_eq!(ledger.begin_write(1), Some(1));
        ledger.end_write(0, false);
        assert_eq!(ledger.begin_read(0), Some(Expected::Exactly { generation: 1, writer: 9 }));
        assert!(ledger.begin_read(0).is_some());
        assert_eq!(ledger.begin_write(0), None);
        ledger.end_read(0);
        ledger.end_read(0);
        assert_eq!(ledger.begin_write(0), Some(2));
    }

    #[test]
    fn an_unwritten_slot_may_have_any_content() {
        let mut ledger = Ledger::new(1, 9);
        assert_eq!(ledger.begin_read(0), Some(Expected::Anything));
        assert!(!ledger.is_written(0));
    }

    #[test]
    fn a_flush_covers_what_was_acknowledged_before_it() {
        let mut ledger = Ledger::new(3, 9);
        for slot in 0..3 {
            ledger.begin_write(slot);
        }
        ledger.end_write(0, true);
        ledger.begin_flush();
        ledger.end_write(1, true);
        let mut covered = Vec::new();
        ledger
            .end_flush(|written| -> Result<(), ()> {
                covered.extend_from_slice(written);
                Ok(())
            })
            .unwrap();
        assert_eq!(covered, [(0, 1)]);
        assert!(ledger.has_unflushed());
        assert_eq!(ledger.submitted().collect::<Vec<_>>(), [(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn a_record_bounds_what_may_be_found() {
        let mut ledger = Ledger::recorded(2, 9, true);
        ledger.record(0, 3, 0);
        ledger.record(0, 2, 5);
        assert_eq!(ledger.begin_read(0), Some(Expected::Between { min: 3, max: Some(5), writer: 9 }));
        let mut ledger = Ledger::recorded(1, 9, false);
        ledger.record(0, 3, 0);
        assert_eq!(ledger.begin_read(0), Some(Expected::Between { min: 3, max: None, writer: 9 }));
    }
}
