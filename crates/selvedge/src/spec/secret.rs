//! A host's secret by the file that holds it: a command line can be read by every user of a machine. Which secrets a target
//! accepts is the engine's.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use authentication::Secret;
use engine::secret_file;

/// The first secret of a file; `-` is standard input, and a pipe is nobody's to read but whoever has it open.
///
/// # Errors
/// What is wrong, and what to do.
pub(crate) fn read(path: &Path) -> Result<Secret, String> {
    let failed = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let is_pipe = || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    let secrets = if path == Path::new("-") {
        secret_file::read_from(io::stdin(), path)
    } else if is_pipe() {
        secret_file::read_from(File::open(path).map_err(failed)?, path)
    } else {
        secret_file::read(path)
    };
    secrets
        .map_err(|error| error.to_string())?
        .into_iter()
        .next()
        .ok_or_else(|| format!("{} has no secret", path.display()))
}
