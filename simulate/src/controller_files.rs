//! The folder in which processes that serve a disk keep the records of their controllers, as far as others see it: files that
//! are replaced as a whole, stay when their process is killed, and say whether it lives.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::initiator::{
    ControllerFiles, ControllerRecord, ControllerRecordStore, Found, FoundContent, KeptControllers,
    RecordError,
};
use engine::simulation::{self, sleep};

use crate::fault::Fate;

/// The most controllers of a process: so few that one which is lost again and again has to wait.
const OWN_MAX: usize = 12;
/// The longest that a process takes to write its file, in microseconds: most have a fast folder.
const WRITE_US_MAX: [u64; 4] = [1_000, 3_000, 3_000, 400_000];

#[derive(Clone, Debug)]
struct File {
    number: u64,
    /// Life of the process that wrote it.
    life: u64,
    is_locked: bool,
    is_readable: bool,
    keep_alive_ms: u32,
    controllers: Vec<ControllerRecord>,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<File>,
    made: u64,
    /// Set while nothing can be written.
    is_full: bool,
    /// Files that were found and could not be read.
    unreadable: u64,
}

/// The folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder(Arc<Mutex<State>>);

impl Folder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.state().is_full = is_full;
    }

    /// A process is no more.
    pub(crate) fn abandon(&self, life: u64, fate: Fate) {
        let files = &mut self.state().files;
        // The machine was restarted.
        if fate == Fate::Gone {
            files.clear();
        }
        for file in files.iter_mut().filter(|file| file.life == life) {
            file.is_locked = false;
            file.is_readable &= fate != Fate::Unreadable;
        }
    }

    /// Number of files of killed processes that could not be read so far.
    pub(crate) fn unreadable(&self) -> u64 {
        self.state().unreadable
    }

    /// True if a process has recorded that it has this controller.
    pub(crate) fn holds(&self, life: u64, address: SocketAddr, controller_id: u16) -> bool {
        let is_it = |one: &ControllerRecord| (one.address, one.controller_id) == (address, controller_id);
        let state = self.state();
        state.files.iter().any(|file| file.life == life && file.controllers.iter().any(is_it))
    }

    pub(crate) fn count(&self) -> usize {
        self.state().files.len()
    }

    /// Records of a life of the process.
    pub(crate) fn controller_store(
        &self,
        life: u64,
        keep_alive_ms: u32,
        has_random_numbers: bool,
    ) -> Arc<ControllerStore> {
        let mut state = self.state();
        state.made += 1;
        let files =
            Files { folder: self.clone(), number: state.made, life, keep_alive_ms, has_random_numbers };
        let write_us_max = WRITE_US_MAX[simulation::random() as usize % WRITE_US_MAX.len()];
        Arc::new(ControllerStore { kept: KeptControllers::new(files, OWN_MAX), write_us_max })
    }
}

/// The folder as one process sees it.
#[derive(Debug)]
struct Files {
    folder: Folder,
    number: u64,
    life: u64,
    keep_alive_ms: u32,
    /// Without them controllers cannot be reset, as those of targets that know no such reset.
    has_random_numbers: bool,
}

impl ControllerFiles for Files {
    type Left = u64;

    fn write(&self, own: &[ControllerRecord]) -> io::Result<()> {
        let mut state = self.folder.state();
        if state.is_full {
            return Err(io::Error::other("there is no room"));
        }
        state.files.retain(|file| file.number != self.number);
        if !own.is_empty() {
            let number =
                |record: &ControllerRecord| if self.has_random_numbers { record.random_number } else { 0 };
            let written = |record: &ControllerRecord| ControllerRecord {
                random_number: number(record),
                ..record.clone()
            };
            state.files.push(File {
                number: self.number,
                life: self.life,
                is_locked: true,
                is_readable: true,
                keep_alive_ms: self.keep_alive_ms,
                controllers: own.iter().map(written).collect(),
            });
        }
        Ok(())
    }

    fn find(&self, known: &mut dyn Iterator<Item = &u64>) -> io::Result<Vec<Found<u64>>> {
        let known: Vec<u64> = known.copied().collect();
        let mut state = self.folder.state();
        let left = state.files.iter().filter(|file| !file.is_locked && !known.contains(&file.number));
        let left: Vec<File> = left.cloned().collect();
        state.unreadable += left.iter().filter(|file| !file.is_readable).count() as u64;
        let found = left.into_iter().map(|file| Found {
            left: file.number,
            content: match file.is_readable {
                true => FoundContent::Controllers(file.controllers),
                false => FoundContent::Unreadable { keep_alive_ms: file.keep_alive_ms },
            },
        });
        Ok(found.collect())
    }

    fn remove(&self, left: u64) {
        self.folder.state().files.retain(|file| file.number != left);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let mut state = self.folder.state();
        let own = state.files.iter_mut().filter(|file| file.number == self.number);
        own.for_each(|file| file.is_locked = false);
    }
}

/// Records of a process' controllers, written with some latency.
#[derive(Debug)]
pub(crate) struct ControllerStore {
    kept: KeptControllers<Files>,
    write_us_max: u64,
}

impl ControllerStore {
    /// Controllers of processes that were killed, as far as they were not found before.
    pub(crate) fn left_controllers(&self) -> Vec<ControllerRecord> {
        self.kept.left_controllers().unwrap_or_default()
    }

    /// Sleeps for the time of a step with a file.
    fn take_time(&self) {
        sleep(Duration::from_micros(simulation::random() % self.write_us_max));
    }
}

impl ControllerRecordStore for ControllerStore {
    fn save(&self, controller: &ControllerRecord) -> Result<(), RecordError> {
        self.take_time();
        let kept = self.kept.save(controller);
        self.take_time();
        kept
    }

    fn quiesced(&self, controller: &ControllerRecord) {
        self.take_time();
        self.kept.quiesced(controller);
        self.take_time();
    }
}
