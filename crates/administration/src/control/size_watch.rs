//! A thread that looks from time to time whether files and devices have grown under a target, which the system does not report.
//! The administration carries out what follows from it.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::administration::Administration;

/// Time between two looks. Each is a system call for each file and device.
const INTERVAL: Duration = Duration::from_secs(5);

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub struct SizeWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SizeWatch {
    /// Starts it. Without a thread, sizes are looked at with the next change, as before.
    pub fn start(administration: &Arc<Administration>) -> Option<Self> {
        let (stop, stopped) = channel();
        let administration = administration.clone();
        let watch = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = administration.notice_growth() {
                    tracing::warn!(%error, "a file or device has grown, and its namespace cannot; retrying");
                }
            }
        };
        let thread = thread::Builder::new().name("size-watch".to_owned()).spawn(watch);
        let thread = thread.inspect_err(|error| tracing::warn!(%error, "no thread to watch sizes")).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for SizeWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use engine::backend::BackendConfig;
    use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target};

    use super::*;
    use crate::control::administration::Permissions;
    use crate::control::test_target;

    /// Administration of a target with a file of 1 MiB.
    fn administration_of(path: &Path) -> (Arc<Target>, Arc<Administration>) {
        File::create(path).unwrap().set_len(1 << 20).unwrap();
        let backend = BackendConfig::File { path: path.to_owned(), size: None };
        let subsystem = SubsystemConfig::new("nqn.test:a", "A", "Selvedge");
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![subsystem.with(vec![NamespaceConfig::new(1, backend, 4096)])],
            ..FabricConfig::default()
        };
        let target = test_target::start(fabric);
        (target.clone(), Arc::new(Administration::new(target, None).unwrap()))
    }

    fn grow(path: &Path) {
        File::options().write(true).open(path).unwrap().set_len(2 << 20).unwrap();
    }

    #[test]
    fn growth_is_a_change_of_the_administration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grows");
        let (target, administration) = administration_of(&path);
        assert!(!administration.notice_growth().unwrap());
        grow(&path);
        // While another process takes over, the file is not even looked at a second time.
        let still = administration.hold_still();
        let noticing = thread::spawn({
            let administration = administration.clone();
            move || administration.notice_growth()
        });
        assert!(target.has_grown(), "nothing has changed yet");
        drop(still);
        assert!(noticing.join().unwrap().unwrap());
        assert!(!target.has_grown() && !administration.notice_growth().unwrap());
    }

    #[test]
    fn a_process_that_has_handed_its_target_over_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grows");
        let (target, administration) = administration_of(&path);
        grow(&path);
        let still = administration.hold_still();
        let waiting = thread::spawn({
            let administration = administration.clone();
            move || {
                let changed = administration.change(Permissions::default(), |fabric| {
                    fabric.subsystems[0].namespaces.clear();
                    Ok(())
                });
                (changed.map(drop), administration.notice_growth())
            }
        });
        administration.leave();
        drop(still);
        let (changed, noticed) = waiting.join().unwrap();
        assert_eq!(changed.unwrap_err().status, 421);
        assert!(!noticed.unwrap() && target.has_grown());
        assert_eq!(target.config().subsystems[0].namespaces.len(), 1);
    }
}
