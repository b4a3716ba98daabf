//! The new process' take-over in Ceph clusters: locks of images, and the part of a gateway in its
//! group.

use std::sync::Arc;
use std::time::Duration;

use engine::hand_over::{Fault, HandOverError};
use engine::target::hand_over::TakesOver;
use engine::target::{Directives, Target};
use gateway::Member;
use serde_json::Value;

use super::handed_ceph::{self, HandedCeph, OfferedCeph};
use crate::failure::Failure;

/// Take-over of the old process' images and membership.
pub(super) struct TakeOver<'a> {
    target: &'a Arc<Target>,
    member: Option<&'a mut Member>,
    offered: &'a OfferedCeph,
    has_taken: bool,
}

impl<'a> TakeOver<'a> {
    pub(super) const fn new(
        target: &'a Arc<Target>,
        member: Option<&'a mut Member>,
        offered: &'a OfferedCeph,
    ) -> Self {
        Self { target, member, offered, has_taken: false }
    }

    fn take_locks(&self) -> Result<(), HandOverError> {
        if self.offered.locked.is_empty() {
            return Ok(());
        }
        let config = self.target.config();
        let taken = self.target.apply_directed(&config, &Directives::default(), Duration::ZERO);
        taken.map(drop).map_err(|error| HandOverError::program(Fault::System, error))
    }

    /// Goes on after the old process has died with an incomplete hand-over. True if this
    /// process serves all the same, as a gateway in a new epoch; otherwise the target has to be
    /// restarted, with images to which no other process writes.
    pub(super) fn start_over(&mut self) -> Result<bool, Failure> {
        if let Some(member) = &mut self.member {
            member.continue_as_new(self.target.clone())?;
            return Ok(true);
        }
        if !self.offered.connections.is_empty()
            && let Err(error) = self.target.shut_out(&self.offered.connections)
        {
            tracing::warn!(%error, "the old process is not shut out: its images may take half a minute to become available");
        }
        Ok(false)
    }
}

impl TakesOver for TakeOver<'_> {
    /// By which connections this process can be shut out.
    fn introduction(&mut self) -> Result<Option<Value>, HandOverError> {
        let connections = self.target.cluster_connections();
        let connections = connections.map_err(|error| HandOverError::program(Fault::System, error))?;
        if connections.is_empty() {
            return Ok(None);
        }
        let said = serde_json::to_value(connections).map(Some);
        said.map_err(|error| HandOverError::program(Fault::ThisProcess, error))
    }

    fn take(&mut self, released: &Value) -> Result<(), HandOverError> {
        let refused = |reason: String| HandOverError::program(Fault::OtherProcess, reason);
        let handed: HandedCeph = handed_ceph::read(released).map_err(refused)?;
        match (self.member.as_deref(), &self.offered.member, &handed.member) {
            (None, None, None) => self.take_locks()?,
            (Some(member), Some(offered), Some(handed)) => {
                let taken = member.membership().take_over(offered, handed, self.target);
                taken.map_err(|error| HandOverError::program(Fault::System, error))?;
            }
            _ => {
                let reason = "one of both processes is a gateway of a group, and the other is not";
                return Err(HandOverError::program(Fault::OtherProcess, reason));
            }
        }
        self.has_taken = true;
        Ok(())
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.has_taken)
            && let Err(reason) = self.target.release_images()
        {
            tracing::warn!(reason = reason.to_string(), "an image stays locked until this process has ended");
        }
    }

    fn go_on(&mut self) -> Result<(), HandOverError> {
        let Some(member) = &mut self.member else { return Ok(()) };
        let begun = member.go_on(self.target.clone());
        begun.map_err(|error| HandOverError::program(Fault::ThisProcess, error))
    }
}
