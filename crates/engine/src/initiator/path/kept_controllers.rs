//! The record that a process keeps of its controllers, and what it finds of processes that were killed: when a record is
//! written, which ones the process has to bring to rest, and when a file may go. Where the files are, and how they say whether
//! their process lives, is not known here.

use std::fmt::Debug;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::controller_record::{ControllerRecord, ControllerRecordStore, RecordError};

/// A place for files of controllers: one for each process, which others find when it was killed.
pub trait ControllerFiles: Debug + Send + Sync {
    /// The file of a process that was killed.
    type Left: Debug + Send;

    /// Puts these in the place of what the own file holds, as a whole. There is no file when there are none.
    ///
    /// # Errors
    /// When it cannot be written: the file is as it was.
    fn write(&self, own: &[ControllerRecord]) -> io::Result<()>;

    /// The files of processes that were killed, but for these, which are known.
    ///
    /// # Errors
    /// When it cannot be looked for them.
    fn find(&self, known: &mut dyn Iterator<Item = &Self::Left>) -> io::Result<Vec<Found<Self::Left>>>;

    /// All controllers of the file are at rest.
    fn remove(&self, left: Self::Left);
}

/// A file of a process that was killed.
#[derive(Debug)]
pub struct Found<L> {
    /// The file.
    pub left: L,
    /// Content of the file.
    pub content: FoundContent,
}

/// Content of a killed process's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundContent {
    /// These controllers.
    Controllers(Vec<ControllerRecord>),
    /// The content cannot be read; the process asked for this keep alive time-out.
    Unreadable {
        /// In milliseconds.
        keep_alive_ms: u32,
    },
}

/// The controllers of a process: its own, and those of processes that were killed.
#[derive(Debug)]
pub struct KeptControllers<F: ControllerFiles> {
    files: F,
    /// The most of its own.
    own_max: usize,
    state: Mutex<State<F::Left>>,
}

#[derive(Debug)]
struct State<L> {
    own: Vec<ControllerRecord>,
    /// Files of killed processes, with those of their controllers that are not at rest.
    left: Vec<(L, Vec<ControllerRecord>)>,
}

impl<F: ControllerFiles> KeptControllers<F> {
    /// None yet, with files in this place, and at most `own_max` of its own.
    pub const fn new(files: F, own_max: usize) -> Self {
        Self { files, own_max, state: Mutex::new(State { own: Vec::new(), left: Vec::new() }) }
    }

    /// The place of the files.
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// Controllers of processes that were killed, as far as they were not found before.
    ///
    /// # Errors
    /// When it cannot be looked for them.
    pub fn left_controllers(&self) -> io::Result<Vec<ControllerRecord>> {
        let mut state = self.state();
        let found = self.files.find(&mut state.left.iter().map(|(left, _)| left))?;
        let mut all = Vec::new();
        for Found { left, content } in found {
            let controllers = match content {
                FoundContent::Controllers(controllers) => controllers,
                FoundContent::Unreadable { keep_alive_ms } => vec![ControllerRecord::unknown(keep_alive_ms)],
            };
            if controllers.is_empty() {
                self.files.remove(left);
            } else {
                all.extend(controllers.iter().cloned());
                state.left.push((left, controllers));
            }
        }
        Ok(all)
    }

    fn state(&self) -> MutexGuard<'_, State<F::Left>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: ControllerFiles> ControllerRecordStore for KeptControllers<F> {
    fn save(&self, controller: &ControllerRecord) -> Result<(), RecordError> {
        let mut state = self.state();
        if state.own.len() >= self.own_max {
            return Err(RecordError::Full(self.own_max));
        }
        state.own.push(controller.clone());
        let written = self.files.write(&state.own);
        if written.is_err() {
            state.own.pop();
        }
        Ok(written?)
    }

    fn quiesced(&self, controller: &ControllerRecord) {
        let mut state = self.state();
        if let Some(at) = state.own.iter().position(|own| own == controller) {
            state.own.swap_remove(at);
            // A file with controllers too many only makes a later process wait longer.
            if let Err(error) = self.files.write(&state.own) {
                tracing::warn!(
                    reason = error.to_string(),
                    "a file of controllers is out of date: a later attach may wait although it need not"
                );
            }
            return;
        }
        let position = |of: &[ControllerRecord]| of.iter().position(|one| one == controller);
        let found = state.left.iter().enumerate().find_map(|(at, (_, of))| Some((at, position(of)?)));
        let Some((file, at)) = found else { return };
        state.left[file].1.swap_remove(at);
        if state.left[file].1.is_empty() {
            let (left, _) = state.left.swap_remove(file);
            self.files.remove(left);
        }
    }
}
