//! How many reactors a target has, and on which processors. Whether the processors exist is found out when the
//! reactors start.

use std::fmt;
use std::str::FromStr;

use engine::target::Reactors;
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A number of reactors, or the processors they are kept on, one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReactorSpec {
    Count(usize),
    Cpus(Vec<usize>),
}

/// More reactors than any machine has processors is a slip of the keyboard.
const REACTORS_MAX: usize = 1024;

impl ReactorSpec {
    fn count(number: u64) -> Result<Self, String> {
        match usize::try_from(number) {
            Ok(count @ 1..=REACTORS_MAX) => Ok(Self::Count(count)),
            _ => Err(format!("there can be 1 to {REACTORS_MAX} reactors, not {number}")),
        }
    }

    /// The engine's form.
    pub fn to_engine(&self) -> Reactors {
        match self {
            ReactorSpec::Count(count) => Reactors::Count(*count),
            ReactorSpec::Cpus(cpus) => Reactors::Cpus(cpus.clone()),
        }
    }
}

impl FromStr for ReactorSpec {
    type Err = String;

    /// A bare number is a count; with a comma or a dash it is a list of processors.
    fn from_str(text: &str) -> Result<Self, String> {
        let hint =
            || format!("`{text}` is neither a number of reactors nor a list of CPUs such as 0,2 or 0-3");
        if let Ok(count) = text.parse() {
            return Self::count(count);
        }
        let mut cpus = Vec::new();
        for part in text.trim_end_matches(',').split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(|_| hint())?;
            let last: usize = last.trim().parse().map_err(|_| hint())?;
            if last < first || last - first >= REACTORS_MAX {
                return Err(hint());
            }
            cpus.extend(first..=last);
        }
        let mut sorted = cpus.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("CPU {} is on the list `{text}` twice", twice[0]));
        }
        Ok(Self::Cpus(cpus))
    }
}

impl<'de> Deserialize<'de> for ReactorSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReactorVisitor;
        impl Visitor<'_> for ReactorVisitor {
            type Value = ReactorSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of reactors or a list of CPUs such as \"0,1\"")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<ReactorSpec, E> {
                ReactorSpec::count(u64::try_from(count).unwrap_or(0)).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ReactorSpec, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(ReactorVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_makes_a_number_a_list() {
        assert_eq!("2".parse(), Ok(ReactorSpec::Count(2)));
        assert_eq!("2,".parse(), Ok(ReactorSpec::Cpus(vec![2])));
        assert_eq!("0,3-5".parse(), Ok(ReactorSpec::Cpus(vec![0, 3, 4, 5])));
        for text in ["", "0", "a", "3-1", "1,,2", "1,1", "0-2,1", "5000"] {
            assert!(text.parse::<ReactorSpec>().is_err(), "{text}");
        }
    }
}
