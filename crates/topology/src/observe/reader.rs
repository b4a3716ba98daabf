//! Reads values of a machine's files, and keeps what could not be read. What the values are for is not known here.

use std::io;
use std::str::FromStr;

use super::{Machine, ObserveError, Shortfall};
use crate::CpuSet;
use crate::machine::{Refusal, is_absent};

/// Characters of a nonsense that are shown.
pub(super) const SHOWN_CHARACTERS: usize = 60;

/// A machine, and what of it could not be read so far.
pub(super) struct Reader<'a> {
    pub(super) machine: &'a Machine,
    shortfalls: Vec<Shortfall>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
        Self { machine, shortfalls: Vec::new() }
    }

    /// Returns the parts that could not be read.
    pub(super) fn finish(self) -> Vec<Shortfall> {
        self.shortfalls
    }

    /// A file's text without the white space around it; absent where there is no such file, or it cannot be read.
    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        let read = self.machine.read(path);
        self.kept(path, read).map(|text| text.trim().to_owned())
    }

    /// The same; but that it cannot be read is as good as that it is not there, unless root could.
    pub(super) fn optional_text(&mut self, path: &str) -> Option<String> {
        match self.machine.read(path) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => None,
            read => self.kept(path, read).map(|text| text.trim().to_owned()),
        }
    }

    /// Names in a directory.
    pub(super) fn list(&mut self, path: &str) -> Vec<String> {
        let listed = self.machine.list(path);
        self.kept(path, listed).unwrap_or_default()
    }

    /// A symbolic link's text; absent where there is none.
    pub(super) fn link(&mut self, path: &str) -> Option<String> {
        match self.machine.link(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            link => self.kept(path, link),
        }
    }

    /// True if there is such a directory, empty or not.
    pub(super) fn has_directory(&mut self, path: &str) -> bool {
        match self.machine.list(path) {
            Ok(_) => true,
            listed => self.kept(path, listed).is_some(),
        }
    }

    /// A file's value.
    ///
    /// # Errors
    /// When it holds something else.
    pub(super) fn value<T: FromStr>(
        &mut self,
        path: &str,
        expected: &str,
    ) -> Result<Option<T>, ObserveError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.nonsense(path, &text, expected))
    }

    /// A file's set of processors as a list.
    ///
    /// # Errors
    /// When it holds something else.
    pub(super) fn cpus(&mut self, path: &str) -> Result<Option<CpuSet>, ObserveError> {
        self.value(path, "a list of CPUs, as in 0-3,8")
    }

    /// Error for a file with unexpected content.
    pub(super) fn nonsense(&self, path: &str, found: &str, expected: &str) -> ObserveError {
        let found = found.chars().take(SHOWN_CHARACTERS).collect();
        ObserveError::Nonsense { file: self.machine.name(path), found, expected: expected.to_owned() }
    }

    /// Notes what could not be seen, once.
    pub(super) fn shortfall(&mut self, what: &str, reason: &str, needs_root: bool) {
        if !self.shortfalls.iter().any(|known| known.what == what) {
            let (what, reason) = (what.to_owned(), reason.to_owned());
            self.shortfalls.push(Shortfall { what, reason, needs_root });
        }
    }

    /// Notes questions that the kernel refused.
    pub(super) fn refusals(&mut self, refusals: &[Refusal], what: impl Fn(&str) -> String) {
        for refusal in refusals {
            let error = refusal.error();
            let needs_root = error.kind() == io::ErrorKind::PermissionDenied;
            self.shortfall(&what(&refusal.question), &error.to_string(), needs_root);
        }
    }

    /// An answer, or a note of why there is none where it is for another reason than that there is no such file.
    fn kept<T>(&mut self, path: &str, answer: io::Result<T>) -> Option<T> {
        match answer {
            Ok(found) => Some(found),
            Err(error) => {
                if !is_absent(&error) {
                    let needs_root = error.kind() == io::ErrorKind::PermissionDenied;
                    self.shortfall(&format!("/{path}"), &error.to_string(), needs_root);
                }
                None
            }
        }
    }
}

/// The number behind a prefix, where a name is both and nothing else.
pub(super) fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}
