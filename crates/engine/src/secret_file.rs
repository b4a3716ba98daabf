//! Files of secrets or TLS keys, one a line: who may be able to read them, and what is wrong with one. What the secrets are for
//! is others' to say.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::str::FromStr;

use authentication::Secret;
use secure_channel::ConfiguredPsk;
use zeroize::Zeroizing;

use crate::limits::{SECRET_FILE_BYTES_MAX, SECRETS_PER_HOST_MAX};
use crate::ring;

/// Permissions by which others than the owner and the group may read a file.
const READABLE_BY_OTHERS: u32 = 0o004;

/// Prefixes of secrets and TLS keys in text form.
const SECRETS: [&str; 2] = ["DHHC-1:", "NVMeTLSkey-1:"];

/// Text in place of a secret.
pub const LEFT_OUT: &str = "(secret)";

/// Why a file gives no secrets: what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFileError {
    what: String,
    is_forbidden: bool,
}

impl SecretFileError {
    fn of_io(error: &io::Error, path: &Path) -> Self {
        let what = format!("{} cannot be read: {error}", path.display());
        Self { what, is_forbidden: error.kind() == ErrorKind::PermissionDenied }
    }

    /// True if this user may not read the file, which another may.
    pub const fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// The same, with whose secrets these would be.
    #[must_use]
    pub fn of(self, whose: impl fmt::Display) -> Self {
        Self { what: format!("{whose}: {}", self.what), ..self }
    }
}

impl From<String> for SecretFileError {
    fn from(what: String) -> Self {
        Self { what, is_forbidden: false }
    }
}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for SecretFileError {}

/// Kind of secret, of which such a file has one a line.
pub trait SecretKind: FromStr<Err: fmt::Display> {
    /// Name of the kind, for people.
    const NAME: &'static str;
    /// Command that makes one.
    const MAKER: &'static str;
}

impl SecretKind for Secret {
    const NAME: &'static str = "secret";
    const MAKER: &'static str = "selvedge key generate";
}

impl SecretKind for ConfiguredPsk {
    const NAME: &'static str = "TLS key";
    const MAKER: &'static str = "selvedge key generate --tls";
}

/// Refuses a secret where the name of its file belongs, as nvme-cli takes it, without repeating it: errors are logged, and
/// requests recorded.
///
/// # Errors
/// What to do instead.
pub fn check_name(path: &Path) -> Result<(), SecretFileError> {
    let is_secret = |part: &OsStr| SECRETS.iter().any(|prefix| part.to_string_lossy().starts_with(prefix));
    if path.iter().any(is_secret) {
        let what = "a secret is given in place of the name of its file: write it into a file that others cannot read, and \
                    name that, since every user of a machine can read its command lines";
        return Err(what.to_owned().into());
    }
    Ok(())
}

/// A text for a log, without secrets that stand in it where none belongs.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let first = |text: &str| SECRETS.iter().filter_map(|prefix| text.find(prefix)).min();
    let is_of_secret = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | ':' | '-');
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = first(rest) {
        let (before, secret) = rest.split_at(at);
        shown += before;
        shown += LEFT_OUT;
        rest = secret.trim_start_matches(is_of_secret);
    }
    if shown.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(shown + rest) }
}

/// Reads the secrets of a file.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn read<T: SecretKind>(path: &Path) -> Result<Vec<T>, SecretFileError> {
    read_from(open(path)?, path)
}

/// Reads a file of another form that has secrets in it, up to this number of bytes.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn text(path: &Path, bytes_max: u64) -> Result<Zeroizing<String>, SecretFileError> {
    let text = text_of(open(path)?, path, bytes_max + 1)?;
    if text.len() as u64 > bytes_max {
        return Err(format!("{} has more than {bytes_max} bytes", path.display()).into());
    }
    Ok(text)
}

fn open(path: &Path) -> Result<File, SecretFileError> {
    check_name(path)?;
    let shown = path.display();
    let failed = |error: io::Error| SecretFileError::of_io(&error, path);
    // Opening a pipe without a writer would wait for one forever.
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file").into());
    }
    if metadata.mode() & READABLE_BY_OTHERS != 0 {
        return Err(format!("{shown} is readable by other users; run `chmod o= {shown}`").into());
    }
    Ok(file)
}

/// Text of a stream, up to this number of bytes.
fn text_of(stream: impl Read, name: &Path, bytes_max: u64) -> Result<Zeroizing<String>, SecretFileError> {
    ring::core::forbid_core_dumps();
    let mut text = Zeroizing::new(String::new());
    let read = stream.take(bytes_max).read_to_string(&mut text);
    read.map_err(|error| SecretFileError::of_io(&error, name))?;
    Ok(text)
}

/// The lines of such a file that count, with their numbers.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads secrets from a stream with this name. Empty lines and comments count for nothing.
///
/// # Errors
/// As above.
pub fn read_from<T: SecretKind>(stream: impl Read, name: &Path) -> Result<Vec<T>, SecretFileError> {
    let shown = name.display();
    let text = text_of(stream, name, SECRET_FILE_BYTES_MAX)?;
    let mut secrets = Vec::new();
    for (number, line) in lines(&text) {
        let wrong = |error: T::Err| format!("{shown}, line {number}: {error}");
        secrets.push(line.parse::<T>().map_err(wrong)?);
    }
    match secrets.len() {
        0 => Err(format!("{shown} has no {}; `{}` makes one", T::NAME, T::MAKER).into()),
        count if count > SECRETS_PER_HOST_MAX => {
            Err(format!("{shown} has {count} {}s, and {SECRETS_PER_HOST_MAX} are the most", T::NAME).into())
        }
        _ => Ok(secrets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_place_of_a_file_is_not_repeated() {
        for given in ["DHHC-1:00:c2VjcmV0/c2VjcmV0:", "/srv/NVMeTLSkey-1:01:c2VjcmV0:"] {
            let error = read::<Secret>(Path::new(given)).err().unwrap().to_string();
            assert!(error.contains("name of its file") && !error.contains("c2Vj"), "{error}");
        }
        let missing = read::<Secret>(Path::new("/nowhere/DHHC-1.key")).err().unwrap().to_string();
        assert!(missing.starts_with("/nowhere/DHHC-1.key cannot be read"), "{missing}");
    }

    #[test]
    fn a_text_for_a_log_has_no_secret() {
        for (text, shown) in [
            ("DHHC-1:00:c2Vj/+A=:", "(secret)"),
            ("`NVMeTLSkey-1:01:c2Vj:` at DHHC-1:, and", "`(secret)` at (secret), and"),
            ("an unknown DHHC-1.key of NVMe", "an unknown DHHC-1.key of NVMe"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}
