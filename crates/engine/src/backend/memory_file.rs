//! A file in memory (memfd_create(2)) with a namespace's blocks, which the new process of an
//! upgrade can map, too. Its length is sealed: what is mapped of it stays there.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::process::{Resource, getrlimit};

/// As /proc shows it.
const NAME: &str = "selvedge-namespace";
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A sealed file in memory.
#[derive(Debug)]
pub(super) struct MemoryFile(OwnedFd);

impl MemoryFile {
    /// Creates one of `length` bytes, which takes memory only where it is written.
    ///
    /// # Errors
    /// When the system has none, or would not have it that long.
    pub(super) fn new(length: u64) -> io::Result<Self> {
        let is_too_long = getrlimit(Resource::Fsize).current.is_some_and(|most| most < length);
        // Miri knows no such files. Beyond a limit, making it longer would end the process.
        if cfg!(miri) || is_too_long || commits_strictly() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let create = |flags| memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags);
        // Linux before 6.3 does not know the flag, and some systems insist on it.
        let file = create(MemfdFlags::NOEXEC_SEAL).or_else(|_| create(MemfdFlags::empty()))?;
        ftruncate(&file, length)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok(Self(file))
    }

    /// Takes over one that another process has made.
    ///
    /// # Errors
    /// When it is none, is not sealed, or has not `length` bytes.
    pub(super) fn adopt(file: OwnedFd, length: u64) -> io::Result<Self> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        // Other files have no seals, or this one alone.
        let Ok(seals) = fcntl_get_seals(&file) else {
            return refuse("what the old process has handed over is not a file in memory".to_owned());
        };
        if !seals.contains(SEALS) {
            return refuse("the old process' file in memory is not sealed".to_owned());
        }
        let found = fstat(&file)?.st_size;
        if u64::try_from(found) != Ok(length) {
            return refuse(format!("the old process' file in memory has {found} bytes instead of {length}"));
        }
        Ok(Self(file))
    }

    /// The file, to be mapped or handed over.
    pub(super) const fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}

/// True if the system counts all memory that it has promised. It then refuses anonymous memory at
/// once when there is not enough; a file's it would refuse at the first write, which ends the
/// process.
fn commits_strictly() -> bool {
    fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"2"))
}

// Miri knows no such files.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn refusal(file: OwnedFd, length: u64) -> String {
        MemoryFile::adopt(file, length).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn it_cannot_be_cut_and_goes_to_another_process() {
        let file = MemoryFile::new(1 << 20).expect("a file");
        for length in [0, 1 << 19, 1 << 21] {
            assert!(ftruncate(file.descriptor(), length).is_err());
        }
        let copy = || file.descriptor().try_clone().expect("a descriptor");
        assert!(MemoryFile::adopt(copy(), 1 << 20).is_ok());
        assert!(refusal(copy(), 1 << 21).contains("1048576 bytes instead of 2097152"));
    }

    #[test]
    fn what_is_another_kind_of_file_or_can_be_cut_is_refused() {
        let null = fs::File::open("/dev/null").expect("a device");
        assert!(refusal(null.into(), 0).contains("not a file in memory"));
        let plain = tempfile::tempfile().expect("a file");
        let reason = refusal(plain.into(), 0);
        assert!(reason.contains("not a file in memory") || reason.contains("not sealed"), "{reason}");
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&open, 4096).expect("a length");
        assert!(refusal(open.try_clone().expect("a descriptor"), 4096).contains("not sealed"));
        fcntl_add_seals(&open, SealFlags::SHRINK).expect("a seal");
        assert!(refusal(open, 4096).contains("not sealed"));
    }
}
