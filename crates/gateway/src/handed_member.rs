//! A gateway's part in its group as one process leaves it to the next, as data: what the group's state does not say.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::beat::Lost;

/// Identity that the new process is to take, while the old one acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedMember {
    /// Name of the gateway.
    pub gateway: String,
    /// Number of the gateway.
    pub number: u16,
    /// Epoch, which stays the same: no gateway takes over, and hosts keep their controllers.
    pub epoch: u64,
    /// The connections that it has put on the blocklist by now.
    pub(crate) fenced: BTreeSet<String>,
}

/// State of a gateway after all its queues were quiesced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedMember {
    /// The version of the state that it has acted by.
    pub(crate) version: u64,
    /// Signs of life that it has given.
    pub(crate) count: u64,
    /// The load-balancing groups whose images it had for itself, and those of them that hosts were served.
    pub(crate) hold: BTreeSet<u32>,
    pub(crate) open: BTreeSet<u32>,
    /// The connections that it has put on the blocklist.
    pub(crate) fenced: BTreeSet<String>,
    /// For how long no host has been at it, in milliseconds, if none is.
    pub(crate) alone_ms: Option<u64>,
    /// Controllers of this gateway that others have asked about and whose commands can no longer
    /// take effect.
    pub(crate) rested: BTreeSet<Lost>,
}
