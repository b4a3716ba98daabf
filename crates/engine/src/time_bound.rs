//! For how long a storage may keep a command before it does something about it, as far as it says.

use std::fmt;
use std::time::Duration;

/// For how long a command may be at a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// For this time, by this file or setting.
    Known(Duration, String),
    /// Forever, for this reason.
    None(&'static str),
    /// The time is unknown.
    Unknown,
}

impl TimeBound {
    /// The one that promises less.
    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::None(_), _) | (_, Self::Unknown) => self,
            (_, Self::None(_)) | (Self::Unknown, _) => other,
            (Self::Known(time, _), Self::Known(others, _)) if time >= others => self,
            _ => other,
        }
    }

    /// True if it says that a command may be there for longer than this.
    pub fn exceeds(&self, time: Duration) -> bool {
        match self {
            Self::Known(known, _) => *known > time,
            Self::None(_) => true,
            Self::Unknown => false,
        }
    }
}

impl fmt::Display for TimeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(time, by) => write!(f, "a command may take {time:?} there ({by})"),
            Self::None(why) => f.write_str(why),
            Self::Unknown => f.write_str("it is not known for how long a command may take there"),
        }
    }
}
