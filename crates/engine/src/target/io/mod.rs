//! I/O commands: checked, done on their namespaces, and answered by what they give back. They know no socket.

mod abort;
mod commands;
mod context;
mod copy;
mod execute;
mod host_buffers;
mod pair;
mod progress;
mod request;
mod reservation;
mod slots;
mod storage;
mod storage_watch;
mod sync_verdict;
mod throttle;
mod throttling;
mod work;

pub(crate) use commands::{Commands, QueueIdentity};
pub(crate) use context::{Capsule, Context};
pub(crate) use host_buffers::HostBuffers;
pub(crate) use request::{Next, Reply};
pub(crate) use slots::Slots;
pub(crate) use storage::StorageToken;
pub(crate) use storage_watch::{QueueOwner, StorageWatch};
pub(crate) use sync_verdict::{SyncVerdict, end_on, end_sync};
pub(crate) use work::Work;

#[cfg(test)]
mod tests;
