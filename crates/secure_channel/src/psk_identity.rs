//! PSK identities (TP8011): what a host says in its ClientHello about itself, the subsystem and the key. They are public, and
//! prove nothing.

use std::fmt;
use std::str::FromStr;

use crate::{Hash, Suite};

/// The longest name that NVMe allows (Base 4.7).
const NQN_BYTES_MAX: usize = 223;

/// A host and a subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names {
    host_nqn: String,
    subsystem_nqn: String,
}

impl Names {
    /// These two. Names with spaces cannot stand in an identity, whose fields are separated by them.
    ///
    /// # Errors
    /// When a name is not one of NVMe, or has a space.
    pub fn new(host_nqn: &str, subsystem_nqn: &str) -> Result<Self, IdentityError> {
        for nqn in [host_nqn, subsystem_nqn] {
            let is_unusable = nqn.chars().any(|c| c.is_whitespace() || c.is_control());
            if nqn.is_empty() || nqn.len() > NQN_BYTES_MAX || is_unusable {
                return Err(IdentityError::Name(nqn.escape_debug().take(NQN_BYTES_MAX).collect()));
            }
        }
        Ok(Self { host_nqn: host_nqn.to_owned(), subsystem_nqn: subsystem_nqn.to_owned() })
    }

    /// The host's.
    pub fn host_nqn(&self) -> &str {
        &self.host_nqn
    }

    /// The subsystem's.
    pub fn subsystem_nqn(&self) -> &str {
        &self.subsystem_nqn
    }
}

/// Version of an identity's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdentityVersion {
    /// The identity says nothing about the key.
    Zero,
    /// The identity ends in a digest of the key, so that two keys of one host differ in it.
    One,
}

impl IdentityVersion {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Zero, Self::One];

    /// Digit in an identity.
    pub const fn digit(self) -> char {
        match self {
            Self::Zero => '0',
            Self::One => '1',
        }
    }
}

/// Origin of an identity's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The key was configured at both ends (`R`).
    Retained,
    /// The key came out of an authentication (`G`): secure channel concatenation (TP8018).
    Generated,
}

impl Origin {
    const fn letter(self) -> char {
        match self {
            Self::Retained => 'R',
            Self::Generated => 'G',
        }
    }
}

/// A PSK identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PskIdentity {
    /// Origin of the key.
    pub origin: Origin,
    /// The suite that the key is for.
    pub suite: Suite,
    /// Host and subsystem of the key.
    pub names: Names,
    /// The digest of the key in Base64, in identities of version 1.
    pub digest: Option<String>,
}

/// Why a text is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Another form altogether.
    #[error("it is not a PSK identity of NVMe, which looks like NVMe0R01 HOSTNQN SUBSYSTEMNQN")]
    NotAnIdentity,
    /// A name that NVMe does not have, or that cannot stand in an identity.
    #[error("`{0}` cannot stand in a PSK identity: names have 1 to 223 bytes and no spaces")]
    Name(String),
    /// A digest of another length, or no digest where there is one, or the other way round.
    #[error("its digest does not belong to an identity of its version and hash function")]
    Digest,
    /// Two long names: the identity goes into the key, and no more than 255 bytes can.
    #[error("a PSK identity of version 0 has at most 255 bytes, and this one {0}: use version 1")]
    TooLong(usize),
}

impl PskIdentity {
    /// Version of the identity's format.
    pub const fn version(&self) -> IdentityVersion {
        if self.digest.is_some() { IdentityVersion::One } else { IdentityVersion::Zero }
    }
}

impl fmt::Display for PskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, origin) = (self.version().digit(), self.origin.letter());
        let Names { host_nqn, subsystem_nqn } = &self.names;
        write!(f, "NVMe{version}{origin}{:02} {host_nqn} {subsystem_nqn}", self.suite.hash().id())?;
        self.digest.iter().try_for_each(|digest| write!(f, " {digest}"))
    }
}

impl FromStr for PskIdentity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let mut parts = text.split(' ');
        let mut next = || parts.next().ok_or(IdentityError::NotAnIdentity);
        let (kind, host_nqn, subsystem_nqn) = (next()?, next()?, next()?);
        let (digest, rest) = (parts.next(), parts.next());
        let kind =
            kind.strip_prefix("NVMe").filter(|_| rest.is_none()).ok_or(IdentityError::NotAnIdentity)?;
        let &[version @ (b'0' | b'1'), origin @ (b'R' | b'G'), b'0', hash] = kind.as_bytes() else {
            return Err(IdentityError::NotAnIdentity);
        };
        let hash = Hash::of(hash.wrapping_sub(b'0')).ok_or(IdentityError::NotAnIdentity)?;
        let digest_length = (version == b'1').then(|| hash.length().div_ceil(3) * 4);
        if digest.map(str::len) != digest_length {
            return Err(IdentityError::Digest);
        }
        Ok(Self {
            origin: if origin == b'R' { Origin::Retained } else { Origin::Generated },
            suite: Suite::with(hash),
            names: Names::new(host_nqn, subsystem_nqn)?,
            digest: digest.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let names = Names::new("nqn.host", "nqn.subsystem").unwrap();
        for origin in [Origin::Retained, Origin::Generated] {
            for suite in Suite::ALL {
                let digest = Some("A".repeat(suite.hash().length().div_ceil(3) * 4));
                for digest in [None, digest] {
                    let identity = PskIdentity { origin, suite, names: names.clone(), digest };
                    assert_eq!(identity.to_string().parse(), Ok(identity));
                }
            }
        }
    }

    #[test]
    fn what_is_not_an_identity_is_refused() {
        let wrong = |text: &str| text.parse::<PskIdentity>().unwrap_err();
        for text in
            ["", "NVMe0R01", "NVMe0R01 a", "NVMe2R01 a b", "NVMe0X01 a b", "NVMe0R03 a b", "NVMe0R1 a b"]
        {
            assert_eq!(wrong(text), IdentityError::NotAnIdentity, "{text}");
        }
        assert_eq!(wrong("NVMe0R01 a b c"), IdentityError::Digest);
        assert_eq!(wrong("NVMe1R01 a b"), IdentityError::Digest);
        assert_eq!(wrong("NVMe1R01 a b c d"), IdentityError::NotAnIdentity);
        assert!(matches!(wrong("NVMe0R01  b"), IdentityError::Name(_)));
        assert!(matches!(wrong(&format!("NVMe0R01 {} b", "a".repeat(224))), IdentityError::Name(_)));
        assert!(matches!(wrong("NVMe0R01 a\tb c"), IdentityError::Name(_)));
    }
}
