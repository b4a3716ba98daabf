//! A task on a thread of a volume, as any other thread or task sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::AsyncVolume;
use super::local_volume::LocalTask;
use super::replies::block_on;
use crate::initiator::InitiatorError;

/// The outcome of a task on one of the volume's own threads: to be awaited, or waited for. A task that panics has whoever
/// waits for it panic. It goes on when this is dropped, until the last handle of the volume is dropped.
#[derive(Debug)]
#[must_use = "the volume is closed, and the task ends, with the last handle of the volume; this is one"]
pub struct VolumeTask<T> {
    pub(super) task: LocalTask<T>,
    /// It stays open for the task.
    pub(super) volume: AsyncVolume,
}

impl<T> VolumeTask<T> {
    /// Waits on this thread until the task has ended, which must not be one of the volume's own.
    ///
    /// # Errors
    /// When the volume's thread ended before the task.
    pub fn wait(self) -> Result<T, InitiatorError> {
        block_on(self)
    }

    /// The volume that it is a task of.
    pub const fn volume(&self) -> &AsyncVolume {
        &self.volume
    }
}

impl<T> Future for VolumeTask<T> {
    type Output = Result<T, InitiatorError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context)
    }
}
