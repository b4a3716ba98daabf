//! Jobs of the reservation worker.

use std::sync::Arc;

use nvme::io::IoCommand;

use super::asker::Asker;
use super::shares::Share;
use crate::target::controller::Controller;
use crate::target::served::Namespace;

/// A job of the reservation worker, with the host that waits for it.
#[derive(Debug)]
pub(crate) struct Job {
    /// The controller by which the host asks.
    pub(crate) controller: Arc<Controller>,
    pub(crate) asker: Asker,
    pub(crate) task: Task,
    /// Place of its host among the worker's jobs.
    pub(crate) share: Share,
}

/// Task of the reservation worker.
#[derive(Debug)]
pub(crate) enum Task {
    /// The reservation command in a slot of the asker's connection, with its data.
    Command { namespace: Arc<Namespace>, command: IoCommand, data: Vec<u8>, slot: u16 },
    /// The Reservation Persistence feature of these namespaces.
    Persistence { namespaces: Vec<Arc<Namespace>>, persists: bool },
}
