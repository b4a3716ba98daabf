//! Output of commands: plain text, JSON, and pages with charts. The module measures nothing and
//! sends no requests.

pub mod bench;
pub mod csv;
pub mod document;
pub mod duration;
pub mod fio;
pub mod folder;
pub mod locale;
pub mod markdown;
pub mod page;
pub mod paragraph;
pub mod paths;
pub mod queues;
#[cfg(test)]
pub mod sample;
pub mod stages;
pub mod table;
pub mod terminal;
pub mod utc;

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;

use crate::failure::Failure;
use crate::flags::OutputFormat;

/// Prints text for people on stdout, at once.
pub fn print(text: impl fmt::Display) -> Result<(), Failure> {
    print_exactly(locale::shown(&text.to_string()))
}

/// File for results instead of stdout.
static OUTPUT: OnceLock<File> = OnceLock::new();

/// Redirects all further results to a new file.
///
/// # Errors
/// It cannot be made.
pub fn print_to(path: &Path) -> Result<(), Failure> {
    let file = File::create(path)
        .map_err(|error| Failure::usage(format!("--output {}: {error}", path.display())))?;
    // A command says it once.
    let _ = OUTPUT.set(file);
    Ok(())
}

/// Prints text for programs on stdout, at once.
pub fn print_exactly(text: impl fmt::Display) -> Result<(), Failure> {
    if let Some(mut file) = OUTPUT.get() {
        return write!(file, "{text}").map_err(|error| cannot_print(&error));
    }
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| cannot_print(&error))
}

/// Prints a value in the format that was asked for.
pub fn print_as<T: Serialize + fmt::Display>(format: OutputFormat, value: &T) -> Result<(), Failure> {
    match format {
        OutputFormat::Normal => print(value),
        OutputFormat::Json => print_json(value),
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    print_exactly(text + "\n")
}

fn cannot_print(error: &io::Error) -> Failure {
    // `selvedge ... | head` is not a failure.
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::failed(format!("the results cannot be printed: {error}")),
    }
}
