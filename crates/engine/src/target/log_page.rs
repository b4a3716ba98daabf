//! Get Log Page of an I/O controller: errors, health with true counters, firmware, supported commands and features.
//! The discovery log is in `discovery`.

use nvme::command::{admin_opcode, io_opcode};
use nvme::log_page::{
    ChangedNamespaceList, CommandsSupported, ErrorLogEntry, FirmwareSlotLog, LogPageId, LogPageRequest,
    SmartLog, SupportedLogPages, command_effects, log_page_support,
};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U128};

use super::admin::Answer;
use super::controller::Controller;
use super::identify::FIRMWARE;
use crate::limits::{BUFFER_LENGTH_MAX, ERROR_LOG_ENTRIES};

/// The log pages an I/O controller has.
const PAGES: [LogPageId; 6] = [
    LogPageId::SUPPORTED_LOG_PAGES,
    LogPageId::ERROR_INFORMATION,
    LogPageId::SMART,
    LogPageId::FIRMWARE_SLOT,
    LogPageId::CHANGED_NAMESPACES,
    LogPageId::COMMANDS_SUPPORTED,
];

/// Bytes that one data unit of the health log counts.
const DATA_UNIT_BYTES: u64 = 512 * 1000;

/// Answers a Get Log Page command.
pub(super) fn answer(entry: &SubmissionEntry, controller: &Controller) -> Answer {
    let request = decode(entry);
    let page = match request.id {
        LogPageId::SUPPORTED_LOG_PAGES => {
            let mut pages = SupportedLogPages::default();
            for id in PAGES {
                pages.set(id, log_page_support::SUPPORTED, 0);
            }
            pages.as_bytes().to_vec()
        }
        LogPageId::ERROR_INFORMATION => {
            let mut entries = controller.state().errors().to_vec();
            // Entries that hold no error have a count of zero.
            entries.resize_with(ERROR_LOG_ENTRIES, ErrorLogEntry::default);
            entries.as_bytes().to_vec()
        }
        LogPageId::SMART => smart(controller).as_bytes().to_vec(),
        LogPageId::FIRMWARE_SLOT => {
            let mut log = FirmwareSlotLog::default();
            log.active = 1;
            nvme::identify::set_ascii(&mut log.revisions[0], FIRMWARE);
            log.as_bytes().to_vec()
        }
        // Namespaces are what they were when the target started.
        LogPageId::CHANGED_NAMESPACES => ChangedNamespaceList::new([]).as_bytes().to_vec(),
        LogPageId::COMMANDS_SUPPORTED => commands().as_bytes().to_vec(),
        _ => return Status::INVALID_LOG_PAGE.do_not_retry().into(),
    };
    cut(&page, &request)
}

/// The request in an entry.
pub(super) fn decode(entry: &SubmissionEntry) -> LogPageRequest {
    LogPageRequest::decode(
        entry.cdw10.get(),
        entry.cdw11.get(),
        entry.cdw12.get(),
        entry.cdw13.get(),
        entry.cdw14.get(),
    )
}

/// The part of `page` that was asked for, with zeroes past its end.
pub(super) fn cut(page: &[u8], request: &LogPageRequest) -> Answer {
    let length = request.length_bytes();
    let offset = usize::try_from(request.offset).unwrap_or(usize::MAX);
    if request.offset_is_index || offset > page.len() || !offset.is_multiple_of(4) {
        return Status::INVALID_FIELD.do_not_retry().into();
    }
    if length > BUFFER_LENGTH_MAX as u64 {
        return Status::INVALID_FIELD.do_not_retry().into();
    }
    let mut bytes = page[offset..].to_vec();
    bytes.resize(length as usize, 0);
    Answer::Data(bytes)
}

/// Health of the subsystem: its counters are true, and what a program cannot know (temperature, wear) is zero.
fn smart(controller: &Controller) -> SmartLog {
    let counts = controller.subsystem.counts();
    let units = |bytes: u64| U128::new(u128::from(bytes.div_ceil(DATA_UNIT_BYTES)));
    let mut log = SmartLog::default();
    log.available_spare = 100;
    log.data_units_read = units(counts.read_bytes);
    log.data_units_written = units(counts.write_bytes);
    log.host_read_commands = U128::new(u128::from(counts.read_commands));
    log.host_write_commands = U128::new(u128::from(counts.write_commands));
    log.power_cycles = U128::new(1);
    log.power_on_hours = U128::new(u128::from(controller.subsystem.started.elapsed().as_secs() / 3600));
    log.media_errors = U128::new(u128::from(counts.media_errors));
    log.error_log_entries = U128::new(u128::from(controller.state().error_count()));
    log
}

fn commands() -> CommandsSupported {
    let mut log = CommandsSupported::default();
    let supported = command_effects::SUPPORTED;
    for opcode in [
        admin_opcode::GET_LOG_PAGE,
        admin_opcode::IDENTIFY,
        admin_opcode::ABORT,
        admin_opcode::SET_FEATURES,
        admin_opcode::GET_FEATURES,
        admin_opcode::ASYNC_EVENT_REQUEST,
        admin_opcode::KEEP_ALIVE,
    ] {
        log.admin[usize::from(opcode)] = U32::new(supported);
    }
    for opcode in [io_opcode::FLUSH, io_opcode::READ, io_opcode::COMPARE] {
        log.io[usize::from(opcode)] = U32::new(supported);
    }
    for opcode in [io_opcode::WRITE, io_opcode::WRITE_ZEROES, io_opcode::DATASET_MANAGEMENT] {
        log.io[usize::from(opcode)] = U32::new(supported | command_effects::CONTENT_CHANGE);
    }
    log
}
