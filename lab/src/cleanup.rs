//! Removing namespaces even when this process is killed: a shell holds the other end of a pipe, and removes them when
//! the pipe closes. It keeps out how they come to be.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The shell lives through the signals that a terminal sends. Nobody ever writes to it, so that `read` waits for the end
/// of the pipe. What still runs in a namespace would keep it alive, and is ended by its process id; it leaves no record of
/// its queues, and the namespace no journal of the tuner, which is named after its inode.
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

/// Removes the namespaces when dropped, or when this process ends in whatever way.
pub(crate) struct Cleanup {
    shell: Child,
}

impl Cleanup {
    /// Prepares the removal of `namespaces`, which need not exist yet.
    pub(crate) fn new(namespaces: &[&str]) -> std::io::Result<Cleanup> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .args(namespaces)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Cleanup { shell })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // What cannot be waited for removes the namespaces all the same.
        let _ = self.shell.wait();
    }
}
