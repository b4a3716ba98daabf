//! In-band authentication of NVMe over Fabrics, DH-HMAC-CHAP and its successor KX-HMAC-CHAP (Base 8.3.5): secrets, hash
//! functions and groups. It does no I/O, reads no clock, and takes randomness from whoever calls it.

mod group;
mod hash;
mod secret;

pub use group::Group;
pub use hash::Hash;
pub use secret::{Secret, SecretError};

/// What fills bytes with random ones.
pub type Entropy<'a> = &'a mut dyn FnMut(&mut [u8]);
