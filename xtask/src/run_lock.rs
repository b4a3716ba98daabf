//! One run at a time in a checkout: two would build in the same folder and read each other's results.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::workspace;

/// Held while the gate or the proof runs; the kernel releases it when the process ends, however it ends.
pub(crate) struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock of this checkout's build folder.
    ///
    /// # Errors
    /// Another run has it, or the file cannot be made.
    pub(crate) fn take() -> Result<Self, String> {
        Self::take_in(&workspace::target_dir())
    }

    fn take_in(folder: &Path) -> Result<Self, String> {
        let path = folder.join("xtask.lock");
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(folder).map_err(said)?;
        let options = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = options.map_err(said)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                file.read_to_string(&mut process).map_err(said)?;
                return Err(format!(
                    "{}: in use by another run, process {}; wait for its end, or set CARGO_TARGET_DIR",
                    folder.display(),
                    process.trim()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(said(error)),
        }
        let cleared = file.set_len(0).and_then(|()| file.rewind());
        cleared.and_then(|()| writeln!(file, "{}", std::process::id())).map_err(said)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts at a lock that is about to be free.
    const ATTEMPTS_MAX: u32 = 1_000_000;

    #[test]
    fn a_second_run_is_refused_until_the_first_has_ended() {
        let folder = std::env::temp_dir().join(format!("selvedge-run-lock-{}", std::process::id()));
        let first = RunLock::take_in(&folder).unwrap();
        let refused = RunLock::take_in(&folder).err().unwrap();
        assert!(refused.contains(&format!("process {};", std::process::id())), "{refused}");
        drop(first);
        // A process that another test has just forked may have the file until it executes its program.
        let is_free = |_| {
            std::thread::yield_now();
            RunLock::take_in(&folder).is_ok()
        };
        assert!((0..ATTEMPTS_MAX).any(is_free));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
