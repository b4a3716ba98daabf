//! What the kernel holds for a block device and has not written yet.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::ioctl::{NoArg, ioctl, opcode};

/// Writes what is held for a device and its partitions (`BLKFLSBUF`), with the file systems on them.
///
/// # Errors
/// When a write fails, or the process may not ask for it.
pub(super) fn write_back(number: u32) -> io::Result<()> {
    let name = format!("ublkb{number}");
    let folder = Path::new("/sys/block").join(&name);
    let mut outcome = flush(&Path::new("/dev").join(&name));
    for entry in fs::read_dir(folder)?.flatten() {
        let partition = PathBuf::from(entry.file_name());
        if entry.file_name().to_string_lossy().starts_with(&name) {
            outcome = flush(&Path::new("/dev").join(partition)).and(outcome);
        }
    }
    outcome
}

fn flush(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: `BLKFLSBUF` is `_IO(0x12, 97)`: it takes no argument, and touches no memory of this process.
    #[allow(unsafe_code)]
    unsafe {
        ioctl(&file, NoArg::<{ opcode::none(0x12, 97) }>::new())?;
    }
    Ok(())
}
