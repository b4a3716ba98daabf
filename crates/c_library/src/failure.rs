//! Failures as C programs see them: a negative errno value, and a text of the last one on each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::initiator::InitiatorError;
use nvme::Status;

thread_local! {
    /// Text of the last failure on this thread.
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Positive number of errno.h.
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// Fault of the caller.
    pub(crate) fn misuse(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }
}

impl From<InitiatorError> for Failure {
    fn from(error: InitiatorError) -> Self {
        Self::new(errno(&error), error.to_string())
    }
}

/// The number of an error. Where the world refused, it is the world's.
pub(crate) fn errno(error: &InitiatorError) -> c_int {
    let system = |error: &io::Error, otherwise| error.raw_os_error().unwrap_or(otherwise);
    match error {
        InitiatorError::Connect { error, .. } => system(error, libc::ECONNREFUSED),
        InitiatorError::Broken { error, .. } => system(error, libc::ECONNRESET),
        InitiatorError::System { error, .. } => system(error, libc::EIO),
        InitiatorError::TimedOut { .. } => libc::ETIMEDOUT,
        InitiatorError::Refused { status, .. } => refusal(*status),
        InitiatorError::AuthenticationRequired { .. }
        | InitiatorError::AuthenticationFailed { .. }
        | InitiatorError::NotAuthenticated { .. }
        | InitiatorError::TlsFailed { .. } => libc::EACCES,
        InitiatorError::CommandFailed { status, .. } => status_errno(*status),
        InitiatorError::NoNamespace { .. } | InitiatorError::NotFound { .. } => libc::ENOENT,
        InitiatorError::ApiMisuse(_) => libc::EINVAL,
        InitiatorError::NoHandshake { reason } => errno(reason),
        InitiatorError::Closed { .. }
        | InitiatorError::GivenUp { .. }
        | InitiatorError::Terminated { .. }
        | InitiatorError::ControllerFatal { .. } => libc::ECONNRESET,
        InitiatorError::Disconnected { .. } => libc::ENOTCONN,
        InitiatorError::Protocol { .. }
        | InitiatorError::PeerMisbehaved { .. }
        | InitiatorError::ChannelBroken { .. }
        | InitiatorError::BadAnswer { .. } => libc::EPROTO,
        _ => libc::EIO,
    }
}

fn refusal(status: Status) -> c_int {
    match status.without_flags() {
        Status::CONNECT_INVALID_HOST => libc::EACCES,
        Status::CONNECT_INVALID_PARAMETERS => libc::ENOENT,
        Status::CONNECT_CONTROLLER_BUSY => libc::EBUSY,
        _ => libc::ECONNREFUSED,
    }
}

/// The number for a command's status: the one that the Linux block layer reports, so that programs see the same on either.
fn status_errno(status: Status) -> c_int {
    match status.without_flags() {
        Status::CAPACITY_EXCEEDED => libc::ENOSPC,
        Status::INVALID_FIELD | Status::INVALID_OPCODE | Status::INVALID_NAMESPACE => libc::EOPNOTSUPP,
        Status::LBA_OUT_OF_RANGE => libc::EREMOTEIO,
        Status::RESERVATION_CONFLICT => libc::EBADE,
        Status::WRITE_FAULT | Status::UNRECOVERED_READ_ERROR | Status::ACCESS_DENIED => libc::ENODATA,
        Status::GUARD_CHECK_ERROR => libc::EILSEQ,
        _ => libc::EIO,
    }
}

/// Runs a call, and gives its value or a negative errno. A panic ends here: unwinding into C is undefined.
pub(crate) fn guard(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let failure = match outcome {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(libc::ENOTRECOVERABLE, "internal error in libselvedge; close the handle"),
    };
    let errno = failure.errno;
    remember(failure);
    -errno
}

/// Keeps the text for `last`.
pub(crate) fn remember(failure: Failure) {
    let mut bytes = failure.text.into_bytes();
    bytes.retain(|byte| *byte != 0);
    let text = CString::new(bytes).unwrap_or_default();
    // A thread that is ending has no place for it.
    let _ = LAST.try_with(|last| last.replace(Some(text)));
}

/// The text of the last failure on this thread; empty before the first. It is valid until the next failure.
pub(crate) fn last() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_deref().map(CStr::as_ptr));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_status_has_the_number_of_the_block_layer_with_and_without_flags() {
        for (status, errno) in [
            (Status::CAPACITY_EXCEEDED, libc::ENOSPC),
            (Status::RESERVATION_CONFLICT, libc::EBADE),
            (Status::INVALID_OPCODE, libc::EOPNOTSUPP),
            (Status::WRITE_PROTECTED, libc::EIO),
        ] {
            assert_eq!(status_errno(status), errno);
            assert_eq!(status_errno(status.do_not_retry()), errno);
        }
    }

    #[test]
    fn the_number_of_the_system_is_passed_on() {
        let address = ([127, 0, 0, 1], 1).into();
        let refused = Arc::new(io::Error::from_raw_os_error(libc::EHOSTUNREACH));
        let error = InitiatorError::Connect { address, error: refused };
        assert_eq!(errno(&error), libc::EHOSTUNREACH);
        assert_eq!(errno(&InitiatorError::NoHandshake { reason: Box::new(error) }), libc::EHOSTUNREACH);
    }

    #[test]
    fn a_panic_is_a_failure_with_a_text() {
        assert_eq!(guard(|| panic!("a fault of the library")), -libc::ENOTRECOVERABLE);
        assert_eq!(guard(|| Err(Failure::misuse("offset\0 7"))), -libc::EINVAL);
        LAST.with(|last| assert_eq!(last.borrow().as_deref(), Some(c"offset 7")));
        assert_eq!(guard(|| Ok(3)), 3);
        LAST.with(|last| assert_eq!(last.borrow().as_deref(), Some(c"offset 7"), "a success leaves it"));
    }
}
