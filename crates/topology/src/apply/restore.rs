//! Bringing settings back to what a journal says they were, in the reverse order. It may be done again and again: what is
//! as it was is left alone.

use std::io;
use std::path::Path;

use super::journal::{Before, Journal, JournalError, Record};
use super::settings::{Settings, named};
use super::{Watch, take_back};
use crate::CpuSet;
use crate::plan::Change;

/// Result of undoing a plan.
#[derive(Debug, Default)]
pub struct Restored {
    /// Changes that were undone.
    pub undone: usize,
    /// Changes that had not been made, or were undone already.
    pub untouched: usize,
    /// Changes whose interface or thread is gone.
    pub gone: Vec<Change>,
    /// Changes that could not be undone, with the error.
    pub failed: Vec<(Change, io::Error)>,
    /// Settings that another program had changed since: they are as before the plan now.
    pub changed_since: Vec<Change>,
    /// True if the machine was restarted since, which undid everything.
    pub was_restarted: bool,
    /// True if the plan was of a network namespace that is gone, which undid everything; nothing
    /// was changed in this one.
    pub was_anothers: bool,
    /// True if all changes of the plan had been made.
    pub was_complete: bool,
}

/// Undoes what the journal at `path` says, and takes the journal away.
///
/// # Errors
/// When there is no journal, another process holds it, or it is invalid. If something could not be undone, the journal
/// stays, and `failed` lists it.
pub fn revert(settings: &dyn Settings, path: &Path, watch: &mut dyn Watch) -> Result<Restored, JournalError> {
    let journal = Journal::open(path)?;
    if !journal.boot_id().is_empty() && journal.boot_id() != settings.boot_id() {
        let restored = Restored { was_restarted: true, ..Restored::default() };
        journal.remove()?;
        return Ok(restored);
    }
    // A file's name is an inode of the namespace, which another one has when that is gone.
    let network = journal.network_cookie().zip(settings.network_cookie());
    if network.is_some_and(|(before, now)| before != now) {
        let restored = Restored { was_anothers: true, ..Restored::default() };
        journal.remove()?;
        return Ok(restored);
    }
    let was_complete = journal.is_complete();
    Ok(Restored { was_complete, ..take_back(settings, journal, watch)? })
}

/// Undoes all changes, the last first.
pub(super) fn undo(settings: &dyn Settings, records: &[Record], watch: &mut dyn Watch) -> Restored {
    let mut restored = Restored::default();
    for record in records.iter().rev() {
        match undo_one(settings, record, watch) {
            Ok(Outcome::Undone) => restored.undone += 1,
            Ok(Outcome::Untouched) => restored.untouched += 1,
            Ok(Outcome::ChangedSince) => {
                restored.undone += 1;
                restored.changed_since.push(record.change.clone());
            }
            Ok(Outcome::Gone) => restored.gone.push(record.change.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                restored.gone.push(record.change.clone());
            }
            Err(error) => restored.failed.push((record.change.clone(), named(&record.change, error))),
        }
    }
    restored
}

enum Outcome {
    Undone,
    Untouched,
    ChangedSince,
    Gone,
}

fn undo_one(settings: &dyn Settings, record: &Record, watch: &mut dyn Watch) -> io::Result<Outcome> {
    match (&record.change, &record.before) {
        (change, Before::File { content }) => undo_file(settings, change, content, watch),
        (Change::Channels { interface, .. }, Before::Channels { channels, files }) => {
            let is_changed = settings.channels(interface)? != *channels;
            if is_changed {
                watch.before_write();
                settings.set_channels(interface, *channels)?;
            }
            let mut outcome = if is_changed { Outcome::Undone } else { Outcome::Untouched };
            for (path, content) in files {
                if settings.read(path)? != *content {
                    write_back(settings, path, content, watch)?;
                    outcome = Outcome::Undone;
                }
            }
            Ok(outcome)
        }
        (Change::NtupleOn { interface }, Before::Ntuple { on }) => {
            if settings.ntuple(interface)? == *on {
                return Ok(Outcome::Untouched);
            }
            watch.before_write();
            settings.set_ntuple(interface, *on)?;
            Ok(Outcome::Undone)
        }
        (Change::Rule { interface, rule: made }, Before::Rule { rule }) => {
            let now = settings.rule(interface, made.location)?;
            if now == *rule {
                return Ok(Outcome::Untouched);
            }
            let outcome = if now.as_ref() == Some(made) { Outcome::Undone } else { Outcome::ChangedSince };
            watch.before_write();
            match rule {
                Some(rule) => settings.insert_rule(interface, rule)?,
                None => settings.delete_rule(interface, made.location)?,
            }
            Ok(outcome)
        }
        (Change::RssTable { interface, table: made }, Before::Table { table }) => {
            let now = settings.rss_table(interface)?;
            if now == *table {
                return Ok(Outcome::Untouched);
            }
            watch.before_write();
            settings.set_rss_table(interface, table)?;
            Ok(if now == *made { Outcome::Undone } else { Outcome::ChangedSince })
        }
        (Change::Thread { thread, cpus: made, .. }, Before::Thread { cpus, started }) => {
            let (now, now_started) = settings.thread(*thread)?;
            if now_started != *started {
                return Ok(Outcome::Gone);
            }
            if now == *cpus {
                return Ok(Outcome::Untouched);
            }
            watch.before_write();
            settings.set_thread_cpus(*thread, cpus)?;
            Ok(if now == *made { Outcome::Undone } else { Outcome::ChangedSince })
        }
        (change, _) => {
            let reason = format!("the journal has something else for `{}`", change.shell());
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
    }
}

fn undo_file(
    settings: &dyn Settings,
    change: &Change,
    content: &str,
    watch: &mut dyn Watch,
) -> io::Result<Outcome> {
    let Some(path) = change.file() else {
        let reason = format!("the journal has a file for `{}`", change.shell());
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    };
    let now = settings.read(&path)?;
    if now == content {
        return Ok(Outcome::Untouched);
    }
    write_back(settings, &path, content, watch)?;
    let written = change.content().unwrap_or_default();
    let is_ours = CpuSet::parse_mask(&now) == CpuSet::parse_mask(&written) || now.trim() == written;
    Ok(if is_ours { Outcome::Undone } else { Outcome::ChangedSince })
}

/// Writes what was, and looks whether it reads so again.
fn write_back(settings: &dyn Settings, path: &str, content: &str, watch: &mut dyn Watch) -> io::Result<()> {
    watch.before_write();
    settings.write(path, content.trim_end_matches('\n'))?;
    let now = settings.read(path)?;
    if now == content {
        return Ok(());
    }
    let (now, content) = (now.trim(), content.trim());
    Err(io::Error::other(format!("/{path} was {content}, was written so again, and reads {now}")))
}
