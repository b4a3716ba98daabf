//! A Ceph cluster: connections to it, objects and images in its pools. Blocks as hosts see them belong to `backend`; who may
//! serve an image at a time is decided by the gateways.
//!
//! The types that the engine and every cluster share are in the files here. What a cluster must have besides is the list below:
//! `real` has it by Ceph's libraries, and so has `simulated`, which stands in its place in a simulation.

mod cluster_options;
mod clusters;
mod error;
mod image_closer;
mod image_key;
mod image_news;
mod late_images;
mod lateness;
mod object_change;
mod probe;
#[cfg(not(feature = "simulation"))]
mod real;
#[cfg(feature = "simulation")]
mod simulated;

#[cfg(not(feature = "simulation"))]
use real as library;
#[cfg(feature = "simulation")]
use simulated as library;

pub use cluster_options::ClusterOptions;
pub use clusters::{Allowance, BeforeUse, CephConfig, ClusterConnection, ClusterHandle, Clusters, News};
pub use error::CephError;
pub use image_closer::ImageCloser;
pub use image_key::{ImageKey, LuksFormat};
pub use image_news::ImageNews;
use lateness::Lateness;
pub use library::{Cluster, Image, Object, Pool, Watch, late_operations, note_late_operation};
pub use object_change::{ObjectChange, Pairs};
// What an administrator does with images is not simulated.
#[cfg(not(feature = "simulation"))]
pub use real::{NewImage, Snapshot};

/// Makes a program do without librados and librbd: uses of them fail with the reason. Call it at
/// the start, before any use.
#[cfg(not(feature = "simulation"))]
pub fn leave_out(reason: &str) {
    real::leave_out(reason);
}

/// True if librados is in one of the usual library folders. It is not loaded for that.
#[cfg(not(feature = "simulation"))]
pub fn is_installed() -> bool {
    real::are_installed()
}
