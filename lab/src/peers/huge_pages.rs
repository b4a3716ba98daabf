//! Huge pages for the time of a measurement: a shell holds the other end of a pipe, and gives them back when the pipe
//! closes, in whatever way this process ends. It keeps out who uses them.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const COUNT: &str = "/proc/sys/vm/nr_hugepages";
/// Folder to mount them on when the system has not mounted them.
const MOUNT: &str = "/dev/hugepages";
/// The shell lives through the signals that a terminal sends. What used the pages may take a moment to end; pages that
/// are still in use then are given back when they are free, which is the kernel's work.
const SCRIPT: &str = r#"trap "" INT TERM HUP
read -r _
if [ -n "$3" ]; then
    for try in 1 2 3 4 5 6 7 8 9 10; do
        umount "$3" && break
        sleep 0.5
    done
fi
echo "$2" >"$1""#;

/// Huge pages, until this is dropped or this process ends.
pub(crate) struct HugePages {
    shell: Child,
}

impl HugePages {
    /// Makes the kernel keep this number of pages, and mounts them if they are not mounted.
    ///
    /// # Errors
    /// It has not enough memory in one piece, or this process may not ask.
    pub(crate) fn reserve(pages: u64) -> Result<HugePages, String> {
        let before = count()?;
        let mount = if is_mounted(&read("/proc/mounts")?) { "" } else { MOUNT };
        let guard = HugePages { shell: shell(COUNT, before, mount)? };
        if !mount.is_empty() {
            let failed = |error: std::io::Error| format!("{MOUNT}: {error}");
            std::fs::create_dir_all(MOUNT).map_err(failed)?;
            let mounted = Command::new("mount").args(["-t", "hugetlbfs", "none", MOUNT]).status();
            if !mounted.map_err(failed)?.success() {
                return Err(format!("huge pages cannot be mounted at {MOUNT}"));
            }
        }
        if before < pages {
            std::fs::write(COUNT, pages.to_string()).map_err(|error| format!("{COUNT}: {error}"))?;
            let given = count()?;
            if given < pages {
                return Err(format!(
                    "SPDK needs {pages} huge pages and the kernel found memory for {given}; free memory and try again"
                ));
            }
        }
        Ok(guard)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // What cannot be waited for gives them back all the same.
        let _ = self.shell.wait();
    }
}

/// Shell that writes `before` back into `count`, and unmounts `mount` if that is not empty.
fn shell(count: &str, before: u64, mount: &str) -> Result<Child, String> {
    Command::new("sh")
        .args(["-c", SCRIPT, "sh", count, &before.to_string(), mount])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start sh: {error}"))
}

fn count() -> Result<u64, String> {
    let text = read(COUNT)?;
    text.trim().parse().map_err(|_| format!("{COUNT} says `{}`", text.trim()))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(Path::new(path)).map_err(|error| format!("{path}: {error}"))
}

/// From /proc/mounts.
fn is_mounted(mounts: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_put_back_when_the_pipe_closes() {
        let file = std::env::temp_dir().join(format!("selvedge-peers-pages-{}", std::process::id()));
        std::fs::write(&file, "640\n").unwrap();
        let pages = HugePages { shell: shell(&file.display().to_string(), 7, "").unwrap() };
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "640\n");
        drop(pages);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "7\n");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn knows_whether_they_are_mounted() {
        assert!(is_mounted("proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n"));
        assert!(!is_mounted("tmpfs /hugetlbfs tmpfs rw 0 0\n"));
    }
}
