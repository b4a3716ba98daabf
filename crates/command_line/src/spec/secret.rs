//! Secrets and TLS keys by the file that holds them: a command line can be read by every user of a machine. Which ones a
//! target accepts is the engine's.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::str::FromStr;

use authentication::Secret;
use engine::secret_file::{self, SecretKind};
use secure_channel::ConfiguredPsk;

/// Content of a file of secrets for hosts.
pub enum Key {
    /// By which a host authenticates.
    Secret(Secret),
    /// Of its TLS connections.
    Tls(ConfiguredPsk),
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("NVMeTLSkey") {
            text.parse().map(Self::Tls).map_err(|error: secure_channel::ConfiguredPskError| error.to_string())
        } else {
            text.parse().map(Self::Secret).map_err(|error: authentication::SecretError| error.to_string())
        }
    }
}

impl SecretKind for Key {
    const NAME: &'static str = "secret or TLS key";
    const MAKER: &'static str = "selvedge key generate";
}

/// The first secret of a file.
///
/// # Errors
/// What is wrong, and what to do.
pub fn read<T: SecretKind>(path: &Path) -> Result<T, String> {
    let first = read_all(path)?.into_iter().next();
    first.ok_or_else(|| format!("{} has no {}", path.display(), T::NAME))
}

/// Reads the secrets of a file; `-` is standard input. A pipe is accepted, since only the processes
/// that have it open can read it.
///
/// # Errors
/// What is wrong, and what to do.
pub fn read_all<T: SecretKind>(path: &Path) -> Result<Vec<T>, String> {
    let failed = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let is_pipe = || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    let secrets = if path == Path::new("-") {
        secret_file::read_from(io::stdin(), path)
    } else if is_pipe() {
        secret_file::read_from(File::open(path).map_err(failed)?, path)
    } else {
        secret_file::read(path)
    };
    secrets.map_err(|error| error.to_string())
}
