//! The secret that a client over TCP shows. A target knows only its hash, and no log contains it.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use private_folder::open_secret;

use super::fingerprint::Fingerprint;
use super::limits::{TOKEN_BYTES_MAX, TOKEN_LENGTH_MIN};
use crate::failure::Failure;

/// Scheme of an Authorization header with a token.
const SCHEME: &[u8] = b"bearer ";

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Reads it from a file; white space around it does not count.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::usage(format!("the token file {} {what}", path.display()));
        let file = open_secret(path).map_err(|error| Failure::usage(format!("the token file: {error}")))?;
        let mut text = String::new();
        let read = file.take(TOKEN_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        Self::new(text.trim()).map_err(|what| wrong(&what))
    }

    /// A random token. Its prefix identifies it as a token of Selvedge, in case it leaks.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        engine::ring::fill_random(&mut bytes);
        Self(format!("selvedge_{}", Fingerprint::of(&bytes)))
    }

    /// The token in plain text, which is shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn new(token: &str) -> Result<Self, String> {
        if token.len() < TOKEN_LENGTH_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "must have one line of {TOKEN_LENGTH_MIN} or more printable characters without spaces; \
                 `openssl rand -hex 32` makes one"
            ));
        }
        Ok(Self(token.to_owned()))
    }

    /// The header that shows it.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// By what a target knows it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.0.as_bytes())
    }

    /// Token in an Authorization header.
    pub(super) fn shown(header: &[u8]) -> Option<&[u8]> {
        let (scheme, shown) = header.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(shown)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_header_shows_a_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        for header in [token.header(), "bearer 0123456789abcdef".to_owned()] {
            assert_eq!(Token::shown(header.as_bytes()).map(Fingerprint::of), Some(token.fingerprint()));
        }
        for header in ["", "Bearer", "Basic 0123456789abcdef", "0123456789abcdef"] {
            assert_eq!(Token::shown(header.as_bytes()), None, "{header}");
        }
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "short", "with spaces in the middle of it", &"x".repeat(5000)[..15]] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(Token::read(&path), Err(Failure::Usage(_))), "{text}");
        }
        std::fs::write(&path, "  0123456789abcdef\n").unwrap();
        assert_eq!(Token::read(&path), Token::new("0123456789abcdef").map_err(Failure::Usage));
        assert!(Token::read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_token_that_others_know_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        for mode in [0o640, 0o604, 0o660] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let line = Token::read(&path).unwrap_err().line().unwrap();
            assert!(line.contains("by others than its owner") && line.contains("chmod 600"), "{line}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        Token::read(&path).unwrap();
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        let line = Token::read(&folder.path().join("link")).unwrap_err().line().unwrap();
        assert!(line.contains("link is a link"), "{line}");
    }
}
