//! The log on stderr: warnings, or more with `SELVEDGE_LOG`. Results never go there.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts it.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("SELVEDGE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let format = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Only a second start could fail, and there is none.
    let _ = format.try_init();
}
