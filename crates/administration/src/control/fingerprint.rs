//! A SHA-256 by which a token, a certificate or a record of the audit log is recognized.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const LENGTH: usize = 32;

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; LENGTH]);

impl Fingerprint {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;

    /// As it is written here, or with the colons and capitals of OpenSSL.
    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || "a SHA-256 has 64 hexadecimal digits".to_owned();
        let digits: Option<Vec<u8>> =
            text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.filter(|digits| digits.len() == 2 * LENGTH).ok_or_else(wrong)?;
        let mut bytes = [0; LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written_by_us_and_by_openssl() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let fingerprint = Fingerprint::of(b"");
        assert_eq!(fingerprint.to_string(), empty);
        let colons: Vec<String> =
            empty.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
        for text in [empty.to_owned(), colons.join(":")] {
            assert_eq!(Fingerprint::try_from(text), Ok(fingerprint));
        }
        for text in
            ["", &empty[1..], &format!("{empty}0"), &empty.replace('e', "g"), &empty.replace('e', "é")]
        {
            assert!(Fingerprint::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
