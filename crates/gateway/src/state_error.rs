//! Reasons for which the shared state of a group cannot be read. Access to the state is the store's.

use super::format::FORMATS;

/// Why a gateway cannot become one of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupFull;

/// Content of a group's object that no gateway has written, or one of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Format of another version of this program, or none.
    #[error(
        "it has format {0}, and this selvedge reads formats {lowest} to {highest}; use one that fits",
        lowest = FORMATS.start(),
        highest = FORMATS.end()
    )]
    Format(String),
    /// Version of the state that is missing, or not a number.
    #[error("it has no version, or one that is not a number")]
    Version,
    /// Version of the state alone, which is read more often.
    #[error("it has no version")]
    NoVersion,
    /// State without a configuration.
    #[error("it has no configuration")]
    NoConfiguration,
    /// Key of a load-balancing group that is not a number.
    #[error("{0} is not a load-balancing group")]
    NotAGroup(String),
    /// Value of a key that is not what the key says.
    #[error("{key} is damaged ({reason})")]
    Damaged {
        /// The key.
        key: String,
        /// Mistake in its value.
        reason: String,
    },
}
