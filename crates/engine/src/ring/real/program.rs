//! The program that runs, as a part of it sees it.

use rustix::process::{Signal, getpid, kill_process};

/// Ends the program as if an operator had asked it to (SIGTERM): a part of it has found that it no longer has a place.
pub fn end_program() {
    if let Err(error) = kill_process(getpid(), Signal::TERM) {
        tracing::error!(%error, "cannot ask this program to end");
    }
}
