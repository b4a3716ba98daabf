//! Abort: every reactor looks whether it has the command, and the last one that has looked answers.
//! Taking a command back is `io`'s.

use super::address::Address;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bit 0 of the result: the command was not aborted (Base 5.1.1).
const NOT_ABORTED: u64 = 1;

/// An Abort command that reactors work on.
#[derive(Debug)]
pub(crate) struct Abort {
    pub(crate) controller_id: u16,
    pub(crate) queue_id: u16,
    pub(crate) command_id: u16,
    left: AtomicUsize,
    aborted: AtomicBool,
    /// Connection and identifier of the Abort command.
    pub(crate) asker: (Address, u16),
}

impl Abort {
    /// Asks for the command with this controller's, queue's and command's identifiers, on this number of reactors.
    pub(crate) fn new(
        (controller_id, queue_id, command_id): (u16, u16, u16),
        asker: (Address, u16),
        reactors: usize,
    ) -> Self {
        let (left, aborted) = (AtomicUsize::new(reactors), AtomicBool::new(false));
        Self { controller_id, queue_id, command_id, left, aborted, asker }
    }

    /// A reactor has tried. The last one gets the result to answer with.
    pub(crate) fn tried(&self, aborted: bool) -> Option<u64> {
        self.aborted.fetch_or(aborted, Ordering::AcqRel);
        let is_last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| if self.aborted.load(Ordering::Acquire) { 0 } else { NOT_ABORTED })
    }
}
