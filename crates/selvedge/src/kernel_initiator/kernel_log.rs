//! Kernel's log lines during a connect. Its error numbers have several reasons each; the log has
//! the reason in words.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

/// The log of the kernel, a record a read (Documentation/ABI/testing/dev-kmsg).
const PLACE: &str = "/dev/kmsg";
/// A record is never longer.
const RECORD_BYTES_MAX: usize = 8192;
/// Records that are looked at: other parts of the kernel may log much meanwhile.
const RECORDS_MAX: usize = 1000;
/// The last of the levels that are problems (KERN_WARNING).
const LEVEL_WARNING: u32 = 4;

/// The log from a moment on.
pub(super) struct KernelLog(Option<File>);

impl KernelLog {
    /// Starts at the current end of the log. An unreadable log has no lines.
    pub(super) fn from_now_on() -> Self {
        let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = File::options().read(true).custom_flags(no_wait).open(PLACE);
        let at_end = opened.and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        Self(at_end.ok())
    }

    /// The NVMe driver's problems since then, each once.
    pub(super) fn problems(mut self) -> Vec<String> {
        let mut found = Vec::new();
        let Some(file) = &mut self.0 else { return found };
        let mut record = vec![0; RECORD_BYTES_MAX];
        for _ in 0..RECORDS_MAX {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => found.extend(problem(&String::from_utf8_lossy(&record[..length]))),
                // Records were overwritten: the next read goes on behind them.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(_) => break,
            }
        }
        found.dedup();
        found
    }
}

/// The text of a record, if it is a problem of the NVMe driver's: `LEVEL,NUMBER,TIME,FLAGS;TEXT`, and more lines.
fn problem(record: &str) -> Option<String> {
    let (prefix, text) = record.split_once(';')?;
    let level = prefix.split(',').next()?.parse::<u32>().ok()? & 7;
    let text = text.lines().next()?.trim();
    (level <= LEVEL_WARNING && text.starts_with("nvme")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_the_driver_are_found() {
        let refused = "3,812,15301234,-;nvme nvme0: failed to connect socket: -111\n SUBSYSTEM=nvme\n";
        assert_eq!(problem(refused).as_deref(), Some("nvme nvme0: failed to connect socket: -111"));
        // 12 is a warning of a daemon's.
        assert_eq!(
            problem("12,1,2,-;nvme_fabrics: unknown parameter or missing value 'x' in ctrl creation request"),
            Some("nvme_fabrics: unknown parameter or missing value 'x' in ctrl creation request".to_owned())
        );
        for other in ["6,1,2,-;nvme nvme0: new ctrl: NQN \"nqn.a\"", "3,1,2,-;eth0: link down", "", "3;", ";"]
        {
            assert_eq!(problem(other), None, "{other}");
        }
    }
}
