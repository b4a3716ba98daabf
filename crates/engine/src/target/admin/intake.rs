//! Admin and Fabrics commands whose data is on its way: where it is, how much there may be, and which command it is of.

use nvme::command::{DataPointer, admin_opcode};
use nvme::fabrics::fabrics_type;
use nvme::features::{FeatureId, SetFeatures};
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};

use super::namespace_admin;
use crate::limits::{ADMIN_IN_CAPSULE_LENGTH_MAX, QUEUE_OVERRUN_FACTOR};
use crate::ring::BufferPool;
use crate::target::queue::{Disconnect, Next};

/// The commands of one queue whose data is on its way.
#[derive(Debug)]
pub(crate) struct Intake {
    /// By the numbers of their slots.
    entries: Vec<Option<SubmissionEntry>>,
    /// The number of the first slot.
    first: u16,
    /// Number of commands that the host may have outstanding.
    outstanding_max: usize,
}

/// Next step for a command that has arrived.
pub(crate) enum Taken<H> {
    /// No data is expected: the command can be executed now.
    Ready,
    /// The command's data comes first.
    Awaits(Next<H>),
}

impl Intake {
    /// Of a queue with this number of entries.
    pub(crate) fn new(entries: u16) -> Self {
        Self::beginning_at(0, entries)
    }

    /// The same, with slots from this number on: those before it are of other commands of the queue.
    pub(crate) fn beginning_at(first: u16, entries: u16) -> Self {
        let outstanding_max = usize::from(entries) * QUEUE_OVERRUN_FACTOR;
        Self { entries: Vec::new(), first, outstanding_max }
    }

    /// True if this slot number belongs to the intake.
    pub(crate) const fn has_slot(&self, slot: u16) -> bool {
        slot >= self.first
    }

    /// Commands whose data is on its way.
    pub(crate) fn busy(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// True if a command with this identifier waits for its data.
    pub(crate) fn has(&self, command_id: u16) -> bool {
        self.entries.iter().flatten().any(|entry| entry.command_id.get() == command_id)
    }

    /// Takes a command, with `data_length` bytes in its capsule, beside this number of others that wait elsewhere.
    ///
    /// # Errors
    /// The status to refuse it with; or that there are more than any conforming host sends.
    pub(crate) fn take<H>(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        held: usize,
        pool: &mut BufferPool,
    ) -> Result<Result<Taken<H>, Status>, Disconnect> {
        if self.busy() + held >= self.outstanding_max {
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        }
        Ok(self.place(entry, data_length, pool))
    }

    fn place<H>(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        pool: &mut BufferPool,
    ) -> Result<Taken<H>, Status> {
        let pointer = entry.data_pointer()?;
        let takes_data = sends_data(entry);
        let command_id = entry.command_id.get();
        let wrong_length = Status::DATA_SGL_LENGTH_INVALID.do_not_retry();
        match (pointer.place_in_capsule(data_length)?, pointer) {
            (Some(_), _) if !takes_data => Err(wrong_length),
            (Some(skip), _) => {
                let buffer = pool.take(pointer.length() as usize);
                Ok(Taken::Awaits(Next::Capsule { slot: self.keep(entry), skip, buffer }))
            }
            (None, DataPointer::Transport { length }) if takes_data && length > 0 => {
                if length as usize > ADMIN_IN_CAPSULE_LENGTH_MAX {
                    return Err(wrong_length);
                }
                let buffer = pool.take(length as usize);
                let slot = self.keep(entry);
                Ok(Taken::Awaits(Next::Request { slot, command_id, buffer, place: None }))
            }
            _ => Ok(Taken::Ready),
        }
    }

    fn keep(&mut self, entry: &SubmissionEntry) -> u16 {
        let at = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        if at == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[at] = Some(*entry);
        self.first + at as u16
    }

    /// The command whose data has come.
    pub(crate) fn came(&mut self, slot: u16) -> Option<SubmissionEntry> {
        self.entries.get_mut(usize::from(slot.checked_sub(self.first)?))?.take()
    }
}

/// Checks how much data a capsule has that is not an I/O command's.
///
/// # Errors
/// When it is more than was agreed on.
pub(crate) fn check_capsule(data_length: usize) -> Result<(), Disconnect> {
    if data_length > ADMIN_IN_CAPSULE_LENGTH_MAX {
        return Err(DecodeError::new(FatalError::TransferLimitExceeded, 0).into());
    }
    Ok(())
}

/// True if the host sends data with this command.
fn sends_data(entry: &SubmissionEntry) -> bool {
    match entry.opcode {
        admin_opcode::FABRICS => {
            matches!(entry.fabrics_type(), fabrics_type::CONNECT | fabrics_type::AUTHENTICATION_SEND)
        }
        admin_opcode::SET_FEATURES => {
            let set = SetFeatures::decode(entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get());
            matches!(set.id, FeatureId::TIMESTAMP | FeatureId::HOST_BEHAVIOR | FeatureId::HOST_IDENTIFIER)
        }
        _ => namespace_admin::sends_data(entry),
    }
}
