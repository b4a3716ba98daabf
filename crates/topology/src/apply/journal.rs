//! What was before each change, on disk before the change is made. Undoing it is `restore`'s.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::reach;
use super::settings::{Settings, named, queue_files};
use crate::limits::SYSTEM_FILE_BYTES_MAX;
use crate::plan::Change;
use crate::{Channels, CpuSet, NtupleRule};
use private_folder::PrivateFileError;
use private_folder::PrivateFolder;

/// A setting as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "was")]
pub enum Before {
    /// A file, byte for byte.
    File {
        /// Content of the file.
        content: String,
    },
    /// Numbers of queues, and the queues' files, byte for byte.
    Channels {
        /// The numbers.
        channels: Channels,
        /// Path and content of each.
        files: Vec<(String, String)>,
    },
    /// State of the switch for rules.
    Ntuple {
        /// True if rules were switched on.
        on: bool,
    },
    /// The rule at the place.
    Rule {
        /// The rule, if any.
        rule: Option<NtupleRule>,
    },
    /// The table of receive side scaling.
    Table {
        /// All its entries.
        table: Vec<u32>,
    },
    /// A thread's processors.
    Thread {
        /// The processors.
        cpus: CpuSet,
        /// Start time of the thread.
        started: u64,
    },
}

impl Before {
    /// Reads the present setting, before the change.
    pub(super) fn of(settings: &dyn Settings, change: &Change) -> io::Result<Self> {
        let before = match change {
            Change::Channels { interface, .. } => settings.channels(interface).and_then(|channels| {
                Ok(Self::Channels { channels, files: queue_files(settings, interface)? })
            }),
            Change::NtupleOn { interface } => settings.ntuple(interface).map(|on| Self::Ntuple { on }),
            Change::Rule { interface, rule } => {
                settings.rule(interface, rule.location).map(|rule| Self::Rule { rule })
            }
            Change::RssTable { interface, .. } => {
                settings.rss_table(interface).map(|table| Self::Table { table })
            }
            Change::Thread { thread, .. } => {
                settings.thread(*thread).map(|(cpus, started)| Self::Thread { cpus, started })
            }
            Change::Affinity { .. } | Change::Xps { .. } | Change::Rps { .. } => {
                settings.read(&change.file().unwrap_or_default()).map(|content| Self::File { content })
            }
        };
        before.map_err(|error| named(change, error))
    }
}

/// A change that was made or was about to be, and what was before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The change.
    pub change: Change,
    /// Former setting.
    pub before: Before,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// Version of this form.
    tune_journal: u32,
    boot_id: String,
    /// The network namespace, where the kernel tells.
    #[serde(default)]
    network_cookie: Option<u64>,
    /// Seconds since 1970.
    begun_s: u64,
    changes: usize,
}

/// Entry after the head, a line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum JournalEntry {
    Record(Box<Record>),
    Complete { complete: bool },
}

/// The version of the form that is written.
const VERSION: u32 = 1;

/// A journal with its lock: no other process changes settings meanwhile.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    folder: PrivateFolder,
    name: OsString,
    file: File,
    /// Bytes it has.
    length: usize,
    head: Head,
    records: Vec<Record>,
    is_complete: bool,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A journal exists.
    #[error(
        "a plan was applied {ago} ago and is in effect (its journal is {path}): `selvedge tune revert` undoes it, then \
         apply again"
    )]
    InEffect {
        /// Path of the journal.
        path: String,
        /// For how long.
        ago: String,
    },
    /// There is none.
    #[error("no plan is in effect: there is no journal {path}")]
    None {
        /// Path at which a journal would be.
        path: String,
    },
    /// Another process holds the lock.
    #[error("another process applies or undoes a plan at this moment (it holds {path})")]
    Held {
        /// Path of the journal.
        path: String,
    },
    /// Another user could have written the journal, and its content is executed as root.
    #[error("the journal is not believed: {0}; nothing was changed")]
    NotOurs(PrivateFileError),
    /// The file has further names, one of which may be in another user's folder.
    #[error("{path} has {count} names (hard links); the journal is not believed, and nothing was changed")]
    Linked {
        /// Path of the journal.
        path: String,
        /// Number of names.
        count: u64,
    },
    /// The file is longer than any journal.
    #[error("{path} has more than {SYSTEM_FILE_BYTES_MAX} bytes, which no journal has; nothing was undone")]
    TooLong {
        /// Path of the journal.
        path: String,
    },
    /// The file is not a journal.
    #[error("{path}, line {line}: {reason}; nothing was undone")]
    NoSense {
        /// Path of the journal.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Description of the fault.
        reason: String,
    },
    /// The system refuses.
    #[error("{path}: {error}{}", hint(error))]
    Io {
        /// Path of the journal.
        path: String,
        /// Error of the system.
        error: io::Error,
    },
}

impl From<PrivateFileError> for JournalError {
    fn from(error: PrivateFileError) -> Self {
        match error {
            PrivateFileError::Io { path, source, .. } => {
                Self::Io { path: path.display().to_string(), error: source }
            }
            error => Self::NotOurs(error),
        }
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": changing the machine's settings takes root",
        _ => "",
    }
}

impl Journal {
    /// Begins a journal.
    ///
    /// # Errors
    /// When there is one, or it cannot be made.
    pub(super) fn begin(path: &Path, settings: &dyn Settings, changes: usize) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Io { path: path.display().to_string(), error };
        let (above, name) = split(path)?;
        let folder = PrivateFolder::make(above)?;
        let file = match folder.create_new(&name) {
            Err(PrivateFileError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                return Err(in_effect(path));
            }
            created => created?,
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
        let head = Head {
            tune_journal: VERSION,
            boot_id: settings.boot_id(),
            network_cookie: settings.network_cookie(),
            begun_s: now_s(),
            changes,
        };
        let mut journal = Self {
            path: path.to_owned(),
            folder,
            name,
            file,
            length: 0,
            head: head.clone(),
            records: Vec::new(),
            is_complete: false,
        };
        if let Err(error) = journal.append(&head) {
            // An empty one would say that a plan is in effect.
            let _ = journal.remove();
            return Err(error);
        }
        Ok(journal)
    }

