//! Pre-shared keys of TLS handshakes that did not come from an earlier one, and those of protocols
//! that give each user a name and a key: lines `NAME:HEX`, as GnuTLS' psktool makes them.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::{Suite, TlsPsk};

/// The least and the most bytes of a key. A guessed key gives access, and fewer bytes than these
/// can be tried out.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// A key by its identity.
pub trait ExternalPsk {
    /// Identity in the peer's ClientHello.
    fn identity_bytes(&self) -> Vec<u8>;
    /// The suite that it is for.
    fn suite(&self) -> Suite;
    /// The key itself, for the library that does the handshake.
    fn reveal(&self) -> &[u8];
}

impl ExternalPsk for TlsPsk {
    fn identity_bytes(&self) -> Vec<u8> {
        self.identity().to_string().into_bytes()
    }

    fn suite(&self) -> Suite {
        self.suite()
    }

    fn reveal(&self) -> &[u8] {
        self.reveal()
    }
}

/// A user's key. It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedPsk {
    name: String,
    key: Zeroizing<Vec<u8>>,
}

/// Why a text is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamedPskError {
    /// Another form altogether.
    #[error("it is not NAME:KEY with a key of hexadecimal digits, as `psktool -u NAME -p FILE` makes it")]
    Form,
    /// A name that is too long, or none.
    #[error("its name has {0} bytes, and has to have 1 to {NAME_BYTES_MAX}")]
    Name(usize),
    /// A key that is too short or too long.
    #[error("its key has {0} bytes, and has to have {min} to {max}", min = KEY_BYTES.start(), max = KEY_BYTES.end())]
    Key(usize),
}

impl NamedPsk {
    /// Name of the key's user.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl ExternalPsk for NamedPsk {
    fn identity_bytes(&self) -> Vec<u8> {
        self.name.clone().into_bytes()
    }

    /// GnuTLS uses all of its keys with SHA-256, unless a program asks it for another one, which none does.
    fn suite(&self) -> Suite {
        Suite::Aes128Gcm
    }

    fn reveal(&self) -> &[u8] {
        &self.key
    }
}

impl FromStr for NamedPsk {
    type Err = NamedPskError;

    fn from_str(text: &str) -> Result<Self, NamedPskError> {
        // A key has no colon, and a name may.
        let (name, digits) = text.trim().rsplit_once(':').ok_or(NamedPskError::Form)?;
        let mut key = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        for pair in digits.as_bytes().chunks(2) {
            let &[high, low] = pair else { return Err(NamedPskError::Form) };
            let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(NamedPskError::Form);
            key.push((digit(high)? << 4 | digit(low)?) as u8);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            Err(NamedPskError::Name(name.len()))
        } else if !KEY_BYTES.contains(&key.len()) {
            Err(NamedPskError::Key(key.len()))
        } else {
            Ok(Self { name: name.to_owned(), key })
        }
    }
}

impl fmt::Debug for NamedPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedPsk({:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_psktool_is_read() {
        let psk: NamedPsk = format!("alice:{}\n", "0aF9".repeat(8)).parse().unwrap();
        assert_eq!((psk.name(), psk.identity_bytes()), ("alice", b"alice".to_vec()));
        assert_eq!(psk.reveal(), [0x0a, 0xf9].repeat(8));
        assert_eq!(format!("{psk:?}"), "NamedPsk(\"alice\")");
        let with_colon: NamedPsk = format!("a:b:{}", "00".repeat(64)).parse().unwrap();
        assert_eq!(with_colon.name(), "a:b");
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_without_the_key() {
        let wrong = |text: &str| text.parse::<NamedPsk>().unwrap_err();
        for text in ["", "alice", "alice:0", "alice:0g", "alice:é0"] {
            assert_eq!(wrong(text), NamedPskError::Form, "{text}");
        }
        assert_eq!(wrong(&format!(":{}", "00".repeat(16))), NamedPskError::Name(0));
        assert_eq!(wrong(&format!("{}:{}", "a".repeat(256), "00".repeat(16))), NamedPskError::Name(256));
        for bytes in [0, 15, 65] {
            assert_eq!(wrong(&format!("a:{}", "00".repeat(bytes))), NamedPskError::Key(bytes));
        }
        assert!(!wrong(&format!("a:{}", "ab".repeat(15))).to_string().contains("abab"));
    }
}
