//! Encryption key of an image's blocks, for Ceph's library. Where the passphrase is from is not its
//! concern.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A version of LUKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LuksFormat {
    /// Version 1.
    Luks1,
    /// Version 2.
    Luks2,
}

impl fmt::Display for LuksFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Luks1 => "luks1",
            Self::Luks2 => "luks2",
        })
    }
}

/// A format and the passphrase of one of its key slots.
pub struct ImageKey {
    /// The format.
    pub format: LuksFormat,
    /// The passphrase.
    pub passphrase: Zeroizing<String>,
}

impl fmt::Debug for ImageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageKey").field("format", &self.format).finish_non_exhaustive()
    }
}
