//! A Cross-Controller Reset that waits for its fence (TP8028). Who may ask for one is decided where the command comes.

use std::sync::Arc;

use nvme::cross_reset::ControllerInstance;

use super::address::Address;
use crate::target::controller::Controller;

/// A reset that waits for its fence.
#[derive(Debug)]
pub(crate) struct CrossReset {
    /// The controller that was asked.
    pub(crate) asked: Arc<Controller>,
    pub(crate) impacted: ControllerInstance,
    /// The command that waits, where the controller was gone when it came.
    pub(crate) command: Option<(Address, u16)>,
}
