//! Processes that a test has not started itself: the next ones of an upgrade.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The same command with SIGHUP at its default: a run of the tests under nohup has it ignored, and
/// its children with it.
pub(crate) fn with_default_hangup(command: &Command) -> Command {
    let mut same = Command::new("env");
    same.arg("--default-signal=HUP");
    run_by(same, command)
}

/// The same command with this number of descriptors.
pub(crate) fn with_descriptors(command: &Command, count: u32) -> Command {
    let mut same = Command::new("sh");
    same.args(["-c", &format!("ulimit -n {count} && exec \"$@\""), "sh"]);
    run_by(same, command)
}

/// The same command, run by this one.
fn run_by(mut same: Command, command: &Command) -> Command {
    same.arg(command.get_program()).args(command.get_args());
    same.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        same.current_dir(folder);
    }
    same
}

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
