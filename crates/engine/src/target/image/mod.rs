//! Images of Ceph clusters that are being opened, and those that cannot be.

mod absent_namespace;
mod opener;

pub use absent_namespace::AbsentNamespace;
pub(crate) use opener::{ImageOpener, Images, OpenRequest, Outcome};
