//! Removing namespaces even when this process is killed: a shell holds the other end of a pipe, and removes them when
//! the pipe closes. It keeps out how they come to be.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The shell lives through the signals that a terminal sends. Nothing is ever written to its input,
/// so that `read` waits for the end of the pipe. Processes that still run in a namespace would keep
/// it alive, and are ended by their process ids; this leaves no record of their queues, and the
/// namespace no journal of the tuner, which is named after its inode.
const SCRIPT: &str = r#"trap "" INT TERM HUP
PATH="$PATH:/usr/sbin:/sbin"
read -r _
for namespace; do
    for try in 1 2 3 4 5 6 7 8 9 10; do
        pids=$(ip netns pids "$namespace") || break
        [ -n "$pids" ] || break
        kill -s KILL $pids
        for pid in $pids; do rm -f "/run/selvedge/queues/$pid.json"; done
        sleep 0.1
    done
    inode=$(stat -L -c %i "/run/netns/$namespace") && rm -f "/run/selvedge-tune/$inode.journal"
    ip netns delete "$namespace"
done"#;

/// A shell that waits for the end of what is written to it, which comes at the latest when this process ends in whatever
/// way, and then runs the rest of its script. Dropping it waits for that.
pub(crate) struct WaitingShell(Child);

impl WaitingShell {
    pub(crate) fn start(script: &str, arguments: &[&OsStr]) -> std::io::Result<WaitingShell> {
        let shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(WaitingShell(shell))
    }

    /// Gives lines to the script.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Some(pipe) = &mut self.0.stdin {
            // A shell that is gone does nothing more.
            let _ = pipe.write_all(bytes);
        }
    }
}

impl Drop for WaitingShell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // What cannot be waited for comes to its end all the same.
        let _ = self.0.wait();
    }
}

/// Removes the namespaces when dropped, or when this process ends in whatever way.
pub(crate) struct Cleanup {
    _shell: WaitingShell,
}

impl Cleanup {
    /// Prepares the removal of `namespaces`, which need not exist yet.
    pub(crate) fn new(namespaces: &[&str]) -> std::io::Result<Cleanup> {
        let names: Vec<&OsStr> = namespaces.iter().map(OsStr::new).collect();
        Ok(Cleanup { _shell: WaitingShell::start(SCRIPT, &names)? })
    }
}
