//! `selvedge tune revert`: brings settings back to what they were before `tune apply`.

use chart::units::plural;
use schemars::JsonSchema;
use serde::Serialize;
use topology::apply::{JournalError, LiveSettings, Restored, Watch, revert};
use topology::plan::Step;

use super::apply::journal;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::tune::RevertFlags;
use crate::report;

/// Undoes what the journal tells.
pub(super) fn run(flags: &RevertFlags) -> Result<(), Failure> {
    let path = journal(&flags.journal)?;
    let restored = revert(&LiveSettings, &path, &mut Unwatched).map_err(|error| match error {
        JournalError::None { .. } if flags.journal.journal.is_some() => Failure::usage(error),
        _ => Failure::failed(error),
    })?;
    match flags.output.output_format {
        OutputFormat::Json => report::print_json(&Reverted::of(&restored))?,
        OutputFormat::Normal => report::print(text(&restored))?,
    }
    match restored.failed.as_slice() {
        [] => Ok(()),
        [(change, error), rest @ ..] => {
            let others = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            Err(Failure::failed(format!(
                "{change} could not be undone: {error}{others}; the journal {} is kept: run it again",
                path.display()
            )))
        }
    }
}

fn text(restored: &Restored) -> String {
    if restored.was_restarted {
        return "The machine has been started again since: everything is as the system sets it\n".to_owned();
    }
    if restored.was_anothers {
        return "The network namespace of the plan no longer exists: nothing is changed in this one\n"
            .to_owned();
    }
    let mut text = format!("{} undone", plural(restored.undone as u64, "change"));
    if restored.untouched > 0 {
        text.push_str(&format!(", {} had not been made", restored.untouched));
    }
    text.push('\n');
    for change in &restored.gone {
        text.push_str(&format!("  no longer there: {change}\n"));
    }
    for change in &restored.changed_since {
        text.push_str(&format!(
            "  changed since the plan was applied; restored to the value before the plan: {change}\n"
        ));
    }
    if !restored.was_complete {
        text.push_str("The plan had not been applied to its end\n");
    }
    text
}

/// For programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reverted {
    undone: usize,
    untouched: usize,
    gone: Vec<String>,
    failed: Vec<String>,
    changed_since: Vec<String>,
    was_restarted: bool,
    was_anothers: bool,
    was_complete: bool,
}

impl Reverted {
    fn of(restored: &Restored) -> Self {
        let failed = restored.failed.iter().map(|(change, error)| format!("{change}: {error}"));
        Self {
            undone: restored.undone,
            untouched: restored.untouched,
            gone: restored.gone.iter().map(ToString::to_string).collect(),
            failed: failed.collect(),
            changed_since: restored.changed_since.iter().map(ToString::to_string).collect(),
            was_restarted: restored.was_restarted,
            was_anothers: restored.was_anothers,
            was_complete: restored.was_complete,
        }
    }
}

/// Observer that ignores single changes.
struct Unwatched;

impl Watch for Unwatched {
    fn done(&mut self, _: &Step) {}
}
