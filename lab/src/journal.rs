//! Where measured runs are kept: a line of JSON each, and tables beside them. It keeps out what was measured.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// File of runs: a line of JSON each, written as soon as it is known.
pub(crate) struct Journal {
    directory: PathBuf,
    file: std::fs::File,
}

impl Journal {
    /// Begins `runs.jsonl` in `directory` with `environment`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn new(directory: &Path, environment: &Value) -> Result<Journal, String> {
        let path = directory.join("runs.jsonl");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(directory).map_err(failed)?;
        let file = std::fs::File::create(&path).map_err(failed)?;
        let mut journal = Journal { directory: directory.to_owned(), file };
        journal.keep(environment)?;
        Ok(journal)
    }

    /// Keeps one line.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(&mut self, line: &impl serde::Serialize) -> Result<(), String> {
        let text = serde_json::to_string(line).map_err(|error| error.to_string())?;
        writeln!(self.file, "{text}").map_err(|error| format!("the runs cannot be kept: {error}"))
    }

    /// Writes the tables beside the runs.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn summary(&self, text: &str) -> Result<(), String> {
        self.beside("summary.md", text)
    }

    /// Writes a text of this name beside the runs.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn beside(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}
