//! TLS 1.3 with pre-shared keys for NVMe/TCP (TP8011): keys as people exchange them, and as they stand sealed in a
//! configuration; what both ends derive of them, and the records that are sealed with what a handshake leaves. It does no I/O, reads no clock, and has no randomness of its own, so
//! that a simulation can have it too. The handshake itself is a library's.

mod alert;
mod cipher;
mod client_hello;
mod configured_psk;
mod external_psk;
mod fields;
mod hash;
mod input_psk;
mod nonces;
mod opener;
mod post_handshake;
mod psk_choice;
mod psk_identity;
mod record;
mod sealer;
mod sealing_key;
mod suite;
#[cfg(test)]
mod tests;
mod traffic_secret;

pub use alert::Alert;
pub use client_hello::{ClientHello, FirstBytes, HELLO_BYTES_MAX, HelloError};
pub use configured_psk::{ConfiguredPsk, ConfiguredPskError};
pub use external_psk::{ExternalPsk, NamedPsk, NamedPskError};
pub use hash::Hash;
pub use input_psk::{Derivation, InputPsk, TlsPsk};
pub use opener::{Opened, OpenedInto, Opener, Peer};
pub use psk_choice::ChoiceError;
pub use psk_identity::{IdentityError, IdentityVersion, Names, Origin, PskIdentity};
pub use record::{DATA_BYTES_MAX, HEADER_BYTES, OVERHEAD_BYTES, RECORD_BYTES_MAX, RecordError, TAG_BYTES};
pub use sealer::{ALERT_RECORD_BYTES, KEY_UPDATE_RECORD_BYTES, RECORDS_MAX, RecordLimit, SealError, Sealer};
pub use sealing_key::{NONCE_BYTES, SealingKey, UnsealError, key_file, sealed_at_s};
pub use suite::Suite;
pub use traffic_secret::{DirectionState, TrafficSecret};
