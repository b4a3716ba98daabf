//! The kernel's log, record by record (Documentation/ABI/testing/dev-kmsg). What its lines mean is its readers' to know.

use std::fs::File;
use std::io::{self, ErrorKind, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::limits::{KERNEL_LOG_RECORDS_MAX, KERNEL_RECORD_BYTES_MAX};

/// Path of the log, of which each read returns a record.
const PATH: &str = "/dev/kmsg";

/// The log from a moment on.
#[derive(Debug)]
pub struct KernelLog(File);

/// Record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRecord {
    /// Level, from 0 (emergency) to 7 (debugging).
    pub level: u32,
    /// First line of its text.
    pub text: String,
}

impl KernelLog {
    /// Opens the log at its oldest record.
    ///
    /// # Errors
    /// Where there is no such log, or only root may read it.
    pub fn from_the_beginning() -> io::Result<Self> {
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(PATH).map(Self)
    }

    /// Opens the log behind its newest record.
    ///
    /// # Errors
    /// As for the oldest record.
    pub fn from_now_on() -> io::Result<Self> {
        let Self(mut file) = Self::from_the_beginning()?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self(file))
    }

    /// Records of the kernel itself that there are now, in order.
    pub fn records(self) -> Vec<KernelRecord> {
        records(self.0)
    }
}

fn records(mut file: impl io::Read) -> Vec<KernelRecord> {
    let mut found = Vec::new();
    let mut bytes = vec![0; KERNEL_RECORD_BYTES_MAX];
    for _ in 0..KERNEL_LOG_RECORDS_MAX {
        match file.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => found.extend(record(&String::from_utf8_lossy(&bytes[..length]))),
            // Records were overwritten: the next read goes on behind them.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    found
}

/// A record such as `LEVEL,NUMBER,TIME,FLAGS;TEXT` and more lines, if it is the kernel's: programs write to the log too,
/// with their facility above the level's three bits.
fn record(text: &str) -> Option<KernelRecord> {
    let (prefix, text) = text.split_once(';')?;
    let level = prefix.split(',').next()?.parse().ok().filter(|level| *level <= 7)?;
    Some(KernelRecord { level, text: text.lines().next()?.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A log in which each read returns one of these.
    struct Reads(VecDeque<io::Result<&'static str>>);

    impl io::Read for Reads {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(text) = self.0.pop_front() else { return Err(ErrorKind::WouldBlock.into()) };
            let text = text?;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    #[test]
    fn records_of_the_kernel_are_read_past_overwritten_ones() {
        let reads = Reads(VecDeque::from([
            Ok("6,811,15301230,-;nvme nvme0: creating 8 I/O queues.\n SUBSYSTEM=nvme\n"),
            Err(ErrorKind::BrokenPipe.into()),
            // A daemon's warning.
            Ok("12,1,2,-;nvme nvme0: creating 9 I/O queues.\n"),
            Ok("x;y"),
            Ok("3,812,15301234,-;nvme nvme0: failed to connect socket: -111\n"),
            Err(ErrorKind::WouldBlock.into()),
            Ok("6,1,2,-;later\n"),
        ]));
        let found: Vec<(u32, String)> =
            records(reads).into_iter().map(|record| (record.level, record.text)).collect();
        let expected = [
            (6, "nvme nvme0: creating 8 I/O queues.".to_owned()),
            (3, "nvme nvme0: failed to connect socket: -111".to_owned()),
        ];
        assert_eq!(found, expected);
        for other in ["", ";", "3;", "3,1,2,-;"] {
            assert_eq!(record(other), None, "{other}");
        }
    }
}
