//! Reasons for which the text or number of a single setting is refused. The reader of the setting knows its place.

use nvme::discovery::{Nqn, NqnError};

use crate::limits::WRITE_DELAY_MS_MAX;
use crate::units::{QuantityError, counted};

/// Reason for which a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Text that is not a size or a time.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// Text that is not an NQN.
    #[error("`{text}`: {reason}")]
    Nqn {
        /// The text.
        text: String,
        /// Rule of names that it breaks.
        reason: NqnError,
    },
    /// Name of the Discovery subsystem for another one.
    #[error("{0} is the NQN of the discovery subsystem, which every target has")]
    DiscoveryName(Nqn),
    /// Text that is not a UUID.
    #[error("`{text}` is not a UUID: {reason}")]
    Uuid {
        /// The text.
        text: String,
        /// Mistake in it.
        reason: uuid::Error,
    },
    /// UUID of zeroes, which stands for no UUID.
    #[error("a UUID of zeroes names nothing")]
    UuidZero,
    /// Text that is not an NGUID.
    #[error("`{0}` is not an NGUID, which is 32 hexadecimal digits")]
    Nguid(String),
    /// NGUID of zeroes, which stands for no NGUID.
    #[error("an NGUID of zeroes names nothing")]
    NguidZero,
    /// Text that is not a range of addresses.
    #[error("`{0}` is not a network, such as 10.0.0.0/24")]
    Network(String),
    /// Time for which writes cannot be held back.
    #[error("writes can be held back for at most {max}ms, not {0}", max = WRITE_DELAY_MS_MAX)]
    WriteDelay(String),
    /// Serial number that does not fit its field.
    #[error("serial `{0}` must be 1 to 20 printable ASCII characters")]
    Serial(String),
    /// Block size that is not offered.
    #[error("a block of {} is not offered: 512 and 4096 are", counted(*bytes, "byte"))]
    BlockSize {
        /// The size.
        bytes: u64,
    },
    /// Text that no congestion control can have as its name.
    #[error("`{0}` is not a congestion control name, such as cubic, bbr or system")]
    Congestion(String),
}
