//! The log: warnings, or more where that is asked for, as text on stderr, as JSON, or as fields of the journal. Its level can
//! be changed while the program runs. Results never go there.

use std::io::{self, IsTerminal as _};
use std::os::linux::fs::MetadataExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

/// The environment's word on the level.
const VARIABLE: &str = "SELVEDGE_LOG";
const LEVEL_DEFAULT: &str = "warn";
/// A level with a directive for each of some modules fits in.
const LEVEL_LENGTH_MAX: usize = 1024;

/// Format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text
    Text,
    /// JSON, an object on each line
    Json,
    /// Entries of systemd's journal, with fields
    Journal,
}

/// The level, as it is and as it can be changed.
struct Level {
    text: std::sync::Mutex<String>,
    /// Set once it is another one than the program was started with.
    is_changed: AtomicBool,
    handle: reload::Handle<EnvFilter, Registry>,
}

static LEVEL: OnceLock<Level> = OnceLock::new();

/// Starts it. Without a format it is the journal's where stderr leads there, and text otherwise.
pub fn start(format: Option<LogFormat>, level: Option<&str>) -> Result<(), String> {
    let (text, filter) = match level {
        Some(level) => (level.to_owned(), parse(level)?),
        // A wrong word in the environment must not keep anything from running.
        None => std::env::var(VARIABLE)
            .ok()
            .and_then(|text| Some((text.clone(), parse(&text).ok()?)))
            .unwrap_or_else(|| (LEVEL_DEFAULT.to_owned(), EnvFilter::new(LEVEL_DEFAULT))),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let format =
        format.unwrap_or_else(|| if leads_to_journal() { LogFormat::Journal } else { LogFormat::Text });
    let layer: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => {
            Box::new(fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()))
        }
        LogFormat::Json => Box::new(fmt::layer().json().flatten_event(true).with_writer(io::stderr)),
        LogFormat::Journal => match tracing_journald::layer() {
            Ok(layer) => Box::new(layer.with_field_prefix(Some("SELVEDGE".to_owned()))),
            Err(error) => {
                return Err(format!("the journal cannot be written to: {error}; try --log-format text"));
            }
        },
    };
    // Only a second start could fail, and there is none.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    let _ =
        LEVEL.set(Level { text: std::sync::Mutex::new(text), is_changed: AtomicBool::new(false), handle });
    Ok(())
}

/// The level in force.
pub fn level() -> String {
    LEVEL.get().map_or_else(String::new, |level| lock(level).clone())
}

/// The level in force, if it was changed since the program was started: a process that goes on in place of this one has it, too.
pub fn changed_level() -> Option<String> {
    LEVEL.get().filter(|level| level.is_changed.load(Ordering::Relaxed)).map(|level| lock(level).clone())
}

/// Checks a level before it is sent to another process.
pub(crate) fn check_level(text: &str) -> Result<String, String> {
    parse(text).map(|_| text.to_owned())
}

/// Changes it, for the whole process.
pub fn set_level(text: &str) -> Result<(), String> {
    let filter = parse(text)?;
    let Some(level) = LEVEL.get() else { return Err("there is no log".to_owned()) };
    let mut current = lock(level);
    level.handle.reload(filter).map_err(|error| error.to_string())?;
    text.clone_into(&mut current);
    level.is_changed.store(true, Ordering::Relaxed);
    Ok(())
}

fn lock(level: &Level) -> std::sync::MutexGuard<'_, String> {
    level.text.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A level, or a level for each of some modules, as in `info,engine::target=debug`.
fn parse(text: &str) -> Result<EnvFilter, String> {
    let wrong = |reason: &dyn std::fmt::Display| {
        let reason = reason.to_string();
        let reason = if reason == format!("`{text}`") { String::new() } else { format!(" ({reason})") };
        format!(
            "`{text}` is not a log level{reason}: write error, warn, info, debug or trace, or levels of modules, as in info,engine=debug"
        )
    };
    if text.is_empty() || text.len() > LEVEL_LENGTH_MAX {
        return Err(wrong(&"its length"));
    }
    // A word alone that is not a level would be taken for a module's name, and silence all others.
    let names_level = |part: &str| {
        ["off", "error", "warn", "info", "debug", "trace"]
            .contains(&part.rsplit('=').next().unwrap_or_default())
    };
    if let Some(part) = text.split(',').find(|part| !names_level(part)) {
        return Err(wrong(&format_args!("`{part}`")));
    }
    EnvFilter::builder().parse(text).map_err(|error| wrong(&error))
}

/// True if stderr is the journal's, by the device and inode in systemd's variable.
fn leads_to_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else { return false };
    named == format!("{}:{}", stderr.st_dev(), stderr.st_ino())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_level_is_one_of_the_words() {
        for right in ["warn", "debug", "info,engine::target=debug", "off"] {
            assert!(parse(right).is_ok(), "{right}");
        }
        for wrong in ["", "verbose", "info,engine", "engine=loud", "info,,debug"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
