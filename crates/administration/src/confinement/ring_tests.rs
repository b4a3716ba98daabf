//! Operations of io_uring in a confined thread: the filter of system calls does not see them, and Landlock and capabilities apply.

use std::ffi::CString;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use prerequisite::missing;
use rustix::io::Errno;

use super::{Extent, Needs, capabilities, landlock};

/// Error of an operation that gives a descriptor, which is closed again.
///
/// The memory that the entry names has to outlive this call.
#[allow(unsafe_code)]
fn error_of(ring: &mut IoUring, entry: &Entry) -> Option<Errno> {
    // SAFETY: the caller keeps what the entry names until this returns, which is after the completion.
    unsafe { ring.submission().push(entry) }.unwrap();
    ring.submit_and_wait(1).unwrap();
    let result = ring.completion().next().unwrap().result();
    if result < 0 {
        return Some(Errno::from_raw_os_error(-result));
    }
    // SAFETY: the operation has made the descriptor, and nothing else has it.
    drop(unsafe { OwnedFd::from_raw_fd(result) });
    None
}

/// Error of an attempt to open a file for reading and writing.
fn opened(ring: &mut IoUring, path: &Path) -> Option<Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr()).flags(libc::O_RDWR);
    error_of(ring, &open.build())
}

#[test]
fn a_ring_opens_no_file_that_landlock_refuses() {
    let Ok(mut before) = IoUring::new(2) else { return missing("io_uring") };
    let folder = tempfile::tempdir().unwrap();
    let files = ["listed", "outside"].map(|name| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("disk"), "").unwrap();
        path.join("disk")
    });
    for file in &files {
        assert_eq!(opened(&mut before, file), None, "{}", file.display());
    }
    let paths = vec![folder.path().join("listed")];
    let needs = Needs { extent: Extent::Listed, paths, ..Needs::default() };
    // This thread alone: the others run other tests.
    let tried = std::thread::spawn(move || {
        landlock::restrict(&needs)?;
        let mut after = IoUring::new(2).map_err(|error| error.to_string())?;
        Ok::<_, String>(files.map(|file| [opened(&mut before, &file), opened(&mut after, &file)]))
    });
    match tried.join().unwrap() {
        Ok(errors) => assert_eq!(errors, [[None, None], [Some(Errno::ACCESS), Some(Errno::ACCESS)]]),
        Err(reason) => missing(format!("Landlock: {reason}")),
    }
}

#[test]
fn a_ring_has_no_capability_that_its_process_has_given_up() {
    let Ok(mut before) = IoUring::new(2) else { return missing("io_uring") };
    // A socket for raw packets, which takes CAP_NET_RAW.
    let socket = opcode::Socket::new(libc::AF_PACKET, libc::SOCK_RAW, 0).build();
    if let Some(error) = error_of(&mut before, &socket) {
        return missing(format!("root, and sockets that are made by a ring: {error}"));
    }
    let tried = std::thread::spawn(move || {
        capabilities::reduce(&Needs::default()).unwrap();
        // A kernel may have rings made with CAP_SYS_ADMIN alone (io_uring_disabled).
        let after = IoUring::new(2).ok().map(|mut after| error_of(&mut after, &socket));
        [error_of(&mut before, &socket), after.unwrap_or(Some(Errno::PERM))]
    });
    assert_eq!(tried.join().unwrap(), [Some(Errno::PERM); 2]);
}
