//! A former setting. Values that earlier versions wrote are accepted, to keep their files readable,
//! and ignored.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Value of a setting that has no meaning any longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten;

impl<'de> Deserialize<'de> for Forgotten {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl schemars::JsonSchema for Forgotten {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Forgotten".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "deprecated": true, "description": "Ignored" })
    }
}
