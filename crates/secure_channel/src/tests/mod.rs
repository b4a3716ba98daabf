//! Tests of what several modules do together, and what all tests share.

mod hellos;
mod key_updates;
mod records;
mod rfc8448;
mod wycheproof;

use crate::{Opener, Peer, RecordLimit, Sealer, Suite, TrafficSecret};

/// The bytes of hexadecimal digits, with spaces and line breaks anywhere.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The hexadecimal digits of bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A controller that sends, and a host that receives.
fn channel(suite: Suite) -> (Sealer, Opener) {
    let secret = TrafficSecret::new(suite, &vec![0x5e; suite.hash().length()]).unwrap();
    (Sealer::new(&secret, RecordLimit::default()), Opener::new(&secret, Peer::Controller))
}
