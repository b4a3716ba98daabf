//! Kernel's log lines during a connect. Its error numbers have several reasons each; the log has
//! the reason in words.

use topology::KernelRecord;

/// The last of the levels that are problems (KERN_WARNING).
const LEVEL_WARNING: u32 = 4;

/// The log from a moment on.
pub(super) struct KernelLog(Option<topology::KernelLog>);

impl KernelLog {
    /// Starts at the current end of the log. An unreadable log has no lines.
    pub(super) fn from_now_on() -> Self {
        Self(topology::KernelLog::from_now_on().ok())
    }

    /// The NVMe driver's problems since then, each once.
    pub(super) fn problems(self) -> Vec<String> {
        let records = self.0.map(topology::KernelLog::records).unwrap_or_default();
        let mut found: Vec<String> = records.into_iter().filter_map(problem).collect();
        found.dedup();
        found
    }
}

/// The text of a record, if it is a problem of the NVMe driver's.
fn problem(record: KernelRecord) -> Option<String> {
    (record.level <= LEVEL_WARNING && record.text.starts_with("nvme")).then_some(record.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_the_driver_are_found() {
        let of = |level, text: &str| problem(KernelRecord { level, text: text.to_owned() });
        for text in [
            "nvme nvme0: failed to connect socket: -111",
            "nvme_fabrics: unknown parameter or missing value 'x' in ctrl creation request",
        ] {
            assert_eq!(of(3, text).as_deref(), Some(text));
        }
        assert_eq!(of(4, "nvme nvme0: x").as_deref(), Some("nvme nvme0: x"));
        assert_eq!(of(6, "nvme nvme0: new ctrl: NQN \"nqn.a\""), None);
        assert_eq!(of(3, "eth0: link down"), None);
    }
}
