//! State of a namespace that only the old process knows, and leaves to the new one.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::backend::SyncFailure;

/// A namespace that is not as its storage says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedNamespace {
    /// The namespace.
    pub namespace: Uuid,
    /// Blocks that are marked as uncorrectable: the first of some, and how many.
    pub marks: Vec<(u64, u64)>,
    /// Why its storage can make nothing durable, if that is so.
    pub failure: Option<SyncFailure>,
}

/// State of a namespace that this process cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandedNamespaceError {
    /// Marked ranges beyond the limit.
    #[error("too many of its blocks are marked")]
    Marks,
    /// Failure of a storage that cannot fail, such as memory.
    #[error("its storage has no state of failure")]
    Failure,
}
