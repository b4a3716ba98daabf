//! The record that `--verify-state` keeps: which write of which block was acknowledged before each completed
//! Flush, one line of JSON each. It does not read blocks; comparing is the ledger's.
//!
//! Each line is handed to the system with one write, so it survives this process, whatever ends it. A record
//! that is lost makes the later check milder, never wrong: it claims less.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, Written};
use crate::failure::Failure;

const VERSION: u32 = 1;

/// Namespace, run and layout of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub version: u32,
    pub nqn: String,
    pub nsid: u32,
    /// The run that wrote.
    pub writer: u64,
    /// Offset of slot 0 in the namespace, in bytes.
    pub offset: u64,
    /// Bytes of a slot.
    pub block_bytes: u32,
    /// Bytes of the namespace's own blocks.
    pub unit_bytes: u32,
    pub slots: u64,
}

impl Header {
    /// A header in the form of this program.
    pub fn new(nqn: &str, nsid: u32, writer: u64) -> Self {
        let nqn = nqn.to_owned();
        Self { version: VERSION, nqn, nsid, writer, offset: 0, block_bytes: 0, unit_bytes: 0, slots: 0 }
    }
}

/// Entry of the record. Slots come with their generations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Header(Header),
    /// Acknowledged before a Flush that has completed.
    Flushed(Vec<Written>),
    /// Submitted until the end of the run, at most.
    Submitted(Vec<Written>),
    /// All of `Submitted` is there.
    End,
}

/// Writes the record; all jobs share it.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: Mutex<File>,
}

impl Recorder {
    /// Begins a record in a file that must not be there yet: an old record is evidence.
    pub fn create(path: &Path, header: Header) -> Result<Self, Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
            let what = format!("the verify state {} cannot be made: {error}", path.display());
            match error.kind() {
                io::ErrorKind::AlreadyExists => Failure::usage(format!(
                    "{} already exists: check it with --verify-only, or remove it",
                    path.display()
                )),
                _ => Failure::failed(what),
            }
        })?;
        let recorder = Self { path: path.to_owned(), file: Mutex::new(file) };
        recorder.append(&Entry::Header(header))?;
        Ok(recorder)
    }

    /// Records what a Flush made durable.
    pub(crate) fn flushed(&self, written: Vec<Written>) -> Result<(), Failure> {
        self.append(&Entry::Flushed(written))
    }

    /// Records how far writes were submitted, so that nothing newer is accepted later, and ends the record.
    pub fn end(&self, submitted: impl Iterator<Item = Written>) -> Result<(), Failure> {
        self.append(&Entry::Submitted(submitted.collect()))?;
        self.append(&Entry::End)?;
        let file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.sync_data().map_err(|error| self.cannot_write(&error))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append(&self, entry: &Entry) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(entry).map_err(Failure::failed)?;
        bytes.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(&bytes).map_err(|error| self.cannot_write(&error))
    }

    fn cannot_write(&self, error: &io::Error) -> Failure {
        Failure::failed(format!("the verify state {} cannot be written: {error}", self.path.display()))
    }
}

/// A record that was read back.
#[derive(Debug)]
pub struct Record {
    pub header: Header,
    /// For each slot the newest generation that was flushed, and that was submitted.
    accounts: BTreeMap<u64, (u64, u64)>,
    /// True if the run ended in order, with its submitted writes recorded.
    pub ended: bool,
    /// Number of completed Flushes in the record.
    pub flushes: u64,
}

