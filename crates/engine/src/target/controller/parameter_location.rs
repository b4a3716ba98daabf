//! Location of the invalid parameter in a failed command, for the error log.

use nvme::command::io_opcode;
use nvme::log_page::ErrorLogEntry;
use nvme::{Status, SubmissionEntry};

/// Location of the parameter that a status refers to (Base 5.1.12.1.2), or
/// `ErrorLogEntry::NONE`.
pub(crate) fn parameter_location(entry: &SubmissionEntry, status: Status) -> u16 {
    /// Bytes of a submission queue entry: opcode, NSID, the data descriptor with its length and type, and dword 10.
    const OPCODE_AT: u8 = 0;
    const NSID_AT: u8 = 4;
    const DATA_AT: u8 = 24;
    const DATA_LENGTH_AT: u8 = 32;
    const DATA_KIND_AT: u8 = 39;
    const DWORD_10_AT: u8 = 40;
    // The ranges of these stand in their data.
    let has_list = matches!(entry.opcode, io_opcode::DATASET_MANAGEMENT | io_opcode::COPY);
    match status.without_flags() {
        Status::INVALID_OPCODE => ErrorLogEntry::parameter(OPCODE_AT, 0),
        Status::INVALID_NAMESPACE => ErrorLogEntry::parameter(NSID_AT, 0),
        Status::SGL_OFFSET_INVALID => ErrorLogEntry::parameter(DATA_AT, 0),
        Status::DATA_SGL_LENGTH_INVALID => ErrorLogEntry::parameter(DATA_LENGTH_AT, 0),
        Status::SGL_TYPE_INVALID => ErrorLogEntry::parameter(DATA_KIND_AT, 4),
        Status::LBA_OUT_OF_RANGE if !has_list => ErrorLogEntry::parameter(DWORD_10_AT, 0),
        Status::INVALID_LOG_PAGE => ErrorLogEntry::parameter(DWORD_10_AT, 0),
        _ => ErrorLogEntry::NONE,
    }
}
