//! Processes that a test has not started itself: the next ones of an upgrade.

use rustix::process::{Pid, Signal, kill_process};

pub(crate) fn signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let _ = kill_process(process.expect("a process"), signal);
}

/// True if one of the process' threads runs. The first may have ended before others, which still
/// have what the process held, and an ended process keeps its number until its parent has waited
/// for it.
pub(crate) fn lives(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    })
}
