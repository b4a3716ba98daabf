//! Files of secrets, one a line: who may be able to read them, and what is wrong with one. What the secrets are for is others'
//! to say.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use authentication::Secret;
use zeroize::Zeroizing;

use crate::limits::{SECRET_FILE_BYTES_MAX, SECRETS_PER_HOST_MAX};
use crate::ring;

/// Permissions by which others than the owner and the group may read a file.
const READABLE_BY_OTHERS: u32 = 0o004;

/// Reads the secrets of a file.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn read(path: &Path) -> Result<Vec<Secret>, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown} cannot be read: {error}");
    // Opening a pipe that nobody writes to would wait forever that somebody does.
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    if metadata.mode() & READABLE_BY_OTHERS != 0 {
        return Err(format!("{shown} can be read by everybody; `chmod o= {shown}` ends that"));
    }
    read_from(file, path)
}

/// Reads secrets from a stream with this name. Empty lines and comments count for nothing.
///
/// # Errors
/// As above.
pub fn read_from(stream: impl Read, name: &Path) -> Result<Vec<Secret>, String> {
    ring::core::forbid_core_dumps();
    let shown = name.display();
    let mut text = Zeroizing::new(String::new());
    let read = stream.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let mut secrets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            let wrong = |error| format!("{shown}, line {number}: {error}");
            secrets.push(line.parse().map_err(wrong)?);
        }
    }
    match secrets.len() {
        0 => Err(format!("{shown} has no secret; `selvedge key generate` makes one")),
        count if count > SECRETS_PER_HOST_MAX => {
            Err(format!("{shown} has {count} secrets, and {SECRETS_PER_HOST_MAX} are the most"))
        }
        _ => Ok(secrets),
    }
}
