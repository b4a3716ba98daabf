//! A namespace as bytes, over all its paths: what most users of this library want. Threads of its own do the I/O; callers
//! block, or await, on any thread.

mod async_volume;
mod find;
mod options;
mod replies;
mod volume;
mod worker;

pub use async_volume::AsyncVolume;
pub use options::{NamespaceName, VolumeOptions};
pub use volume::Volume;
