//! Making a plan's changes so that they can always be undone: what was is written down before each change, and a failure
//! or a crash in between leaves enough to bring everything back.

mod journal;
mod live;
mod reach;
mod restore;
mod settings;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use journal::{Before, Journal, JournalError, Record};
pub use live::{LiveSettings, network_namespace};
pub use restore::{Restored, revert};
pub use settings::Settings;

use super::CpuSet;
use super::plan::{Change, Step};

/// Why changes were not made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The journal could not be begun or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A stop was requested before the end; earlier changes were undone.
    #[error("stopped; {}", outcome(.0))]
    Stopped(Box<Restored>),
    /// Failure of one change; everything before it was undone.
    #[error("{} failed: {error}; {}", step.change.shell(), outcome(restored))]
    Step {
        /// The change.
        step: Box<Step>,
        /// Error of the system.
        error: io::Error,
        /// Result of the undoing.
        restored: Box<Restored>,
    },
}

fn outcome(restored: &Restored) -> String {
    if !restored.failed.is_empty() {
        let count = restored.failed.len();
        return format!("and {count} of the changes before it could not be undone: run `tune revert`");
    }
    let undone = match restored.undone {
        0 => String::new(),
        1 => "1 change was undone, ".to_owned(),
        count => format!("{count} changes were undone, "),
    };
    match restored.gone.len() {
        0 => format!("{undone}everything is as it was before"),
        gone => format!("{undone}{gone} went with what is gone, everything else is as it was before"),
    }
}

/// Observer of the changes.
pub trait Watch {
    /// A change has been made.
    fn done(&mut self, step: &Step);

    /// Called before each write to the journal or to a setting. Tests end here to see the state
    /// after a crash.
    fn before_write(&mut self) {}

    /// True if the observer requests a stop.
    fn stops(&mut self) -> bool {
        false
    }
}

/// Makes the changes, with their journal at `path`, which stays until they are undone.
///
/// # Errors
/// When a plan is in effect already, or the journal cannot be written: nothing was changed. When a change fails: those
/// before it were undone.
pub fn apply(
    settings: &dyn Settings,
    path: &Path,
    steps: &[Step],
    watch: &mut dyn Watch,
) -> Result<(), ApplyError> {
    let mut journal = Journal::begin(path, settings, steps.len())?;
    for step in steps {
        if watch.stops() {
            return Err(ApplyError::Stopped(Box::new(take_back(settings, journal, watch)?)));
        }
        match make(settings, &mut journal, step, watch) {
            Ok(()) => watch.done(step),
            Err(Failure::Journal(error)) => return Err(without_journal(settings, journal, watch, error)),
            Err(Failure::System(error)) => {
                let restored = Box::new(take_back(settings, journal, watch)?);
                return Err(ApplyError::Step { step: Box::new(step.clone()), error, restored });
            }
        }
    }
    watch.before_write();
    journal.complete().map_err(|error| without_journal(settings, journal, watch, error))
}

/// Undoes what the journal tells, and takes it away unless something is left to be undone.
fn take_back(
    settings: &dyn Settings,
    journal: Journal,
    watch: &mut dyn Watch,
) -> Result<Restored, JournalError> {
    let restored = restore::undo(settings, journal.records(), watch);
    if restored.failed.is_empty() {
        watch.before_write();
        journal.remove()?;
    }
    Ok(restored)
}

/// Undoes all changes after the journal could not be written.
fn without_journal(
    settings: &dyn Settings,
    journal: Journal,
    watch: &mut dyn Watch,
    error: JournalError,
) -> ApplyError {
    // If that fails too, the journal stays, and `revert` reports what is left.
    let _ = take_back(settings, journal, watch);
    error.into()
}

enum Failure {
    Journal(JournalError),
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Makes one change, after what was has been written down.
fn make(
    settings: &dyn Settings,
    journal: &mut Journal,
    step: &Step,
    watch: &mut dyn Watch,
) -> Result<(), Failure> {
    let before = Before::of(settings, &step.change)?;
    watch.before_write();
    journal.record(Record { change: step.change.clone(), before }).map_err(Failure::Journal)?;
    watch.before_write();
    let made = match &step.change {
        Change::Channels { interface, channels } => settings.set_channels(interface, *channels),
        Change::NtupleOn { interface } => settings.set_ntuple(interface, true),
        Change::Rule { interface, rule } => settings.insert_rule(interface, rule),
        Change::RssTable { interface, table } => settings.set_rss_table(interface, table),
        Change::Thread { thread, cpus, .. } => settings.set_thread_cpus(*thread, cpus),
        Change::Affinity { .. } | Change::Xps { .. } | Change::Rps { .. } => {
            write_file(settings, &step.change)
        }
    };
    // It may have gone since it was looked at.
    made.map_err(|error| Failure::System(settings::named(&step.change, error)))
}

/// Writes a change's file, and looks whether the system took it as it was meant.
fn write_file(settings: &dyn Settings, change: &Change) -> io::Result<()> {
    let (Some(file), Some(content)) = (change.file(), change.content()) else { return Ok(()) };
    settings.write(&file, &content)?;
    let now = settings.read(&file)?;
    let parse = |text: &str| match change {
        Change::Affinity { .. } => text.parse::<CpuSet>(),
        _ => CpuSet::parse_mask(text),
    };
    if parse(&now).ok() == parse(&content).ok() {
        return Ok(());
    }
    let reads = now.trim();
    Err(io::Error::other(format!(
        "/{file} was written as {content} and reads {reads}: another program sets it too"
    )))
}

/// Path of the journal of a machine's network namespace: below /run, since settings do not outlive
/// a restart either, and in a folder of its own, since /run/selvedge may belong to a service user,
/// who must not decide what root undoes.
pub fn journal_path(network_namespace: u64) -> PathBuf {
    PathBuf::from(format!("/run/selvedge-tune/{network_namespace}.journal"))
}
