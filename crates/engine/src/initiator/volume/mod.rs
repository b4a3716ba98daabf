//! A namespace as bytes, over all its paths: what most users of this library want. Threads of its own do the I/O; callers
//! block, or await, on any thread.

mod async_volume;
mod find;
mod local_volume;
mod options;
mod outcome;
mod replies;
mod route;
mod tasks;
mod volume;
mod worker;

pub use async_volume::{AsyncVolume, VolumeTask};
pub use local_volume::{LocalTask, LocalVolume};
pub use options::{NamespaceName, VolumeOptions};
pub use volume::Volume;
