//! A set of processors, in both ways in which the kernel writes one: as a list (`0-3,8`) and as a mask (`ff,00000001`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::CPUS_MAX;

/// Numbers of processors, each below [`CPUS_MAX`]. Its text is the kernel's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(BTreeSet<u32>);

/// Why a text is not a set of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a {1} of CPUs below {CPUS_MAX}")]
pub struct CpuSetError(String, &'static str);

impl CpuSet {
    /// The set with one processor.
    pub fn one(cpu: u32) -> Self {
        Self(BTreeSet::from([cpu]))
    }

    /// True if the set has this processor.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Number of processors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the set has no processor.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In order of number.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The lowest.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// The only one, where there is but one.
    pub fn only(&self) -> Option<u32> {
        self.first().filter(|_| self.len() == 1)
    }

    /// Adds one.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// Processors that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Processors that are not in the other set.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Reads the kernel's mask: hexadecimal digits, in groups of 32 bits between commas, the highest first.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse_mask(text: &str) -> Result<Self, CpuSetError> {
        let error = || CpuSetError(text.trim().to_owned(), "mask");
        let mut set = BTreeSet::new();
        let groups: Vec<&str> = text.trim().split(',').collect();
        for (group, digits) in groups.iter().rev().enumerate() {
            if digits.is_empty() || digits.len() > 8 || group >= CPUS_MAX as usize / 32 {
                return Err(error());
            }
            let word = u32::from_str_radix(digits, 16).map_err(|_| error())?;
            let first = group as u32 * 32;
            set.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| first + bit));
        }
        Ok(Self(set))
    }

    /// The kernel's mask.
    pub fn mask(&self) -> String {
        let groups = self.0.last().map_or(1, |last| last / 32 + 1);
        let word = |group: u32| {
            (0..32).filter(|bit| self.contains(group * 32 + bit)).fold(0_u32, |word, bit| word | 1 << bit)
        };
        let texts: Vec<String> = (0..groups)
            .rev()
            .enumerate()
            .map(
                |(at, group)| {
                    if at == 0 { format!("{:x}", word(group)) } else { format!("{:08x}", word(group)) }
                },
            )
            .collect();
        texts.join(",")
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// Reads the kernel's list; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim();
        let error = || CpuSetError(text.to_owned(), "list");
        let mut set = BTreeSet::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu < CPUS_MAX);
            let (first, last) = (number(first).ok_or_else(error)?, number(last).ok_or_else(error)?);
            if last < first {
                return Err(error());
            }
            set.extend(first..=last);
        }
        Ok(Self(set))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for CpuSet {
    fn schema_name() -> Cow<'static, str> {
        "CpuSet".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "CPUs as the kernel writes them: `0-3,8`" })
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let set: CpuSet = "0-3,8,70-71\n".parse().unwrap();
        assert_eq!(set.to_string(), "0-3,8,70-71");
        assert_eq!(set.mask(), "c0,00000000,0000010f");
        assert_eq!(CpuSet::parse_mask("ff,00000000,80000001\n").unwrap().to_string(), "0,31,64-71");
        assert_eq!("".parse::<CpuSet>().unwrap().mask(), "0");
        for wrong in ["3-1", "a", "1,,2", "-", "4000000000", "0-99999999"] {
            assert!(wrong.parse::<CpuSet>().is_err(), "{wrong}");
        }
        for wrong in ["", "123456789", "g", "1,,1"] {
            assert!(CpuSet::parse_mask(wrong).is_err(), "{wrong}");
        }
        let long = vec!["0"; CPUS_MAX as usize / 32 + 1].join(",");
        assert!(CpuSet::parse_mask(&long).is_err());
    }

    proptest! {
        #[test]
        fn both_texts_say_the_same(cpus in proptest::collection::btree_set(0..CPUS_MAX, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(&set.to_string().parse::<CpuSet>().unwrap(), &set);
            prop_assert_eq!(CpuSet::parse_mask(&set.mask()).unwrap(), set);
        }
    }
}
