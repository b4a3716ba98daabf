//! What stands at the path of a saved namespace on this machine, and the size of its blocks. Nothing but a block
//! device is opened: a pipe would wait for its other end.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

use engine::backend::BackendConfig;
use engine::target::{BLOCK_SIZE_DEFAULT, SettingError, check_block_size};
use rustix::fs::OFlags;

/// Largest block that the kernel serves from a file, in bytes.
const FILE_BLOCK_BYTES_MAX: u64 = 4096;

/// Storage of a namespace.
#[derive(Debug, PartialEq)]
pub(super) struct Device {
    pub(super) backend: BackendConfig,
    pub(super) block_size: u32,
    /// Why it is a guess, if it is one, and what was guessed.
    pub(super) guess: Option<String>,
}

/// Looks at an absolute path. What is there and cannot be served as the kernel did is an error, which says why.
pub(super) fn look(path: &str) -> Result<Device, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return Ok(guess(path, &error)),
    };
    if metadata.file_type().is_block_device() {
        let sector = sector_bytes(path)
            .map_err(|error| format!("the block size of {path} cannot be read: {error}; import as root"))?;
        let block_size = check_block_size(u64::from(sector)).map_err(|what| format!("{path}: {what}"))?;
        Ok(Device { backend: BackendConfig::Block { path: path.into() }, block_size, guess: None })
    } else if metadata.is_file() {
        let file_system = rustix::fs::statvfs(path)
            .map_err(|error| format!("the block size of {path} cannot be read: {error}"))?;
        let block_size = file_block_size(file_system.f_bsize).map_err(|what| format!("{path}: {what}"))?;
        Ok(Device { backend: BackendConfig::File { path: path.into(), size: None }, block_size, guess: None })
    } else {
        Err(format!("{path} is neither a block device nor a regular file"))
    }
}

/// The size of a file's blocks: its file system's, as far as the kernel goes.
fn file_block_size(file_system_bytes: u64) -> Result<u32, SettingError> {
    check_block_size(file_system_bytes.min(FILE_BLOCK_BYTES_MAX))
}

/// A device's logical block size, in bytes.
fn sector_bytes(path: &str) -> io::Result<u32> {
    // Another file may have taken the path since it was looked at: without waiting, opening one does no harm, and
    // the question fails.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
    let device = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    Ok(rustix::fs::ioctl_blksszget(device)?)
}

/// Likely storage on the machine that the configuration is from. Most devices have blocks of 512
/// bytes, and most file systems of 4,096.
fn guess(path: &str, error: &io::Error) -> Device {
    let (backend, block_size, kind) = if path.starts_with("/dev/") {
        (BackendConfig::Block { path: path.into() }, 512, "block device")
    } else {
        (BackendConfig::File { path: path.into(), size: None }, BLOCK_SIZE_DEFAULT, "file")
    };
    let guess = format!(
        "{path} cannot be looked at here ({error}): taken for a {kind} with blocks of {block_size} bytes, which is to \
         be checked"
    );
    Device { backend, block_size, guess: Some(guess) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn what_is_not_here_is_guessed_and_said() {
        let device = look("/dev/no-such-device").unwrap();
        assert_eq!(device.backend, BackendConfig::Block { path: "/dev/no-such-device".into() });
        assert_eq!(device.block_size, 512);
        assert!(device.guess.unwrap().contains("block device"));
        let file = look("/no/such/disk.img").unwrap();
        assert_eq!(file.backend, BackendConfig::File { path: "/no/such/disk.img".into(), size: None });
        assert_eq!(file.block_size, 4096);
        assert!(file.guess.unwrap().contains("a file"));
    }

    #[test]
    fn a_file_has_the_blocks_of_its_file_system() {
        let blocks = [512, 4096, 65536, 1 << 20].map(|bytes| file_block_size(bytes).unwrap());
        assert_eq!(blocks, [512, 4096, 4096, 4096]);
        for bytes in [0, 1024, 2048] {
            assert!(file_block_size(bytes).unwrap_err().to_string().contains("512 and 4096"), "{bytes}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let expected = file_block_size(rustix::fs::statvfs(path).unwrap().f_bsize);
        match look(path) {
            Ok(device) => {
                assert_eq!(device.backend, BackendConfig::File { path: path.into(), size: None });
                assert_eq!((Ok(device.block_size), device.guess), (expected, None));
            }
            Err(what) => assert!(expected.is_err(), "{what}"),
        }
    }

    #[test]
    fn what_cannot_be_a_disk_is_never_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [pipe.to_str().unwrap(), folder.path().to_str().unwrap(), "/dev/null"] {
            let (sender, receiver) = mpsc::channel();
            let path = path.to_owned();
            std::thread::spawn(move || {
                // Who asked may no longer wait.
                let _ = sender.send(look(&path));
            });
            let found = receiver.recv_timeout(prerequisite::patience()).expect("it does not wait");
            assert!(found.unwrap_err().contains("neither"));
        }
    }
}
