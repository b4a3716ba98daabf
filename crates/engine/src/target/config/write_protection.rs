//! The write protection that a namespace can have, as it is configured. Who may change it is in `rights`.

use serde::{Deserialize, Serialize};

/// Namespace write protection (NWPS, Base 8.1.16), the weakest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WriteProtection {
    /// Writes are allowed.
    #[default]
    #[serde(alias = "off")]
    None,
    /// Writes are refused until the setting changes.
    On,
    /// Writes are refused until the target restarts.
    #[serde(alias = "until-restart")]
    UntilRestart,
    /// Writes are refused forever.
    Permanent,
}

/// Former names of levels on the command line, which files and scripts may still have.
const FORMER_NAMES: [(&str, WriteProtection); 2] =
    [("off", WriteProtection::None), ("until-restart", WriteProtection::UntilRestart)];

impl WriteProtection {
    /// The level of this name, or of this former name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::None, Self::On, Self::UntilRestart, Self::Permanent];
        let former = || FORMER_NAMES.iter().find(|(former, _)| *former == name).map(|(_, level)| *level);
        all.into_iter().find(|level| level.name() == name).or_else(former)
    }

    /// True if writes are allowed.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Name, in files and requests as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::On => "on",
            Self::UntilRestart => "until_restart",
            Self::Permanent => "permanent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_one_name_and_its_former_one_is_read() {
        let read = |name: &str| serde_json::from_str::<WriteProtection>(&format!("\"{name}\"")).ok();
        for (level, name, former) in [
            (WriteProtection::None, "none", "off"),
            (WriteProtection::On, "on", "on"),
            (WriteProtection::UntilRestart, "until_restart", "until-restart"),
            (WriteProtection::Permanent, "permanent", "permanent"),
        ] {
            assert_eq!(level.name(), name);
            assert_eq!(serde_json::to_string(&level).unwrap(), format!("\"{name}\""));
            for known in [name, former] {
                assert_eq!(
                    (WriteProtection::named(known), read(known)),
                    (Some(level), Some(level)),
                    "{known}"
                );
            }
        }
        assert_eq!((WriteProtection::named("yes"), read("yes")), (None, None));
    }
}
