//! Lists of what is written by its name, such as hash functions.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::Serializer;

#[allow(clippy::ptr_arg, reason = "serde asks for the field's own type")]
pub(super) fn serialize<T: Display, S: Serializer>(all: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(ToString::to_string))
}

pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
}
