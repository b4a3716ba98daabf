//! Journal of a running sweep: a file to which a line is appended, and made durable, after each
//! measurement; an interruption costs one measurement at most. The module does not decide what is
//! measured.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::advice::Surroundings;
use super::measurement::{Measurement, QUANTILES};
use super::plan::{Plan, PlannedRun};
use crate::failure::Failure;
use crate::report::document::FactGroup;

/// The file's name in a sweep's folder.
pub const NAME: &str = "sweep.jsonl";

/// Version of the format of lines. A program reads the versions that it knows.
const FORMAT: u32 = 1;

/// Longest line that is read: what is longer was not written by this program.
const LINE_BYTES_MAX: usize = 4 << 20;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    format: u32,
    pub version: String,
    /// In UTC, as RFC 3339 has it.
    pub began: String,
    pub plan: Plan,
    /// Namespace under test.
    #[serde(rename = "ground")]
    pub identity: Identity,
    /// The machine, the target.
    pub facts: Vec<FactGroup>,
    /// At which quantiles the latencies of measurements are.
    quantiles: Vec<f64>,
}

/// Identity of a namespace, and facts about the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub nqn: String,
    pub nsid: u32,
    pub bytes: u64,
    /// UUID or NGUID, if the namespace has one.
    pub unique: Option<String>,
    pub surroundings: Surroundings,
}

/// Any other line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Run(Box<Run>),
    Failure {
        #[serde(rename = "visit")]
        planned: PlannedRun,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    #[serde(rename = "visit")]
    planned: PlannedRun,
    measurement: Measurement,
}

/// A sweep's file, and what is in it.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    pub header: Header,
    runs: BTreeMap<PlannedRun, Measurement>,
    failures: BTreeMap<PlannedRun, String>,
}

impl Header {
    /// Of a sweep that begins now, `began` in RFC 3339's form.
    pub fn new(plan: Plan, facts: Vec<FactGroup>, identity: Identity, began: String) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: FORMAT, version, began, plan, identity, facts, quantiles: QUANTILES.to_vec() }
    }
}

