//! A Ceph cluster: connections to it, objects and images in its pools. librados and librbd are found when the program runs.
//! Blocks as hosts see them belong to `backend`; who may serve an image at a time is decided by the gateways.

mod c_string;
mod closings;
mod cluster;
mod clusters;
mod error;
mod image;
mod images;
mod library;
mod object;
mod pool;
mod watch;

pub use closings::Closings;
pub use cluster::{Cluster, ClusterOptions};
pub use clusters::{Allowance, BeforeUse, CephConfig, ClusterConnection, Clusters, News, Seat};
pub use error::CephError;
pub use image::{Image, ImageNews, late_operations};
pub use images::{NewImage, Snapshot};
pub use object::{Object, ObjectChange, Pairs};
pub use pool::Pool;
pub use watch::Watch;

/// The versions of librados and librbd, by numbers of their own, which are not Ceph's.
///
/// # Errors
/// When they are not installed.
pub fn library_versions() -> Result<String, CephError> {
    let (rados, rbd) = library::versions()?;
    Ok(format!("librados {rados}, librbd {rbd}"))
}

/// Has a program do without librados and librbd: who asks for them is told the reason. It is for the start, before anybody asks.
pub fn leave_out(reason: &str) {
    library::leave_out(reason);
}

/// Whether librados is in one of the folders where libraries are. It is not loaded for that.
pub fn is_installed() -> bool {
    library::are_installed()
}
