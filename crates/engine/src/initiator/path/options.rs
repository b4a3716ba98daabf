//! Options of a set of paths, with Linux' names and defaults. What people type belongs to the
//! program.

use std::sync::Arc;
use std::time::Duration;

use super::IoPolicy;
use super::controller_record::{ControllerRecord, ControllerRecordStore};
use crate::initiator::ConnectOptions;

/// Time between attempts to connect again, as with Linux.
const RECONNECT_DELAY: Duration = Duration::from_secs(10);
/// Time after which a lost path is given up, as with Linux.
const CONTROLLER_LOSS: Duration = Duration::from_secs(600);
/// Time added to the keep alive time if a controller does not report how long its commands may go
/// on (CQT): as long as a command may take.
const UNKNOWN_QUIESCE: Duration = Duration::from_secs(30);

/// Connections of a set of paths, and its conduct when one is lost.
#[derive(Clone, Debug)]
pub struct PathOptions {
    /// Options of each path: all to the same subsystem, as the same host.
    pub paths: Vec<ConnectOptions>,
    /// The namespace.
    pub nsid: u32,
    /// Policy that chooses the path of a command.
    pub policy: IoPolicy,
    /// Time between two attempts to connect again. The first follows at once.
    pub reconnect_delay: Duration,
    /// Time after which a lost path is given up; `None` for never, zero for at once.
    pub controller_loss: Option<Duration>,
    /// Time after which commands are failed while no path is there, though one may come back; `None` to wait as long as
    /// one may.
    pub fast_io_fail: Option<Duration>,
    /// Time after which a command fails that still waits, be it for a path or for a lost controller to quiesce, counted from
    /// when it was taken; `None` to wait as long as that takes.
    pub wait_limit: Option<Duration>,
    /// Time for which commands may go on after the end of the keep alive time, if a controller does
    /// not report it (CQT is 0).
    pub unknown_quiesce: Duration,
    /// Set if a write whose answer was lost waits until its old controller can write no more.
    /// Without it, a late write can undo a newer one: it is there to show just that.
    pub quiesce: bool,
    /// Controllers of a process that has ended, and that may still carry out what it sent: nothing is written before they have
    /// come to rest. The time counts from when the set is connected.
    pub left_controllers: Vec<ControllerRecord>,
    /// Store of the records of the set's own controllers, for a later process.
    pub record_store: Option<Arc<dyn ControllerRecordStore>>,
}

impl PathOptions {
    /// The defaults for namespace `nsid` over `paths`.
    pub fn new(paths: Vec<ConnectOptions>, nsid: u32) -> Self {
        Self {
            paths,
            nsid,
            policy: IoPolicy::default(),
            reconnect_delay: RECONNECT_DELAY,
            controller_loss: Some(CONTROLLER_LOSS),
            fast_io_fail: None,
            wait_limit: None,
            unknown_quiesce: UNKNOWN_QUIESCE,
            quiesce: true,
            left_controllers: Vec::new(),
            record_store: None,
        }
    }

    /// The same for one path that is not connected again.
    pub fn once(path: ConnectOptions, nsid: u32) -> Self {
        Self { controller_loss: Some(Duration::ZERO), ..Self::new(vec![path], nsid) }
    }
}
