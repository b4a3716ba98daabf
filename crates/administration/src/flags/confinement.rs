//! Flags of `serve` and `attach` that restrict their processes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::confinement::{Wish, Wishes};

/// Restriction of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfinementFlag {
    /// All restrictions that the kernel supports
    All,
    /// No restrictions
    None,
    /// Drop root's privileges
    Capabilities,
    /// Forbid to run programs, to create devices, and to open files that are not configured
    Landlock,
    /// Forbid system calls that it does not make
    Seccomp,
}

#[derive(Debug, Default, Args)]
pub struct ConfinementKindFlags {
    /// Restrictions of the process, set before it serves, comma-separated; named ones are required
    /// [default: all]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', hide_default_value = true)]
    confinement: Vec<ConfinementFlag>,
}

#[derive(Debug, Args)]
pub struct ConfinementFlags {
    #[command(flatten)]
    kinds: ConfinementKindFlags,

    /// File, folder or device that may be opened beside those configured at the start; may be given
    /// several times
    #[arg(long, value_name = "PATH")]
    pub confine_to: Vec<PathBuf>,
}

impl ConfinementFlags {
    /// Returns the wanted restrictions, or a message if the flags contradict each other.
    pub fn wishes(&self) -> Result<Wishes, String> {
        self.kinds.wishes()
    }
}

impl ConfinementKindFlags {
    /// Returns the wanted restrictions, or a message if the flags contradict each other.
    pub fn wishes(&self) -> Result<Wishes, String> {
        match self.confinement.as_slice() {
            [] | [ConfinementFlag::All] => Ok(Wishes::all(Wish::WherePossible)),
            [ConfinementFlag::None] => Ok(Wishes::all(Wish::Off)),
            named
                if named.iter().any(|flag| matches!(flag, ConfinementFlag::All | ConfinementFlag::None)) =>
            {
                Err("--confinement: all and none stand alone".to_owned())
            }
            named => {
                let wish = |flag| if named.contains(&flag) { Wish::Required } else { Wish::Off };
                Ok(Wishes {
                    capabilities: wish(ConfinementFlag::Capabilities),
                    landlock: wish(ConfinementFlag::Landlock),
                    seccomp: wish(ConfinementFlag::Seccomp),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::serve::ServeFlags;

    #[test]
    fn what_is_named_is_required_and_the_rest_is_off() {
        let wishes = |arguments: &str| ServeFlags::of(arguments).confinement.wishes();
        assert_eq!(wishes(""), Ok(Wishes::all(Wish::WherePossible)));
        assert_eq!(wishes("--confinement all"), wishes(""));
        assert_eq!(wishes("--confinement none"), Ok(Wishes::all(Wish::Off)));
        let two = wishes("--confinement landlock,seccomp").unwrap();
        assert_eq!(
            (two.capabilities, two.landlock, two.seccomp),
            (Wish::Off, Wish::Required, Wish::Required)
        );
        assert!(wishes("--confinement none,seccomp").unwrap_err().contains("stand alone"));
    }
}
