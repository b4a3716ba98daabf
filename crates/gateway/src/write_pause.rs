//! That writes of several namespaces are held at all gateways at once, as they ask each other for it and say so.

use serde::{Deserialize, Serialize};

/// Request of a gateway to the others to hold writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WritePause {
    pub(crate) id: u64,
    /// Set once the operation is done: the others then say if they have held their writes until
    /// now.
    pub(crate) is_done: bool,
    pub(crate) namespaces: Vec<(String, u32)>,
}

/// Reply of a gateway to a write pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PauseReply {
    pub(crate) id: u64,
    /// Set if it has held its writes until the operation was done.
    pub(crate) is_done: bool,
}
