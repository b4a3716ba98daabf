//! Lines in the kernel's log about the number of a controller's I/O queues. Where they are read is in `machine`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Line of a kernel with the series "NIC topology aware I/O queue scaling" that created fewer I/O queues than CPUs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitLine {
    /// I/O queues that the kernel asks the target for.
    pub queues: u32,
    /// Lesser of the receive and transmit queues of the device.
    pub nic_queues: u32,
    /// CPUs that were online.
    pub cpus: u32,
}

/// Creation of a controller's I/O queues, as the kernel logged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCreation {
    /// I/O queues that the target granted.
    pub created: u32,
    /// Line before, where the kernel limited their number.
    pub limited: Option<LimitLine>,
}

/// Statement of one line about one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Limiting(LimitLine),
    Creating(u32),
}

impl fmt::Display for LimitLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queues, nic_queues, cpus } = self;
        write!(f, "limiting I/O queues to {queues} (NIC queues {nic_queues}, CPUs {cpus})")
    }
}

impl LimitLine {
    fn parse(text: &str) -> Option<Self> {
        let (queues, rest) = text.strip_prefix("limiting I/O queues to ")?.split_once(" (NIC queues ")?;
        let (nic_queues, cpus) = rest.strip_suffix(')')?.split_once(", CPUs ")?;
        Some(Self {
            queues: queues.parse().ok()?,
            nic_queues: nic_queues.parse().ok()?,
            cpus: cpus.parse().ok()?,
        })
    }
}

/// The controller and the message of a line such as `nvme nvme0: creating 8 I/O queues.`
fn message(line: &str) -> Option<(&str, Message)> {
    let (controller, text) = line.trim_end().strip_prefix("nvme ")?.split_once(": ")?;
    let creating = || {
        let number = text.strip_prefix("creating ")?.strip_suffix(" I/O queues.")?;
        Some(Message::Creating(number.parse().ok()?))
    };
    let message = LimitLine::parse(text).map(Message::Limiting).or_else(creating)?;
    Some((controller, message))
}

/// True for lines that [`last_creation`] uses.
pub(crate) fn is_about_queues(line: &str) -> bool {
    message(line).is_some()
}

/// The last creation of a controller's I/O queues among lines in the order of the log. A limit counts for the creation
/// after it only: names of controllers come again.
pub(crate) fn last_creation<'a>(
    lines: impl IntoIterator<Item = &'a str>,
    controller: &str,
) -> Option<QueueCreation> {
    let (mut limited, mut last) = (None, None);
    for (_, message) in lines.into_iter().filter_map(message).filter(|(name, _)| *name == controller) {
        match message {
            Message::Limiting(line) => limited = Some(line),
            Message::Creating(created) => last = Some(QueueCreation { created, limited: limited.take() }),
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITING: &str = "nvme nvme0: limiting I/O queues to 32 (NIC queues 32, CPUs 72)";

    #[test]
    fn a_limit_is_read_and_written_as_the_kernel_does() {
        let line = LimitLine { queues: 32, nic_queues: 32, cpus: 72 };
        assert_eq!(message(LIMITING), Some(("nvme0", Message::Limiting(line))));
        assert_eq!(format!("nvme nvme0: {line}"), LIMITING);
        for wrong in [
            "limiting I/O queues to 32 (NIC queues 32, CPUs 72)",
            "nvme nvme0: limiting I/O queues to 32",
            "nvme nvme0: limiting I/O queues to 32 (NIC queues -1, CPUs 72)",
            "nvme nvme0: limiting I/O queues to 4294967296 (NIC queues 1, CPUs 72)",
            "nvme nvme0: limiting I/O queues to 32 (NIC queues 32, CPUs 72) more",
            "nvme nvme0: creating I/O queues.",
            "",
        ] {
            assert_eq!(message(wrong), None, "{wrong}");
        }
        assert!(
            is_about_queues("nvme nvme11: creating 8 I/O queues.\n") && !is_about_queues("nvme nvme0: x")
        );
    }

    #[test]
    fn a_limit_counts_for_the_creation_after_it() {
        let creating = "nvme nvme0: creating 30 I/O queues.";
        let limited = Some(LimitLine { queues: 32, nic_queues: 32, cpus: 72 });
        let creation = |limited| Some(QueueCreation { created: 30, limited });
        for (lines, expected) in [
            (vec![], None),
            (vec![LIMITING], None),
            (vec![LIMITING, creating], creation(limited)),
            // Connected again by another kernel's rule, or with a number.
            (vec![LIMITING, creating, creating], creation(None)),
            (vec![creating, LIMITING], creation(None)),
            (vec![LIMITING, "nvme nvme1: creating 8 I/O queues.", creating], creation(limited)),
        ] {
            assert_eq!(last_creation(lines.iter().copied(), "nvme0"), expected, "{lines:?}");
        }
        assert_eq!(last_creation([LIMITING, creating], "nvme"), None);
    }
}