impl Record {
    /// Reads a record. A last line that is not whole is passed over: the run died while it wrote it.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("the verify state {} cannot be read: {error}", path.display()))
        })?;
        Self::parse(&text)
            .map_err(|(line, what)| Failure::usage(format!("{}:{line}: {what}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines().enumerate().map(|(index, line)| {
            serde_json::from_str(line)
                .map(|line| (index + 1, line))
                .map_err(|error| (index + 1, error.to_string()))
        });
        let Some(first) = lines.next() else {
            return Err((1, "this is not a verify state: it is empty".into()));
        };
        let (_, Entry::Header(header)) = first? else {
            return Err((1, "this is not a verify state: it has no header".into()));
        };
        if header.version != VERSION {
            return Err((1, format!("version {} is not known here", header.version)));
        }
        if header.block_bytes == 0
            || header.unit_bytes < 512
            || !header.block_bytes.is_multiple_of(header.unit_bytes)
        {
            return Err((1, "the header is invalid".into()));
        }
        let mut record = Self { header, accounts: BTreeMap::new(), ended: false, flushes: 0 };
        for line in lines {
            let (number, line) = line?;
            match line {
                Entry::Header(_) => return Err((number, "a second header".into())),
                Entry::Flushed(written) => {
                    record.flushes += 1;
                    record.take(number, &written, |account| &mut account.0)?;
                }
                Entry::Submitted(written) => record.take(number, &written, |account| &mut account.1)?,
                Entry::End => record.ended = true,
            }
        }
        Ok(record)
    }

    fn take(
        &mut self,
        line: usize,
        written: &[Written],
        field: impl Fn(&mut (u64, u64)) -> &mut u64,
    ) -> Result<(), (usize, String)> {
        for &(slot, generation) in written {
            if slot >= self.header.slots || generation == 0 || generation > u64::from(u32::MAX) {
                return Err((line, format!("block {slot} generation {generation} is out of range")));
            }
            let field = field(self.accounts.entry(slot).or_default());
            *field = generation.max(*field);
        }
        Ok(())
    }

    /// The ledger of the slots from `first` on, for the job that checks them.
    pub(crate) fn ledger(&self, first: u64, slots: u64) -> Ledger {
        let mut ledger = Ledger::recorded(slots, self.header.writer, self.ended);
        for (&slot, &(flushed, submitted)) in self.accounts.range(first..first + slots) {
            ledger.record(slot - first, flushed, submitted);
        }
        ledger
    }

    /// Blocks that must still be there.
    pub fn flushed_blocks(&self) -> u64 {
        self.accounts.values().filter(|(flushed, _)| *flushed > 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stamp::Expected;

    fn header() -> Header {
        Header { block_bytes: 4096, unit_bytes: 512, slots: 100, ..Header::new("nqn.a", 1, 7) }
    }

    #[test]
    fn a_record_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let recorder = Recorder::create(&path, header()).unwrap();
        recorder.flushed(vec![(3, 1), (4, 1)]).unwrap();
        recorder.flushed(vec![(3, 2)]).unwrap();
        recorder.end([(3, 4), (4, 1), (50, 1)].into_iter()).unwrap();
        assert!(matches!(Recorder::create(&path, header()), Err(Failure::Usage(_))));
        let record = Record::read(&path).unwrap();
        assert_eq!(record.header, header());
        assert!(record.ended);
        assert_eq!((record.flushes, record.flushed_blocks()), (2, 2));
        let mut ledger = record.ledger(3, 10);
        assert_eq!(ledger.begin_read(0), Some(Expected::Between { min: 2, max: Some(4), writer: 7 }));
        assert!(!ledger.is_written(2));
        assert_eq!(
            record.ledger(50, 1).begin_read(0),
            Some(Expected::Between { min: 0, max: Some(1), writer: 7 })
        );
    }

    #[test]
    fn a_record_that_broke_off_is_used_as_far_as_it_goes() {
        let line = |entry: &Entry| serde_json::to_string(entry).unwrap() + "\n";
        let mut text = line(&Entry::Header(header())) + &line(&Entry::Flushed(vec![(1, 5)]));
        text += "{\"flushed\":[[1,";
        let record = Record::parse(&text).unwrap();
        assert!(!record.ended);
        assert_eq!(
            record.ledger(0, 2).begin_read(1),
            Some(Expected::Between { min: 5, max: None, writer: 7 })
        );
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let head = serde_json::to_string(&Entry::Header(header())).unwrap();
        for (text, number, expected) in [
            (String::new(), 1, "empty"),
            ("{}\n".into(), 1, ""),
            ("\"end\"\n".into(), 1, "no header"),
            (format!("{head}\n{{\"flushed\":[[100,1]]}}\n"), 2, "out of range"),
            (format!("{head}\n{{\"flushed\":[[1,0]]}}\n"), 2, "out of range"),
            (format!("{head}\nrubbish\n"), 2, ""),
            (format!("{head}\n{head}\n"), 2, "second header"),
            (format!("{}\n", head.replace("\"version\":1", "\"version\":9")), 1, "version 9"),
        ] {
            let (line, what) = Record::parse(&text).unwrap_err();
            assert_eq!(line, number, "{text}: {what}");
            assert!(what.contains(expected), "{text}: {what}");
        }
    }
}
