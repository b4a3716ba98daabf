//! Removal of a folder or a file even when this process is killed: a shell holds the other end of a
//! pipe, and removes it when the pipe closes, unless it has the order to keep it. It keeps out what
//! is in there.

use std::path::Path;

use crate::cleanup::WaitingShell;

/// The shell lives through the signals that a terminal sends. What still has files open there is ended meanwhile by others.
const SCRIPT: &str = r#"trap "" INT TERM HUP
read -r word && [ "$word" = keep ] && exit
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 0.5
done"#;

/// Removes a folder or a file when dropped, or when this process ends in whatever way.
pub(crate) struct Guard {
    shell: WaitingShell,
}

impl Guard {
    pub(crate) fn new(folder: &Path) -> std::io::Result<Guard> {
        Ok(Guard { shell: WaitingShell::start(SCRIPT, &[folder.as_os_str()])? })
    }

    /// The folder stays.
    pub(crate) fn keep(mut self) {
        self.shell.write(
            b"keep
",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_or_keeps() {
        let folder = std::env::temp_dir().join(format!("selvedge-lab-guard-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inside")).unwrap();
        Guard::new(&folder).unwrap().keep();
        assert!(folder.exists());
        drop(Guard::new(&folder).unwrap());
        assert!(!folder.exists());
    }
}
