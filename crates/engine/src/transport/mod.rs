//! Transports of a connection: TCP or MPTCP, its options, its congestion control, and the kernel's
//! statistics about it. Making connections and moving bytes through them belongs to `ring`, and
//! what the bytes mean to `nvme`.

pub mod congestion;
#[cfg(not(feature = "simulation"))]
mod follower;
pub mod info;
mod options;
#[cfg(not(feature = "simulation"))]
mod path_judge;
#[cfg(not(feature = "simulation"))]
pub(crate) mod send_buffer;
mod socket_option;

use std::fmt;

pub use info::{SendTimes, StreamInfo, SubflowInfo};
pub use options::{ConnectionOptions, ListenOptions};

/// Transport of a connection. Both carry the same bytes; a listener for MPTCP serves plain TCP
/// peers too.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP (RFC 8684): one connection over several addresses.
    Mptcp,
}

impl Transport {
    /// True if it is plain TCP.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
        })
    }
}