impl Journal {
    /// Begins a sweep in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When another sweep is in it, or the system says no.
    pub fn create(folder: &Path, header: Header) -> Result<Self, Failure> {
        let path = folder.join(NAME);
        let cannot = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::usage(format!(
                "{} contains a sweep: continue it with --resume, or choose another --output",
                folder.display()
            )),
            _ => Failure::failed(format!("{}: {error}", path.display())),
        };
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(cannot)?;
        let mut journal = Self { file, path, header, runs: BTreeMap::new(), failures: BTreeMap::new() };
        let line = serde_json::to_string(&journal.header).map_err(Failure::failed)?;
        journal.append(&line)?;
        // The file's own entry is durable once its folder is.
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
        Ok(journal)
    }

    /// Reads a sweep, to go on with it. A last line that was cut off is taken away.
    ///
    /// # Errors
    /// When there is none, or it is damaged: the line.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        Self::load(folder, OpenOptions::new().read(true).append(true))
    }

    /// Reads a sweep, to report on it.
    ///
    /// # Errors
    /// When there is none, or it is damaged: the line.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        Self::load(folder, OpenOptions::new().read(true))
    }

    fn load(folder: &Path, options: &OpenOptions) -> Result<Self, Failure> {
        let path = folder.join(NAME);
        let cannot = |error: io::Error| {
            Failure::usage(match error.kind() {
                io::ErrorKind::NotFound => format!("{} contains no sweep", folder.display()),
                _ => format!("{}: {error}", path.display()),
            })
        };
        let file = options.open(&path).map_err(cannot)?;
        let mut lines = LineReader::new(&file);
        let damaged = |number: usize, reason: &dyn std::fmt::Display| {
            Failure::usage(format!("{} line {number}: {reason}", path.display()))
        };
        let first = lines.next().map_err(cannot)?;
        let first = first.ok_or_else(|| damaged(1, &"the sweep's description is not whole"))?;
        let header: Header = serde_json::from_str(&first).map_err(|error| damaged(1, &error))?;
        if header.format != FORMAT {
            return Err(damaged(
                1,
                &format!("its format is {}, and this program knows {FORMAT}", header.format),
            ));
        }
        header.plan.check().map_err(|reason| damaged(1, &reason))?;
        let (mut runs, mut failures) = (BTreeMap::new(), BTreeMap::new());
        let points = header.plan.points().len();
        while let Some(line) = lines.next().map_err(cannot)? {
            match serde_json::from_str(&line).map_err(|error| damaged(lines.number, &error))? {
                Entry::Run(run) if run.planned.point < points => {
                    failures.remove(&run.planned);
                    runs.insert(run.planned, run.measurement);
                }
                Entry::Failure { planned, reason } if planned.point < points => {
                    failures.insert(planned, reason);
                }
                _ => return Err(damaged(lines.number, &"it is about a point that the sweep does not have")),
            }
        }
        let whole_bytes = lines.whole_bytes;
        let mut journal = Self { file, path, header, runs, failures };
        journal.cut(whole_bytes)?;
        Ok(journal)
    }

    /// Takes away what is behind the last whole line, where the file can be written.
    fn cut(&mut self, whole_bytes: u64) -> Result<(), Failure> {
        let cannot = |error| Failure::failed(format!("{}: {error}", self.path.display()));
        let length = self.file.seek(SeekFrom::End(0)).map_err(cannot)?;
        let is_writable =
            rustix::fs::fcntl_getfl(&self.file).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::APPEND));
        if length > whole_bytes && is_writable {
            self.file.set_len(whole_bytes).map_err(cannot)?;
        }
        Ok(())
    }

    /// Keeps a measurement.
    ///
    /// # Errors
    /// When it cannot be made durable.
    pub fn keep(&mut self, planned: PlannedRun, measurement: Measurement) -> Result<(), Failure> {
        let run = Entry::Run(Box::new(Run { planned, measurement: measurement.clone() }));
        self.append(&serde_json::to_string(&run).map_err(Failure::failed)?)?;
        self.failures.remove(&planned);
        self.runs.insert(planned, measurement);
        Ok(())
    }

    /// Keeps why a measurement failed.
    ///
    /// # Errors
    /// When it cannot be made durable.
    pub fn keep_failure(&mut self, planned: PlannedRun, reason: &str) -> Result<(), Failure> {
        let failure = Entry::Failure { planned, reason: reason.to_owned() };
        self.append(&serde_json::to_string(&failure).map_err(Failure::failed)?)?;
        self.failures.insert(planned, reason.to_owned());
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<(), Failure> {
        let written =
            self.file.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Failure::failed(format!("{}: {error}", self.path.display())))
    }

    /// True if a measurement has been made.
    pub fn has(&self, planned: PlannedRun) -> bool {
        self.runs.contains_key(&planned)
    }

    /// Number of measurements made.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Number of failed measurements that were not made since.
    pub fn failure_count(&self) -> usize {
        self.failures.len()
    }

    /// Measurements of a point.
    pub fn measurements(&self, point: usize) -> impl Iterator<Item = &Measurement> {
        self.runs
            .iter()
            .filter(move |(planned, _)| planned.point == point)
            .map(|(_, measurement)| measurement)
    }

    /// Why measurements of a point failed.
    pub fn failures(&self, point: usize) -> impl Iterator<Item = &str> {
        self.failures
            .iter()
            .filter(move |(planned, _)| planned.point == point)
            .map(|(_, reason)| reason.as_str())
    }

    /// Seconds of the sweep that have passed at the last measurement.
    pub fn lasted_s(&self) -> f64 {
        self.runs.values().map(|run| run.at_s).fold(0.0, f64::max)
    }
}

/// The whole lines of a file.
struct LineReader<'a> {
    reader: BufReader<&'a File>,
    number: usize,
    whole_bytes: u64,
}

impl<'a> LineReader<'a> {
    fn new(file: &'a File) -> Self {
        Self { reader: BufReader::new(file), number: 0, whole_bytes: 0 }
    }

    /// The next line that has its end.
    fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut bounded = io::Read::take(&mut self.reader, LINE_BYTES_MAX as u64);
        let length = bounded.read_until(b'\n', &mut line)?;
        self.number += 1;
        if line.pop() != Some(b'\n') {
            return if length >= LINE_BYTES_MAX {
                Err(io::Error::new(io::ErrorKind::InvalidData, format!("line {} is too long", self.number)))
            } else {
                Ok(None)
            };
        }
        self.whole_bytes += length as u64;
        String::from_utf8(line).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
