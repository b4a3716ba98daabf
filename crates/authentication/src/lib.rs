//! In-band authentication of NVMe over Fabrics, DH-HMAC-CHAP and its successor KX-HMAC-CHAP (Base
//! 8.3.5): secrets, hash functions, groups, and the two sides of an exchange as state machines. It
//! does no I/O, reads no clock, and takes randomness from its caller, as a simulation needs it.

mod concatenation;
mod controller_side;
mod ffdhe;
mod group;
mod hash;
mod host_side;
mod key_exchange;
mod response;
mod secret;
#[cfg(test)]
mod tests;

pub use concatenation::{Concatenation, GeneratedPsk};
pub use controller_side::{ControllerSide, ControllerTerms, Progress};
pub use group::Group;
pub use hash::Hash;
pub use host_side::{HostSide, HostStep, HostTerms};
pub use secret::{Secret, SecretError};

use std::fmt;

use nvme::authentication::Failure;

/// Function that fills bytes with random ones.
pub type Entropy<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Result of a successful exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The hash function.
    pub hash: Hash,
    /// The group of the key exchange.
    pub group: Group,
    /// True if the controller has authenticated too.
    pub is_bidirectional: bool,
    /// Index of the host's secret, among those that the controller accepts.
    pub secret: usize,
}

impl fmt::Display for Authenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways = if self.is_bidirectional { "both ways" } else { "one way" };
        write!(f, "{}, {}, {ways}", self.hash, self.group)
    }
}

/// Why an exchange has failed, and whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Fault {
    /// As the peers name it.
    pub reason: Failure,
    /// For people: which side is wrong, and how.
    pub why: String,
}

impl Fault {
    fn new(reason: Failure, why: impl Into<String>) -> Self {
        Self { reason, why: why.into() }
    }
}
