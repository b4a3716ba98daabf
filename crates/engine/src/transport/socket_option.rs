//! Structures that the kernel reports about a stream socket, as bytes. Their meaning is `info`'s.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Reads the socket option `name` of `level`. `value` holds the kernel's input first, and its
/// answer afterwards; returns the answer's length, which is never more than there was room for.
///
/// # Errors
/// What the kernel says: `ENOPROTOOPT` or `EOPNOTSUPP` when the socket has no such option.
#[allow(unsafe_code)]
pub(super) fn get(socket: &impl AsFd, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let room = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut length = room;
    // SAFETY: the kernel reads and writes at most `length` bytes of `value`, which is borrowed alone for the call and
    // has that many, and writes one length into `length`. Any bytes are valid bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(length.min(room) as usize) } else { Err(io::Error::last_os_error()) }
}

/// Bytes that were handed to the socket and are not acknowledged yet (SIOCOUTQ).
///
/// # Errors
/// When it is not a connected stream.
#[allow(unsafe_code)]
pub(super) fn unsent_bytes(socket: &impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int, to the place that is borrowed alone for the call, and reads nothing.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(u64::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}
