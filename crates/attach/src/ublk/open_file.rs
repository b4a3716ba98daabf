//! The file of a device, as long as this process has it open.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `/dev/ublkcN`, as long as it is open.
#[derive(Clone, Default)]
pub(super) struct OpenFile(Arc<Mutex<Option<Arc<File>>>>);

impl OpenFile {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, file: Arc<File>) {
        *self.lock() = Some(file);
    }

    pub(super) fn close(&self) {
        *self.lock() = None;
    }
}
