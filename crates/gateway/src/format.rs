//! Formats of what the gateways of a group share, and what a gateway says of those that it reads. Which one a group uses is
//! `negotiation`'s.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::state_error::StateError;

/// The formats that this program reads and writes. From the second one on, records of gateways and load-balancing groups may
/// have fields that a reader does not know, and keeps when it writes them again. In the third one, the configuration may have
/// sealed keys, and subsystems that are found at some ports alone. In the fourth one, hosts may reserve namespaces, and
/// gateways may be drained.
pub(crate) const FORMATS: RangeInclusive<u32> = 1..=4;
/// The first one with sealed keys and with ports of subsystems.
pub(crate) const WITH_KEYS_AND_PORTS: Format = Format(3);
/// The first one with reservations, which a gateway of a former version would not keep hosts from what they forbid by.
pub(crate) const WITH_RESERVATIONS: Format = Format(4);
/// The first one with drained gateways: a former version would give them back what they gave away.
pub(crate) const WITH_DRAINS: Format = Format(4);
/// Formats of a gateway that has reported none: versions up to 0.1 read this one alone.
const UNREPORTED: RangeInclusive<u32> = 1..=1;

/// Format that a group uses. A new group has the highest that its first gateway writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Format(pub(crate) u32);

impl Default for Format {
    fn default() -> Self {
        Self(*FORMATS.end())
    }
}

impl Format {
    /// Reads the value under the key of the format.
    ///
    /// # Errors
    /// This program cannot read it.
    pub(crate) fn parse(value: Option<&[u8]>) -> Result<Self, StateError> {
        let text = String::from_utf8_lossy(value.unwrap_or(b"none"));
        let known = text.parse().ok().filter(|number| FORMATS.contains(number));
        known.map(Self).ok_or_else(|| StateError::Format(text.into_owned()))
    }
}

/// Formats that a gateway reads, in one of its epochs. They stand beside its record, whose fields
/// former versions check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reads {
    /// Of another epoch nothing is said: an older version may have come back by the same name.
    pub(crate) epoch: u64,
    lowest: u32,
    highest: u32,
}

impl Reads {
    /// Formats that this program reads.
    pub(crate) const fn own(epoch: u64) -> Self {
        Self::of(epoch, FORMATS)
    }

    pub(crate) const fn of(epoch: u64, formats: RangeInclusive<u32>) -> Self {
        Self { epoch, lowest: *formats.start(), highest: *formats.end() }
    }

    /// Formats of a gateway in this epoch, from its report if it has one for this epoch.
    pub(crate) fn in_epoch(reported: Option<&Self>, epoch: u64) -> Self {
        reported.filter(|reads| reads.epoch == epoch).cloned().unwrap_or_else(|| Self::of(epoch, UNREPORTED))
    }

    /// Formats that both read.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let (lowest, highest) = (self.lowest.max(other.lowest), self.highest.min(other.highest));
        Self { epoch: self.epoch, lowest, highest }
    }

    /// The highest format that it reads.
    pub(crate) const fn highest(&self) -> Format {
        Format(self.highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_are_not_known_are_refused_with_those_that_are() {
        for known in FORMATS {
            assert_eq!(Format::parse(Some(known.to_string().as_bytes())), Ok(Format(known)));
        }
        for value in [None, Some(&b"0"[..]), Some(b"5"), Some(b"x"), Some(b"")] {
            let what = Format::parse(value).unwrap_err().to_string();
            assert!(what.contains("reads formats 1 to 4"), "{what}");
        }
    }

    #[test]
    fn what_another_epoch_has_said_counts_for_nothing() {
        let report = Reads::of(7, 1..=5);
        assert_eq!(Reads::in_epoch(Some(&report), 7), report);
        assert_eq!(Reads::in_epoch(Some(&report), 8), Reads::of(8, 1..=1));
        assert_eq!(Reads::in_epoch(None, 8), Reads::of(8, 1..=1));
        assert_eq!(report.and(&Reads::of(7, 2..=3)), Reads::of(7, 2..=3));
    }
}
