//! TLS 1.3 with pre-shared keys for NVMe/TCP (TP8011): keys as people exchange them, and what both ends derive of them. It
//! does no I/O, reads no clock, and has no randomness of its own, so that a simulation can have it too. The handshake itself
//! is a library's.

mod configured_psk;
mod hash;
mod input_psk;
mod psk_identity;
mod suite;
#[cfg(test)]
mod tests;

pub use configured_psk::{ConfiguredPsk, ConfiguredPskError};
pub use hash::Hash;
pub use input_psk::{Derivation, InputPsk, TlsPsk};
pub use psk_identity::{IdentityError, IdentityVersion, Names, Origin, PskIdentity};
pub use suite::Suite;
