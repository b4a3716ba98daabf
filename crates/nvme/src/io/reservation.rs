//! The command dwords of the four reservation commands. What the commands mean, and their data, is in
//! [`crate::reservation`].

use super::{INVALID_FIELD, IoCommand, flag};
use crate::command::io_opcode;
use crate::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReleaseAction, ReservationType};
use crate::{Status, SubmissionEntry};

const ACTION_MASK: u8 = 0b111;
const IGNORE_EXISTING_KEY: u32 = 1 << 3;
const TYPE_SHIFT: u32 = 8;
const PERSISTENCE_SHIFT: u32 = 30;
const EXTENDED_DATA: u32 = 1 << 0;

/// Decodes a reservation command.
///
/// # Errors
/// The status for any other opcode, and for reserved values.
pub(super) fn decode(entry: &SubmissionEntry) -> Result<IoCommand, Status> {
    let cdw10 = entry.cdw10.get();
    let action = cdw10 as u8 & ACTION_MASK;
    let ignore_existing_key = cdw10 & IGNORE_EXISTING_KEY != 0;
    let kind = ReservationType::from_wire((cdw10 >> TYPE_SHIFT) as u8);
    match entry.opcode {
        io_opcode::RESERVATION_REGISTER => {
            let action = RegisterAction::from_wire(action).ok_or(INVALID_FIELD)?;
            let change = (cdw10 >> PERSISTENCE_SHIFT) as u8;
            let persistence = PersistenceChange::from_wire(change).ok_or(INVALID_FIELD)?;
            Ok(IoCommand::ReservationRegister { action, ignore_existing_key, persistence })
        }
        io_opcode::RESERVATION_ACQUIRE => {
            let action = AcquireAction::from_wire(action).ok_or(INVALID_FIELD)?;
            let kind = kind.ok_or(INVALID_FIELD)?;
            Ok(IoCommand::ReservationAcquire { action, ignore_existing_key, kind })
        }
        io_opcode::RESERVATION_RELEASE => {
            let action = ReleaseAction::from_wire(action).ok_or(INVALID_FIELD)?;
            let kind = match action {
                ReleaseAction::Release => Some(kind.ok_or(INVALID_FIELD)?),
                ReleaseAction::Clear => None,
            };
            Ok(IoCommand::ReservationRelease { action, ignore_existing_key, kind })
        }
        io_opcode::RESERVATION_REPORT => {
            // 2^32 dwords do not fit the count, but neither do they fit what a descriptor can say: one less
            // is as much too much.
            let dwords = cdw10.saturating_add(1);
            let extended = entry.cdw11.get() & EXTENDED_DATA != 0;
            Ok(IoCommand::ReservationReport { dwords, extended })
        }
        _ => Err(Status::INVALID_OPCODE.do_not_retry()),
    }
}

/// The opcode of a reservation command, and its command dwords 10 and 11 as one number.
///
/// # Panics
/// When a report asks for 0 dwords, a reservation is to be released without its type, or the command has
/// nothing to do with reservations.
pub(super) fn encode(command: &IoCommand) -> (u8, u64) {
    let key = |ignore_existing_key| flag(ignore_existing_key, IGNORE_EXISTING_KEY);
    match *command {
        IoCommand::ReservationRegister { action, ignore_existing_key, persistence } => {
            let cdw10 = action as u32 | key(ignore_existing_key) | (persistence as u32) << PERSISTENCE_SHIFT;
            (io_opcode::RESERVATION_REGISTER, u64::from(cdw10))
        }
        IoCommand::ReservationAcquire { action, ignore_existing_key, kind } => {
            let cdw10 = action as u32 | key(ignore_existing_key) | (kind as u32) << TYPE_SHIFT;
            (io_opcode::RESERVATION_ACQUIRE, u64::from(cdw10))
        }
        IoCommand::ReservationRelease { action, ignore_existing_key, kind } => {
            assert!(kind.is_some() || action == ReleaseAction::Clear, "a release names the type");
            let kind = kind.map_or(0, |kind| kind as u32);
            let cdw10 = action as u32 | key(ignore_existing_key) | kind << TYPE_SHIFT;
            (io_opcode::RESERVATION_RELEASE, u64::from(cdw10))
        }
        IoCommand::ReservationReport { dwords, extended } => {
            assert!(dwords > 0, "a report has at least 1 dword");
            let cdw11 = u64::from(flag(extended, EXTENDED_DATA));
            (io_opcode::RESERVATION_REPORT, u64::from(dwords - 1) | cdw11 << 32)
        }
        _ => unreachable!("the caller passes reservation commands only"),
    }
}
