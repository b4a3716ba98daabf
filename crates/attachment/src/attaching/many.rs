//! `selvedge attach serve`: all disks of a file, each by paths and threads of its own, until a signal ends them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;

use attach::ublk::FoundDevice;

use super::confined::{self, Prepared};
use super::record::{CommandLine, KnownRecord};
use super::{AttachProcess, check, recover, serve};
use crate::attach_file::{self, DiskTable};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::attach::{AttachFlags, HostMetricsFlags};
use crate::flags::confinement::ConfinementKindFlags;

/// Arguments of `attach serve`.
pub(super) struct Asked<'a> {
    pub(super) config: &'a Path,
    /// The disks by their names; none are all.
    pub(super) disks: &'a [String],
    /// True to check the file without connecting.
    pub(super) is_check: bool,
    pub(super) metrics: &'a HostMetricsFlags,
    pub(super) confinement: &'a ConfinementKindFlags,
    pub(super) format: OutputFormat,
}

/// Serves them, or checks the file.
pub(super) fn run(asked: &Asked<'_>) -> Result<(), Failure> {
    let tables = tables(asked.config, asked.disks)?;
    for table in &tables {
        of_table(table, check(&table.flags))?;
    }
    asked.metrics.listener().map_err(Failure::usage)?;
    if asked.is_check {
        let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
        eprintln!("{} is valid: {}", asked.config.display(), names.join(", "));
        return Ok(());
    }
    // Threads are like the one that starts them. Where a disk cannot be prepared, the others are served all the same.
    let prepared: Vec<_> = tables.iter().map(|table| confined::prepare(&table.flags)).collect();
    let lines = tables.iter().map(|table| line(asked.config, table)).collect::<Result<Vec<_>, _>>()?;
    let own_line = CommandLine::here()?;
    let disks: Vec<&AttachFlags> = tables.iter().map(|table| &*table.flags).collect();
    confined::confine(asked.confinement, &disks)?;
    let process = AttachProcess::begin(own_line, lines.iter(), asked.metrics)?;
    thread::scope(|scope| {
        let begin = |((table, line), prepared): ((DiskTable, CommandLine), Result<Prepared, Failure>)| {
            let DiskTable { name, mut flags, .. } = table;
            flags.output.output_format = asked.format;
            let threads = thread::Builder::new().name(format!("disk-{name}"));
            let process = &process;
            threads.spawn_scoped(scope, move || {
                let previous = previous(&line, &mut flags);
                let served = prepared.and_then(|prepared| serve(&flags, line, previous, process, prepared));
                let outcome = of_disk(&name, served);
                // The others are served on; the error of this one is printed at once.
                if let Some(line) = outcome.as_ref().err().and_then(Failure::line) {
                    eprintln!("selvedge: {line}");
                }
                outcome
            })
        };
        let mut outcome = Ok(());
        let started: Vec<_> = tables.into_iter().zip(lines).zip(prepared).map(begin).collect();
        for thread in started {
            let ended = match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(ended)) => ended,
                Ok(Err(_)) => Err(Failure::failed("a thread that served a disk has panicked; see the log")),
                Err(error) => Err(Failure::failed(format!("cannot start a thread for a disk: {error}"))),
            };
            outcome = outcome.and(ended);
        }
        // The error has been printed already: only the exit status is left.
        outcome.map_err(|failure| match failure {
            Failure::Failed(_) | Failure::Usage(_) => Failure::failed("not all disks were served to the end"),
            other => other,
        })
    })
}

/// Returns the record of an ended process with the same disk, whose block devices wait for another
/// one.
fn previous(line: &CommandLine, flags: &mut AttachFlags) -> Option<KnownRecord> {
    let found = FoundDevice::all().ok().filter(|_| flags.ublk)?;
    let is_same = |known: &KnownRecord| {
        known.record.arguments == line.arguments && !known.recoverable(&found).is_empty()
    };
    let known = KnownRecord::all().into_iter().find(is_same)?;
    recover::keep_left(flags, &known, &found);
    Some(known)
}

/// The flags of one disk of a file, as a process that is gone had them.
pub(super) fn flags(config: &Path, disks: &[String]) -> Result<Box<AttachFlags>, Failure> {
    let mut tables = tables(config, disks)?;
    match tables.len() {
        1 => Ok(tables.remove(0).flags),
        count => Err(Failure::failed(format!("{} disks of {} were one process", count, config.display()))),
    }
}

fn tables(config: &Path, asked: &[String]) -> Result<Vec<DiskTable>, Failure> {
    let mut tables = attach_file::read(config)?;
    if let Some(name) = asked.iter().find(|name| tables.iter().all(|table| table.name != **name)) {
        return Err(Failure::usage(format!("{} has no [disk.{name}]", config.display())));
    }
    tables.retain(|table| asked.is_empty() || asked.contains(&table.name));
    Ok(tables)
}

/// Returns the command line of a process for this disk alone, which is recorded.
fn line(config: &Path, table: &DiskTable) -> Result<CommandLine, Failure> {
    // A secret in the file is refused as on the command line.
    of_table(table, CommandLine::of(table.options.iter().cloned()))?;
    let config: PathBuf = std::path::absolute(config).map_err(Failure::failed)?;
    let words = ["attach", "serve", "--config"].map(OsString::from).into_iter();
    CommandLine::of(words.chain([config.into(), "--disk".into(), table.name.clone().into()]))
}

fn of_table<T>(table: &DiskTable, outcome: Result<T, Failure>) -> Result<T, Failure> {
    of_disk(&table.name, outcome)
}

/// Adds the name of the disk to its error.
fn of_disk<T>(name: &str, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.map_err(|failure| match failure {
        Failure::Usage(what) => Failure::Usage(format!("disk {name}: {what}")),
        Failure::Failed(what) => Failure::Failed(format!("disk {name}: {what}")),
        other => other,
    })
}
