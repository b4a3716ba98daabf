//! Ceph's own libraries, librados and librbd, which are found when the program runs.

mod c_string;
mod cluster;
mod image;
mod images;
mod library;
mod object;
mod pool;
mod watch;

pub use cluster::Cluster;
pub use image::{Image, late_operations, note_late_operation};
pub use images::{NewImage, Snapshot};
pub(super) use library::{are_installed, leave_out};
pub use object::Object;
pub use pool::Pool;
pub use watch::Watch;

use super::{
    CephError, ClusterOptions, ImageKey, ImageNews, Lateness, LuksFormat, ObjectChange, Pairs, error,
};
