//! The secret that a client over TCP shows. It is compared in a time that says nothing about it, and never printed.

use std::fmt;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;

use private_folder::open_secret;

use super::limits::{TOKEN_BYTES_MAX, TOKEN_LENGTH_MIN};
use crate::failure::Failure;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Reads it from a file; white space around it does not count.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::usage(format!("the token file {} {what}", path.display()));
        let file = open_secret(path).map_err(|error| Failure::usage(format!("the token file: {error}")))?;
        let mut text = String::new();
        let read = file.take(TOKEN_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        Self::new(text.trim()).map_err(|what| wrong(&what))
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
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether an Authorization header shows it. The time taken depends on the lengths alone.
    pub(super) fn is_shown_by(&self, header: &[u8]) -> bool {
        let Some((scheme, shown)) = header.split_at_checked(7) else { return false };
        let token = self.0.as_bytes();
        if !scheme.eq_ignore_ascii_case(b"bearer ") || shown.len() != token.len() {
            return false;
        }
        let difference = shown.iter().zip(token).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        difference == 0
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
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is_shown_by(token.header().as_bytes()));
        assert!(token.is_shown_by(b"bearer 0123456789abcdef"));
        for header in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeX", "0123456789abcdef"]
        {
            assert!(!token.is_shown_by(header.as_bytes()), "{header}");
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
