//! That writes of several namespaces are held at all gateways at once, as they ask each other for it and say so.

use serde::{Deserialize, Serialize};

/// What a gateway asks the others for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WritePause {
    pub(crate) id: u64,
    /// Whether what it was for is done, and all are asked whether they have held their writes until then.
    pub(crate) is_done: bool,
    pub(crate) namespaces: Vec<(String, u32)>,
}

/// What a gateway says of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PauseTold {
    pub(crate) id: u64,
    /// Whether it has held its writes until what it was for was done.
    pub(crate) is_done: bool,
}
