//! The static program for any Linux of its processor, with its man pages, completions and documents, to be unpacked anywhere.

use std::path::{Path, PathBuf};

use crate::archive;
use crate::checksums::put;
use crate::contents::{Contents, Entry};
use crate::program::Program;
use crate::release::Release;

/// Writes it, and gives its path.
pub(crate) fn write(release: &Release, contents: &Contents, output: &Path) -> Result<PathBuf, String> {
    let name = name(release);
    // Unpacked over /usr/local, everything is where it is looked for.
    let mut unpacked = Contents::default();
    for (entry, bytes) in contents.files() {
        let path = entry.path.strip_prefix("usr/").unwrap_or(&entry.path);
        unpacked.file(path, entry.mode, bytes.to_vec());
    }
    let tar = archive::tar(unpacked.entries(), &format!("{name}/"), release.date)?;
    put(&output.join(format!("{name}.tar.gz")), &archive::gzip(&tar)?)
}

/// The debug information of its program.
pub(crate) fn write_debug(release: &Release, program: &Program, output: &Path) -> Result<PathBuf, String> {
    let bytes =
        std::fs::read(&program.debug).map_err(|error| format!("{}: {error}", program.debug.display()))?;
    let mut contents = Contents::default();
    contents.file("selvedge.debug", 0o644, bytes);
    let files: Vec<&Entry> = contents.entries().collect();
    let tar = archive::tar(files, &format!("{}-debug/", name(release)), release.date)?;
    put(&output.join(format!("{}-debug.tar.gz", name(release))), &archive::gzip(&tar)?)
}

fn name(release: &Release) -> String {
    format!("selvedge-{}-x86_64-linux", release.version)
}
