//! NVMe Qualified Names: what hosts and subsystems are called (Base 4.7).
//!
//! Who may talk to whom by these names is access control, and not decided here.

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;

/// The name by which any Discovery subsystem can be reached (Base 3.1.3.3).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The longest name, without its ending NUL (Base 4.7).
pub const NQN_BYTES_MAX: usize = 223;

/// The length of every wire field that holds a name (SUBNQN, HOSTNQN).
pub const NQN_FIELD_BYTES: usize = 256;

const _: () = assert!(NQN_BYTES_MAX < NQN_FIELD_BYTES);

/// Bytes that are not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// There is no name.
    #[error("the NQN is empty")]
    Empty,
    /// The name is too long, or its field has no ending NUL.
    #[error("the NQN is longer than 223 bytes")]
    TooLong,
    /// The name is not UTF-8.
    #[error("the NQN is not UTF-8")]
    NotUtf8,
    /// The name has a control character.
    #[error("the NQN has a control character")]
    Control,
    /// The name has a comma or white space, and is to be that of a host or subsystem here.
    #[error("an NQN cannot contain a comma or a space, which separate names in lists")]
    Separator,
}

/// The name of a host or subsystem: UTF-8, at most 223 bytes, no control character (Base 4.7).
///
/// The specification has names begin with `nqn.`, a date and a domain. Linux' host and target take any text, and names like
/// `mysub` are in use, so that this is not required. Two names are the same if their bytes are: the specification wants no
/// normalization and no folding of case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(Box<str>);

impl Nqn {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        if name.is_empty() {
            return Err(NqnError::Empty);
        }
        if name.len() > NQN_BYTES_MAX {
            return Err(NqnError::TooLong);
        }
        check_text(name)?;
        Ok(Self(name.into()))
    }

    /// Checks a name that a target is to serve or to let in. One with a comma or a space can be sent, but not asked for:
    /// Linux' options end at a comma, and lists of names and TLS identities are separated by either.
    pub fn configured(name: &str) -> Result<Self, NqnError> {
        let nqn = Self::new(name)?;
        let separates = |letter: char| letter == ',' || letter.is_whitespace();
        if nqn.contains(separates) { Err(NqnError::Separator) } else { Ok(nqn) }
    }

    /// True if it begins as the specification has it.
    pub fn is_qualified(&self) -> bool {
        self.starts_with("nqn.")
    }

    /// The name of any Discovery subsystem.
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.into())
    }

    /// Reads a wire field: the name ends at the first NUL, and there must be one.
    pub fn decode(field: &[u8]) -> Result<Self, NqnError> {
        Self::new(decode_text(field)?)
    }

    /// The wire field: the name, padded with NUL.
    pub fn encode(&self) -> [u8; NQN_FIELD_BYTES] {
        let mut field = [0; NQN_FIELD_BYTES];
        field[..self.0.len()].copy_from_slice(self.0.as_bytes());
        field
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if this is the well-known name of Discovery subsystems.
    pub fn is_discovery(&self) -> bool {
        self.as_str() == DISCOVERY_NQN
    }
}

/// Reads the text of a wire field that is a name by its length and characters, if not by how it begins: hosts call
/// themselves by all sorts of names, and by none. It may be empty.
pub fn decode_text(field: &[u8]) -> Result<&str, NqnError> {
    let end = field.iter().position(|&byte| byte == 0).ok_or(NqnError::TooLong)?;
    if end > NQN_BYTES_MAX {
        return Err(NqnError::TooLong);
    }
    let text = core::str::from_utf8(&field[..end]).map_err(|_| NqnError::NotUtf8)?;
    check_text(text)?;
    Ok(text)
}

/// A name ends up in logs and on terminals, so a peer must not be able to control them with it.
fn check_text(text: &str) -> Result<(), NqnError> {
    if text.chars().any(char::is_control) { Err(NqnError::Control) } else { Ok(()) }
}

impl fmt::Display for Nqn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self)
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Nqn {
    type Error = NqnError;

    fn try_from(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

impl Deref for Nqn {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Nqn {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Nqn {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Nqn {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Nqn {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
