//! A recording of a machine: files, links and refusals by their paths, as one text with a line for each. What is asked
//! of the machine is not here.
//!
//! A line is a letter, a space, a path without the leading slash, a tab and a value: `F` a file and its text, `L` a
//! symbolic link and its target, `E` what could not be read and why (`13 Permission denied`), `D` a directory of which
//! nothing else is kept, without a value. In paths and values `\n`, `\t`, `\r` and `\\` stand for a newline, a tab, a
//! carriage return and a backslash. Empty lines, and those that begin with `#`, say nothing. Directories follow from
//! the paths of what is in them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::io::Errno;

/// The first line of what is written, for a person.
const TITLE: &str = "# A machine as Selvedge saw it: F file, L symbolic link, D directory, E error.";

/// Recorded entries of a machine, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording(BTreeMap<String, Entry>);

/// Recorded entry of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(String),
    Link(String),
    Directory,
    Error { errno: i32, reason: String },
}

/// Why a text is not a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RecordingError {
    /// The line, from 1.
    pub line: usize,
    /// Description of the fault.
    pub reason: String,
}

impl Entry {
    pub(super) fn error(error: &io::Error) -> Self {
        let errno = super::answers::errno(error);
        Self::Error { errno, reason: words(errno) }
    }
}

/// The system's words for an error, without its number.
fn words(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl Recording {
    /// Adds a file, in place of what was there.
    pub fn file(&mut self, path: &str, text: &str) {
        self.put(path, Entry::File(text.to_owned()));
    }

    /// Adds a symbolic link, in place of what was there.
    pub fn symbolic_link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// Adds something that cannot be read, in place of what was there.
    pub fn refusal(&mut self, path: &str, errno: i32) {
        self.put(path, Entry::Error { errno, reason: words(errno) });
    }

    /// Adds a file with a value as JSON, in place of what was there.
    pub(super) fn put_json<T: serde::Serialize>(&mut self, path: &str, value: &T) {
        let mut text = serde_json::to_string(value).unwrap_or_default();
        text.push('\n');
        self.file(path, &text);
    }

    pub(super) fn put(&mut self, path: &str, entry: Entry) {
        // A directory that is read later must not hide the link by which it was reached.
        if entry != Entry::Directory || !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), entry);
        }
    }

    /// Adds a name of which nothing else may ever be known.
    pub(super) fn imply(&mut self, path: &str) {
        self.put(path, Entry::Directory);
    }

    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        match self.0.get(path) {
            Some(Entry::File(text)) => Ok(text.clone()),
            Some(Entry::Error { errno, .. }) => Err(io::Error::from_raw_os_error(*errno)),
            Some(Entry::Link(_) | Entry::Directory) => Err(Errno::ISDIR.into()),
            None if self.children(path).next().is_some() => Err(Errno::ISDIR.into()),
            None => Err(self.absent(path)),
        }
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self.children(path).map(str::to_owned).collect();
        names.dedup();
        match self.0.get(path) {
            Some(Entry::Error { errno, .. }) => Err(io::Error::from_raw_os_error(*errno)),
            Some(Entry::File(_)) => Err(Errno::NOTDIR.into()),
            None if names.is_empty() => Err(self.absent(path)),
            _ => {
                names.sort();
                names.dedup();
                Ok(names)
            }
        }
    }

    pub(super) fn link(&self, path: &str) -> io::Result<String> {
        match self.0.get(path) {
            Some(Entry::Link(target)) => Ok(target.clone()),
            Some(Entry::Error { errno, .. }) => Err(io::Error::from_raw_os_error(*errno)),
            Some(Entry::File(_) | Entry::Directory) => Err(Errno::INVAL.into()),
            None if self.children(path).next().is_some() => Err(Errno::INVAL.into()),
            None => Err(self.absent(path)),
        }
    }

    /// Names of what is directly below a path, one after the other for each entry below it.
    fn children<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> {
        let prefix = format!("{path}/");
        let length = prefix.len();
        let below = self.0.range(prefix.clone()..).map(|(key, _)| key.as_str());
        let below = below.take_while(move |key| key.starts_with(&prefix));
        below.filter_map(move |key| key[length..].split('/').next())
    }

    /// Why there is nothing: because something above it could not be read, or because there is nothing.
    fn absent(&self, path: &str) -> io::Error {
        let above = std::iter::successors(path.rsplit_once('/'), |(parent, _)| parent.rsplit_once('/'));
        for (parent, _) in above {
            if let Some(Entry::Error { errno, .. }) = self.0.get(parent) {
                return io::Error::from_raw_os_error(*errno);
            }
        }
        Errno::NOENT.into()
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        for (path, entry) in &self.0 {
            let path_text = escaped(path);
            match entry {
                Entry::File(text) => writeln!(f, "F {path_text}\t{}", escaped(text))?,
                Entry::Link(target) => writeln!(f, "L {path_text}\t{}", escaped(target))?,
                Entry::Error { errno, reason } => writeln!(f, "E {path_text}\t{errno} {}", escaped(reason))?,
                // Where something below it is kept, it follows from that.
                Entry::Directory if self.children(path).next().is_some() => {}
                Entry::Directory => writeln!(f, "D {path_text}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Recording {
    type Err = RecordingError;

    fn from_str(text: &str) -> Result<Self, RecordingError> {
        let mut recording = Self::default();
        for (at, line) in text.split('\n').enumerate() {
            let error = |reason: String| RecordingError { line: at + 1, reason };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (path, entry) = entry(line).map_err(error)?;
            if recording.0.contains_key(&path) {
                return Err(error(format!("`{path}` is here for the second time")));
            }
            recording.0.insert(path, entry);
        }
        Ok(recording)
    }
}

fn entry(line: &str) -> Result<(String, Entry), String> {
    let (letter, rest) =
        line.split_once(' ').ok_or("the line is not a letter, space, path, tab and value")?;
    let (path, value) = match (letter, rest.split_once('\t')) {
        ("D", None) => (rest, ""),
        ("D", Some(_)) => return Err("a directory has no value".to_owned()),
        (_, Some(parts)) => parts,
        (_, None) => return Err("there is no tab between path and value".to_owned()),
    };
    let path = unescaped(path)?;
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    if !path.split('/').all(is_name) {
        return Err(format!("`{path}` is not a path relative to the root, such as `sys/class/net`"));
    }
    let value = unescaped(value)?;
    let entry = match letter {
        "F" => Entry::File(value),
        "L" if value.is_empty() => return Err("a link needs a target".to_owned()),
        "L" => Entry::Link(value),
        "D" => Entry::Directory,
        "E" => {
            let (number, reason) = value.split_once(' ').unwrap_or((&value, ""));
            let errno = number.parse().ok().filter(|errno| (1..4096).contains(errno));
            let errno = errno.ok_or_else(|| format!("`{number}` is not an error number"))?;
            Entry::Error { errno, reason: reason.to_owned() }
        }
        _ => return Err(format!("`{letter}` is none of F, L, D and E")),
    };
    Ok((path, entry))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            '\\' => escaped.push_str("\\\\"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match characters.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('\\') => '\\',
            _ => return Err("after a backslash comes n, t, r or a backslash".to_owned()),
        });
    }
    Ok(plain)
}
