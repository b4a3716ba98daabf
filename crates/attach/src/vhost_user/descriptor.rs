//! Descriptors that a front end hands over: whether they are what it says.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// An eventfd whose writes do not wait. Anything else could be a pipe or a file on which a thread would.
pub(super) fn event(file: File) -> io::Result<OwnedFd> {
    let target = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if target.as_os_str() != "anon_inode:[eventfd]" {
        return Err(io::Error::other("a descriptor for notifications is not an eventfd"));
    }
    let flags = fcntl_getfl(&file)?;
    if !flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags | OFlags::NONBLOCK)?;
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn only_an_eventfd_is_one_and_does_not_wait() {
        let full = File::from(eventfd(0, EventfdFlags::empty()).unwrap());
        let full = event(full).unwrap();
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        assert_eq!(rustix::io::write(&full, &1u64.to_ne_bytes()), Err(rustix::io::Errno::AGAIN));
        let (_, pipe) = std::io::pipe().unwrap();
        assert!(event(File::from(OwnedFd::from(pipe))).is_err());
        assert!(event(tempfile::tempfile().unwrap()).is_err());
    }
}
