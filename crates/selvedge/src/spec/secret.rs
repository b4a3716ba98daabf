//! Secrets by the files that hold them: a command line can be read by every user of a machine. Which of them a target
//! accepts is the engine's.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use authentication::Secret;
use zeroize::Zeroizing;

/// Permissions by which others than the owner and the group may read a file.
const READABLE_BY_OTHERS: u32 = 0o004;
/// Bytes that are read: a secret has some hundred.
const BYTES_MAX: u64 = 64 << 10;

/// The first secret of a file; `-` is standard input.
///
/// # Errors
/// What is wrong, and what to do.
pub(crate) fn read(path: &Path) -> Result<Secret, String> {
    engine::ring::core::forbid_core_dumps();
    let text = read_text(path)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut secrets = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((number, line)) = secrets.next() else {
        return Err(format!("{} has no secret; `selvedge key generate` makes one", path.display()));
    };
    line.parse().map_err(|error| format!("{}, line {number}: {error}", path.display()))
}

fn read_text(path: &Path) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown} cannot be read: {error}");
    let mut text = Zeroizing::new(String::new());
    if path == Path::new("-") {
        io::stdin().take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // A pipe is nobody's to read but who has it open.
    if metadata.is_file() && metadata.mode() & READABLE_BY_OTHERS != 0 {
        return Err(format!("{shown} can be read by everybody; `chmod o= {shown}` ends that"));
    }
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}
