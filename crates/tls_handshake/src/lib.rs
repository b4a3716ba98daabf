//! Handshakes of TLS 1.3 with pre-shared keys, by s2n-tls, over bytes that the caller moves: those of NVMe/TCP (TP8011), and the
//! server's side of others that have external keys. It has no
//! socket and no threads, and it waits for nothing; randomness is the library's. What a handshake leaves is a traffic secret
//! for each direction: records are `secure_channel`'s.

#![cfg_attr(not(feature = "s2n"), allow(dead_code, reason = "secrets come of a library alone"))]

mod error;
mod framing;
mod handshake;
mod key;
mod key_log;
#[cfg(feature = "s2n")]
mod library;
#[cfg(not(feature = "s2n"))]
#[path = "no_library.rs"]
mod library;
#[cfg(test)]
mod tests;

pub use error::HandshakeError;
pub use framing::{Framing, Violation};
pub use handshake::{Established, Handshake, Progress};
pub use library::prepare;

/// Keys that a host can offer: a listener of ours looks at no more.
pub const KEYS_MAX: usize = 8;