    /// Opens the one that is there. A last line that was cut short was never followed by its change, and is passed over.
    ///
    /// # Errors
    /// When there is none, another process holds it, another user could have written it, or it is invalid.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let shown = || path.display().to_string();
        let failed = |error: PrivateFileError| match error.is_missing() {
            true => JournalError::None { path: shown() },
            false => error.into(),
        };
        let (above, name) = split(path)?;
        let folder = PrivateFolder::open(above).map_err(failed)?;
        let file = folder.open_to_append(&name).map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Held { path: shown() })?;
        let text = read(&file, path)?;
        let (head, records, is_complete) = parse(&text, path)?;
        Ok(Self { path: path.to_owned(), folder, name, file, length: text.len(), head, records, is_complete })
    }

    /// Changes made, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// True if all changes of the plan were made. False if the process that made them ended before.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Identifier of the boot that the changes belong to. Empty before the first change.
    pub fn boot_id(&self) -> &str {
        &self.head.boot_id
    }

    /// Cookie of the network namespace that the changes belong to, if known.
    pub const fn network_cookie(&self) -> Option<u64> {
        self.head.network_cookie
    }

    pub(super) fn record(&mut self, record: Record) -> Result<(), JournalError> {
        self.append(&record)?;
        self.records.push(record);
        Ok(())
    }

    pub(super) fn complete(&mut self) -> Result<(), JournalError> {
        self.append(&JournalEntry::Complete { complete: true })
    }

    /// Takes it away: nothing is left to be undone.
    pub(super) fn remove(self) -> Result<(), JournalError> {
        Ok(self.folder.remove(&self.name)?)
    }

    /// Writes a line with one call, and waits until it is on the disk, if it is one.
    fn append(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let written = serde_json::to_string(line).map_err(io::Error::from).and_then(|mut text| {
            text.push('\n');
            // What would not be read again is not written, and its change is not made.
            self.length = self.length.saturating_add(text.len());
            if self.length > SYSTEM_FILE_BYTES_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let room = room_for(text.len());
            self.file.write_all(&text.as_bytes()[..room])?;
            if room < text.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.file.sync_data()
        });
        written.map_err(|error| JournalError::Io { path: self.path.display().to_string(), error })
    }
}

/// Simulated space of the disk, for tests.
#[cfg(not(test))]
const fn room_for(length: usize) -> usize {
    length
}

#[cfg(test)]
use super::tests::room_for;

/// The folder of a journal and its name there.
fn split(path: &Path) -> Result<(&Path, OsString), JournalError> {
    let Some(name) = path.file_name() else {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it names no file");
        return Err(JournalError::Io { path: path.display().to_string(), error });
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((above.unwrap_or(Path::new(".")), name.to_owned()))
}

/// All of a journal that has one name. What it says of a file that was cut at some length would undo a part.
fn read(file: &File, path: &Path) -> Result<String, JournalError> {
    let failed = |error: io::Error| JournalError::Io { path: path.display().to_string(), error };
    let count = file.metadata().map_err(failed)?.nlink();
    if count != 1 {
        return Err(JournalError::Linked { path: path.display().to_string(), count });
    }
    let mut text = String::new();
    file.take(SYSTEM_FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() > SYSTEM_FILE_BYTES_MAX {
        return Err(JournalError::TooLong { path: path.display().to_string() });
    }
    Ok(text)
}

/// Reads the lines of a journal. The flag is set if the last line marks it as complete.
fn parse(text: &str, path: &Path) -> Result<(Head, Vec<Record>, bool), JournalError> {
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut lines = whole.lines().enumerate();
    let wrong = |at: usize, reason: String| {
        let path = path.display().to_string();
        JournalError::NoSense { path, line: at + 1, reason }
    };
    let head: Head = match lines.next() {
        Some((at, line)) => serde_json::from_str(line).map_err(|error| wrong(at, error.to_string()))?,
        // It was begun and no more: nothing has been changed.
        None => Head {
            tune_journal: VERSION,
            boot_id: String::new(),
            network_cookie: None,
            begun_s: now_s(),
            changes: 0,
        },
    };
    let (mut records, mut is_complete) = (Vec::new(), false);
    for (at, line) in lines {
        match serde_json::from_str(line).map_err(|error| wrong(at, error.to_string()))? {
            JournalEntry::Record(record) => {
                reach::check(&record).map_err(|reason| wrong(at, reason))?;
                records.push(*record);
            }
            JournalEntry::Complete { complete } => is_complete = complete,
        }
    }
    Ok((head, records, is_complete))
}

fn in_effect(path: &Path) -> JournalError {
    let shown = path.display().to_string();
    let begun_s = match Journal::open(path) {
        Ok(journal) => journal.head.begun_s,
        Err(error @ (JournalError::Held { .. } | JournalError::NotOurs(_) | JournalError::Linked { .. })) => {
            return error;
        }
        Err(_) => now_s(),
    };
    let ago = now_s().saturating_sub(begun_s);
    let ago = match ago {
        0..120 => format!("{ago} s"),
        120..7_200 => format!("{} min", ago / 60),
        _ => format!("{} h", ago / 3_600),
    };
    JournalError::InEffect { path: shown, ago }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
