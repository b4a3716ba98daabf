//! A simulated cluster, with the same types as Ceph's own libraries have. What the cluster does is the world's.

mod cluster;
mod image;
mod object;
mod pool;
mod watch;

pub use cluster::Cluster;
pub use image::{Image, late_operations, note_late_operation};
pub use object::Object;
pub use pool::Pool;
pub use watch::Watch;

use super::{CephError, ClusterOptions, ImageKey, ImageNews, Lateness, ObjectChange, Pairs};
