//! A clean-up that happens even when we are killed: a shell waits on a pipe from us, and runs its one
//! command when the pipe closes. It keeps out what is cleaned up.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The shell ignores the signals that a terminal sends to us, and leaves without acting on `keep`.
const WAIT: &str = r#"trap "" INT TERM HUP; read -r word; [ "$word" = keep ] || "$@""#;

/// Runs its command when dropped, or when this process ends in whatever way.
pub(crate) struct Cleanup {
    shell: Child,
}

impl Cleanup {
    /// Prepares `command` (a program and its arguments).
    pub(crate) fn new(command: &[&str]) -> std::io::Result<Cleanup> {
        let shell = Command::new("sh")
            .args(["-c", WAIT, "sh"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Cleanup { shell })
    }

    /// Ends the process group `id`: politely, and after two seconds firmly.
    pub(crate) fn for_group(id: u32) -> std::io::Result<Cleanup> {
        let script = "kill -s TERM -- -$1 || exit 0; \
                      for try in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; kill -s 0 -- -$1 || exit 0; done; \
                      kill -s KILL -- -$1";
        Cleanup::new(&["sh", "-c", script, "sh", &id.to_string()])
    }

    /// Ends the clean-up, for which nothing is left.
    pub(crate) fn disarm(mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            // A shell that is gone cannot act either.
            let _ = pipe.write_all(b"keep\n");
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("selvedge-cleanup-{}-{name}", std::process::id()))
    }

    #[test]
    fn acts_when_dropped() {
        let path = marker("dropped");
        drop(Cleanup::new(&["touch", &path.display().to_string()]).unwrap());
        assert!(path.exists());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn does_nothing_when_disarmed() {
        let path = marker("disarmed");
        Cleanup::new(&["touch", &path.display().to_string()]).unwrap().disarm();
        assert!(!path.exists());
    }

    #[test]
    fn ends_a_process_group() {
        let mut sleeper = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        // The sleeper is ours to reap, until then its group exists: so reap it beside the clean-up.
        let cleanup = Cleanup::for_group(sleeper.id()).unwrap();
        let ending = std::thread::spawn(move || drop(cleanup));
        let status = sleeper.wait().unwrap();
        ending.join().unwrap();
        assert!(!status.success());
    }
}
