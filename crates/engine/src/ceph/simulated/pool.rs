//! A pool of the simulated cluster.

use std::sync::Arc;

use super::{CephError, Cluster};

/// A pool, or a namespace within it.
#[derive(Debug)]
pub struct Pool {
    cluster: Arc<Cluster>,
    name: String,
}

impl Pool {
    /// The pool with this name, or the namespace within it.
    ///
    /// # Errors
    /// Never: there is whatever pool is named.
    pub fn open(cluster: Arc<Cluster>, name: &str, namespace: &str) -> Result<Self, CephError> {
        let name = if namespace.is_empty() { name.to_owned() } else { format!("{name}/{namespace}") };
        Ok(Self { cluster, name })
    }

    /// The connection it is seen from.
    pub const fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Name, with the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number, which no other pool of the cluster ever has.
    pub const fn number(&self) -> i64 {
        1
    }
}
