//! From NVMe's statuses to the errors that the block layer knows: the same that the kernel's own NVMe driver reports, so that
//! file systems and multipathing above see what they are used to.

use nvme::Status;
use rustix::io::Errno;

/// The error for a command that ended with this status.
pub(super) fn errno(status: Status) -> Errno {
    match status.without_flags() {
        Status::CAPACITY_EXCEEDED => Errno::NOSPC,
        Status::INVALID_FIELD | Status::INVALID_OPCODE | Status::INVALID_NAMESPACE => Errno::OPNOTSUPP,
        Status::LBA_OUT_OF_RANGE => Errno::REMOTEIO,
        Status::RESERVATION_CONFLICT => Errno::BADE,
        Status::WRITE_FAULT | Status::UNRECOVERED_READ_ERROR | Status::ACCESS_DENIED => Errno::NODATA,
        Status::GUARD_CHECK_ERROR => Errno::ILSEQ,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_status_do_not_matter() {
        for (status, error) in [
            (Status::CAPACITY_EXCEEDED, Errno::NOSPC),
            (Status::RESERVATION_CONFLICT, Errno::BADE),
            (Status::INVALID_OPCODE, Errno::OPNOTSUPP),
            (Status::WRITE_PROTECTED, Errno::IO),
        ] {
            assert_eq!(errno(status), error);
            assert_eq!(errno(status.do_not_retry()), error);
        }
    }
}
