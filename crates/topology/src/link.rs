//! How an interface treats packets besides its queues: offloads, coalescing of interrupts, modes of the cable, and the
//! queueing discipline in front of it. Which of these cost anything is not known here.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::Refusal;

/// Settings that ethtool reports of an interface beside its queues. Absent where the driver does
/// not have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSettings {
    /// Features that are on, by the kernel's names.
    pub active: BTreeSet<String>,
    /// Features that can be switched on or off.
    pub switchable: BTreeSet<String>,
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Speeds of the cable.
    pub modes: Option<LinkModes>,
    /// Questions that were refused for another reason than that the driver lacks the setting.
    pub refusals: Vec<Refusal>,
}

/// Interrupt coalescing: time for which a card waits for more packets before it interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Coalescing {
    /// After a packet came, in microseconds.
    pub receive_us: Option<u32>,
    /// Packets that end the wait.
    pub receive_frames: Option<u32>,
    /// True if the card or driver chooses the wait by the traffic.
    pub is_adaptive: bool,
}

/// Speeds that the two ends of a cable have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkModes {
    /// True if the speed is negotiated.
    pub negotiates: Option<bool>,
    /// The speed now, in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// True if both ends may send at the same time.
    pub is_full_duplex: Option<bool>,
    /// Modes that the card has, as in `10000baseT/Full`.
    pub supported: BTreeSet<String>,
    /// Modes that the other end of the cable offers, where it says some.
    pub peer: BTreeSet<String>,
}

/// The queueing discipline that packets pass on their way out of an interface, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queueing {
    /// Name of the interface.
    pub interface: String,
    /// Kind, by the kernel's name, as in `fq` or `tbf`.
    pub kind: String,
    /// True if packets meet it first.
    pub is_root: bool,
    /// Bytes a second that it lets pass, where it has a limit.
    pub rate_bytes: Option<u64>,
    /// Delay that it adds, in microseconds.
    pub delay_us: Option<u64>,
    /// Packets that it drops at random, in parts per million.
    pub loss_ppm: Option<u32>,
    /// Bytes that have passed.
    pub sent_bytes: u64,
    /// Packets that it dropped.
    pub dropped: u32,
    /// Number of packets that had to wait since the limit was reached.
    pub overlimits: u32,
    /// Bytes that wait now.
    pub backlog_bytes: u32,
}

impl LinkModes {
    /// Fastest mode of the card and, where it is reported, of the other end, in Mbit/s.
    pub fn fastest_mbps(&self) -> Option<u32> {
        let fastest = |modes: &BTreeSet<String>| modes.iter().filter_map(|mode| mode_mbps(mode)).max();
        match (fastest(&self.supported), fastest(&self.peer)) {
            (Some(own), Some(peer)) => Some(own.min(peer)),
            (own, _) => own,
        }
    }
}

/// The speed in a mode's name: `1000baseT/Full` has 1000.
fn mode_mbps(mode: &str) -> Option<u32> {
    let (digits, _) = mode.split_once("base")?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_mode_is_one_that_both_ends_have() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut modes = LinkModes {
            supported: set(&["100baseT/Half", "1000baseT/Full", "10000baseKR/Full", "Autoneg", "FIBRE"]),
            ..LinkModes::default()
        };
        assert_eq!(modes.fastest_mbps(), Some(10_000));
        modes.peer = set(&["1000baseT/Full", "Pause"]);
        assert_eq!(modes.fastest_mbps(), Some(1000));
        assert_eq!(LinkModes::default().fastest_mbps(), None);
    }
}
