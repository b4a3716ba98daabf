//! Key log of the library: the secrets of a handshake as text for debuggers, the only form in which
//! the library gives them out. Lines look like `SERVER_TRAFFIC_SECRET_0 <client random> <secret>`,
//! with hexadecimal digits.

use secure_channel::{Hash, Suite, TrafficSecret};
use zeroize::Zeroizing;

/// The secrets that a handshake has logged so far. They are wiped when they are dropped.
#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) host_handshake: Option<TrafficSecret>,
    pub(crate) controller_handshake: Option<TrafficSecret>,
    pub(crate) host: Option<TrafficSecret>,
    pub(crate) controller: Option<TrafficSecret>,
}

impl Secrets {
    /// Keeps what a line says. Lines that are of no use are passed over.
    pub(crate) fn read(&mut self, line: &[u8]) {
        let mut words = line.split(|byte| *byte == b' ');
        let (label, secret) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        let place = match label {
            b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => &mut self.host_handshake,
            b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => &mut self.controller_handshake,
            b"CLIENT_TRAFFIC_SECRET_0" => &mut self.host,
            b"SERVER_TRAFFIC_SECRET_0" => &mut self.controller,
            _ => return,
        };
        *place = secret_of(secret);
    }
}

/// The secret that these digits are. Its length says of which suite it is: the two that NVMe has differ in it.
fn secret_of(digits: &[u8]) -> Option<TrafficSecret> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.chunks(2) {
        let &[high, low] = pair else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    let hash = Hash::ALL.into_iter().find(|hash| hash.length() == bytes.len())?;
    TrafficSecret::new(Suite::with(hash), &bytes)
}
