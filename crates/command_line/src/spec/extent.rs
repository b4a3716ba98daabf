//! A part of a namespace by its length: in bytes, or as a share of the whole in percent.

use std::fmt;
use std::str::FromStr;

use super::size::Size;

/// A length or a place in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Bytes(u64),
    /// 0 to 100 parts of 100 of the namespace.
    Percent(u8),
}

impl Extent {
    /// Empty extent, or the beginning.
    pub const ZERO: Self = Self::Bytes(0);

    /// Bytes of the extent in a namespace of `total` bytes, before a share is rounded to blocks.
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // It is at most `total`.
            Self::Percent(percent) => (u128::from(total) * u128::from(percent) / 100) as u64,
        }
    }

    /// The same with a share rounded up to whole blocks, as fio rounds offsets.
    pub fn bytes_in_blocks(self, total: u64, block: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(_) => self.bytes(total).div_ceil(block).saturating_mul(block),
        }
    }

    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Bytes(0) | Self::Percent(0))
    }
}

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            let size = text.parse::<Size>().map_err(|error| error.to_string());
            return size.map(|Size(bytes)| Self::Bytes(bytes));
        };
        let percent = percent.parse().ok().filter(|percent| *percent <= 100);
        percent.map(Self::Percent).ok_or_else(|| format!("`{text}` is not a whole number from 0% to 100%"))
    }
}

impl fmt::Display for Extent {
    /// As fio and `FromStr` read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_whole_and_end_at_blocks() {
        assert_eq!("50%".parse(), Ok(Extent::Percent(50)));
        assert_eq!("8m".parse(), Ok(Extent::Bytes(8 << 20)));
        for wrong in ["101%", "-1%", "33.5%", "%", "1k%", "half"] {
            assert!(wrong.parse::<Extent>().is_err(), "{wrong}");
        }
        assert_eq!(Extent::Percent(33).bytes(100 << 20), 34_603_008);
        assert_eq!(Extent::Percent(33).bytes_in_blocks(100 << 20, 65_536), 528 * 65_536);
        assert_eq!(Extent::Percent(100).bytes(u64::MAX), u64::MAX);
        assert_eq!(Extent::Bytes(5).bytes_in_blocks(100, 4), 5);
        assert_eq!(Extent::Percent(7).to_string().parse(), Ok(Extent::Percent(7)));
    }
}
