//! SHA-256 of what was made, as `sha256sum -c` reads it.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// In hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes SHA256SUMS for `files`, which are in `output`.
pub(crate) fn write(files: &[PathBuf], output: &Path) -> Result<(), String> {
    let mut lines = Vec::new();
    for file in files {
        let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.push((name, sha256(&bytes)));
    }
    lines.sort();
    let text: String = lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    put(&output.join("SHA256SUMS"), text.as_bytes()).map(drop)
}

/// Writes one file, and gives its path.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<PathBuf, String> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.to_path_buf())
}
