//! What the authentication worker has computed.

use std::fmt;

use authentication::{ControllerSide, Progress};

/// A step that was done.
pub(crate) struct AuthenticationDone {
    pub(crate) command_id: u16,
    pub(crate) side: Box<ControllerSide>,
    pub(crate) progress: Progress,
    /// Message that the host requested.
    pub(crate) message: Option<Vec<u8>>,
}

impl fmt::Debug for AuthenticationDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticationDone").field("progress", &self.progress).finish_non_exhaustive()
    }
}
