//! Disks of one connection in a process that may be replaced: what is offered of them, how they come to rest, and how they go on.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use attach::ublk::DeviceHolder;
use attach::{HandOverError, Holder, VhostHolder};

use super::super::controllers::AllControllers;
use super::super::record::{AttachMethod, KeptRecord, Record, RecordedDisk};
use super::words::{HandedState, OfferedGroup};

/// Disks that are served.
pub(in super::super) struct DiskGroup {
    /// Record of this process, and its path.
    pub(in super::super) record: Option<(Record, PathBuf)>,
    /// Second copy of the record, written if another process had replaced the file; removed with
    /// the disks.
    pub(in super::super) restored: Mutex<Option<KeptRecord>>,
    pub(in super::super) disks: Vec<RecordedDisk>,
    /// Of this process, and of those that were killed.
    pub(in super::super) controllers: Arc<AllControllers>,
    pub(in super::super) holder: GroupServer,
}

/// Server of the disks.
pub(in super::super) enum GroupServer {
    /// NBD clients, with a copy of the socket that listens.
    Nbd { holder: Holder, listener: OwnedFd },
    /// Front ends, with copies of the sockets that listen.
    VhostUser { holder: VhostHolder, listeners: Vec<OwnedFd> },
    /// Block devices.
    Ublk(Vec<DeviceHolder>),
}

impl DiskGroup {
    /// Returns the data and descriptors with which the new process prepares.
    pub(super) fn offer(&self, arguments: &[String]) -> io::Result<(OfferedGroup, Vec<OwnedFd>)> {
        let (method, descriptors) = match &self.holder {
            GroupServer::Nbd { listener, .. } => (AttachMethod::Nbd, vec![listener.try_clone()?]),
            GroupServer::VhostUser { listeners, .. } => {
                let copies = listeners.iter().map(OwnedFd::try_clone);
                (AttachMethod::VhostUser, copies.collect::<io::Result<_>>()?)
            }
            GroupServer::Ublk(_) => (AttachMethod::Ublk, Vec::new()),
        };
        let offered = OfferedGroup {
            arguments: arguments.to_vec(),
            record: self.record.as_ref().map(|(_, path)| path.clone()),
            method,
            disks: self.disks.clone(),
            descriptors: descriptors.len(),
        };
        Ok((offered, descriptors))
    }

    /// Ends what was asked for, and begins nothing else, until `thaw` or `leave`.
    ///
    /// # Errors
    /// When that takes too long; it serves on then.
    pub(super) fn freeze(&self) -> Result<(HandedState, Vec<OwnedFd>), HandOverError> {
        match &self.holder {
            GroupServer::Nbd { holder, .. } => {
                holder.freeze().map(|(server, sockets)| (HandedState::Nbd(server), sockets))
            }
            GroupServer::VhostUser { holder, .. } => {
                holder.freeze().map(|(server, descriptors)| (HandedState::VhostUser(server), descriptors))
            }
            GroupServer::Ublk(devices) => {
                let frozen = devices.iter().try_for_each(DeviceHolder::freeze);
                let frozen = frozen.inspect_err(|_| self.thaw());
                frozen.map(|()| (HandedState::Ublk, Vec::new()))
            }
        }
    }

    /// Serves on as if nothing had been.
    pub(super) fn thaw(&self) {
        match &self.holder {
            GroupServer::Nbd { holder, .. } => holder.thaw(false),
            GroupServer::VhostUser { holder, .. } => holder.thaw(false),
            GroupServer::Ublk(devices) => devices.iter().for_each(DeviceHolder::thaw),
        }
    }

    /// Leaves what the new process cannot serve before.
    pub(super) fn leave_devices(&self) {
        let GroupServer::Ublk(devices) = &self.holder else { return };
        for device in devices {
            if !device.leave() {
                tracing::warn!(
                    target: "selvedge::commands::attach::succession::disk_group",
                    "a block device is left later than its new process expects"
                );
            }
        }
    }

    /// Serves on where another process had begun to, which has died.
    pub(super) fn serve_again(&self) {
        // Before anything is written: what that process had sent may still be carried out.
        self.controllers.look_again();
        match &self.holder {
            GroupServer::Nbd { holder, .. } => holder.thaw(true),
            GroupServer::VhostUser { holder, .. } => holder.thaw(true),
            // They are left, and the process ends: `recover` takes them over.
            GroupServer::Ublk(_) => return,
        }
        let restored = self.record.as_ref().and_then(|(record, path)| record.keep(Some(path)).ok());
        *self.restored.lock().unwrap_or_else(PoisonError::into_inner) = restored;
    }

    /// Leaves it to the new process, which serves.
    pub(super) fn leave(&self) {
        match &self.holder {
            GroupServer::Nbd { holder, .. } => holder.leave(),
            GroupServer::VhostUser { holder, .. } => holder.leave(),
            GroupServer::Ublk(_) => {}
        }
    }
}
