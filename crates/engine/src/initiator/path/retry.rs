//! Retries of commands that did not end well: whether one may be sent again, and when. It knows
//! statuses and opcodes, and nothing of paths.

use nvme::Status;
use nvme::command::io_opcode;

/// Times a command is sent again because of a passing error, as with Linux.
pub(super) const PASSING_MAX: u8 = 5;

/// Treatment of a command that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The command is over, well or not.
    Deliver,
    /// This path cannot do it now: another one, or this one later.
    Elsewhere,
    /// The same again after a moment.
    Again,
}

/// Treatment of a command that the controller answered with `status`. An answer means that the
/// command is over, and nothing of it can take effect later.
pub(super) fn verdict(status: Status) -> Verdict {
    if status.is_success() || status.is_do_not_retry() {
        return Verdict::Deliver;
    }
    match status.without_flags() {
        Status::ANA_INACCESSIBLE
        | Status::ANA_PERSISTENT_LOSS
        | Status::ANA_TRANSITION
        | Status::INTERNAL_PATH_ERROR
        | Status::CONTROLLER_PATH_ERROR
        | Status::HOST_PATH_ERROR
        | Status::HOST_ABORTED
        | Status::ABORTED_QUEUE_DELETED => Verdict::Elsewhere,
        Status::COMMAND_INTERRUPTED | Status::TRANSIENT_TRANSPORT_ERROR | Status::NAMESPACE_NOT_READY => {
            Verdict::Again
        }
        _ => Verdict::Deliver,
    }
}

/// True if `status` says that the namespace cannot be reached through that controller at present.
pub(super) fn is_about_access(status: Status) -> bool {
    matches!(
        status.without_flags(),
        Status::ANA_INACCESSIBLE | Status::ANA_PERSISTENT_LOSS | Status::ANA_TRANSITION
    )
}

/// True if a command whose answer was lost may be sent again while the first one may still be at
/// work: it changes nothing, or nothing that the second does not do as well.
pub(super) const fn is_harmless_twice(opcode: u8) -> bool {
    matches!(opcode, io_opcode::READ | io_opcode::COMPARE | io_opcode::FLUSH | io_opcode::VERIFY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_about_paths_are_tried_elsewhere() {
        assert_eq!(verdict(Status::SUCCESS), Verdict::Deliver);
        assert_eq!(verdict(Status::ANA_INACCESSIBLE), Verdict::Elsewhere);
        assert_eq!(verdict(Status::ANA_INACCESSIBLE.do_not_retry()), Verdict::Deliver);
        assert_eq!(verdict(Status::NAMESPACE_NOT_READY), Verdict::Again);
        assert_eq!(verdict(Status::RESERVATION_CONFLICT), Verdict::Deliver);
        assert_eq!(verdict(Status::WRITE_FAULT), Verdict::Deliver);
        assert!(is_about_access(Status::ANA_TRANSITION) && !is_about_access(Status::HOST_PATH_ERROR));
    }

    #[test]
    fn what_writes_waits() {
        assert!(is_harmless_twice(io_opcode::READ));
        for opcode in
            [io_opcode::WRITE, io_opcode::WRITE_ZEROES, io_opcode::DATASET_MANAGEMENT, io_opcode::COPY]
        {
            assert!(!is_harmless_twice(opcode));
        }
    }
}
