//! From NVMe's statuses to NBD's errors.

use nbd::Errno;
use nvme::Status;

/// The error for a command that ended with this status.
pub(crate) fn errno(status: Status) -> Errno {
    match status.without_flags() {
        Status::CAPACITY_EXCEEDED => Errno::NoSpace,
        // It has become smaller since the request was checked.
        Status::LBA_OUT_OF_RANGE => Errno::NoSpace,
        Status::INVALID_FIELD | Status::INVALID_OPCODE => Errno::Invalid,
        Status::WRITE_PROTECTED | Status::RESERVATION_CONFLICT | Status::OPERATION_DENIED => {
            Errno::NotPermitted
        }
        _ => Errno::InputOutput,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_status_do_not_matter() {
        for (status, error) in [
            (Status::CAPACITY_EXCEEDED, Errno::NoSpace),
            (Status::WRITE_PROTECTED, Errno::NotPermitted),
            (Status::INTERNAL_ERROR, Errno::InputOutput),
            (Status::INVALID_FIELD, Errno::Invalid),
        ] {
            assert_eq!(errno(status), error);
            assert_eq!(errno(status.do_not_retry()), error);
        }
    }
}
