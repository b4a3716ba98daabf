//! A question that shows whether a cluster answers.

use std::sync::Arc;

use super::{CephError, Cluster, Object, Pool};

impl Cluster {
    /// Asks the cluster something that costs it little: whether there is an image of this name, which may be either way. It
    /// takes as long as an operation may.
    ///
    /// # Errors
    /// When the cluster does not answer, or refuses.
    pub fn ask(self: &Arc<Self>, pool: &str, namespace: &str, image: &str) -> Result<(), CephError> {
        let pool = Arc::new(Pool::open(self.clone(), pool, namespace)?);
        Object::new(pool, &format!("rbd_id.{image}"))?.pairs("").map(drop)
    }
}
