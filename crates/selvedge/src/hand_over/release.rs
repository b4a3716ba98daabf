//! Release of the old process' resources in Ceph clusters: locks of images, and its part in a
//! group of gateways. It sends nothing to the new process.

use std::time::Instant;

use engine::ceph::ClusterConnection;
use engine::hand_over::{Fault, HandOverError};
use engine::target::hand_over::Releases;
use engine::target::{FabricConfig, Target};
use gateway::{MemberHandOverError, Membership, ServingGuard};
use serde_json::Value;

use super::handed_ceph::{self, HandedCeph, OfferedCeph};
use super::program_state::Adjusted;
use crate::cluster_connections::names_one;
use crate::control::administration::Administration;

/// Something that is held until it is dropped.
trait Held {}
impl<T> Held for T {}

/// Configuration of a target, with the identities by which hosts know it.
fn served(target: &Target) -> FabricConfig {
    target.config().with_identities(&target.namespace_identities())
}

/// Failure of a gateway's part in its group.
fn of_gateway(error: MemberHandOverError) -> HandOverError {
    HandOverError::program(error.fault(), error)
}

/// Releases resources, and takes them back.
pub(super) struct Release<'a> {
    target: &'a Target,
    administration: &'a Administration,
    membership: Option<&'a Membership>,
    /// Configuration at the time of the offer.
    served: FabricConfig,
    /// The same of what no configuration has.
    adjusted: Adjusted,
    /// Guard that keeps administrators from changing anything.
    still: Option<Box<dyn Held + 'a>>,
    offered: OfferedCeph,
    /// Connections of the new process, each a single one.
    connections: Vec<ClusterConnection>,
    /// Guard that keeps others from deciding what a gateway serves.
    turn: Option<ServingGuard<'a>>,
    /// Time at which everything was quiesced.
    begun: Option<Instant>,
    /// True once another process has it all.
    has_left: bool,
}

impl<'a> Release<'a> {
    /// Prepares the offer.
    pub(super) fn new(target: &'a Target, administration: &'a Administration) -> Result<Self, HandOverError> {
        let membership = administration.membership();
        // From here on, what is dropped is offered no longer.
        let mut release = Self {
            target,
            administration,
            membership,
            served: served(target),
            adjusted: Adjusted::of(target),
            still: None,
            offered: OfferedCeph::default(),
            connections: Vec::new(),
            turn: None,
            begun: None,
            has_left: false,
        };
        let connections = target.cluster_connections();
        release.offered = OfferedCeph {
            locked: target.locked_images(),
            connections: connections.map_err(|error| HandOverError::program(Fault::System, error))?,
            member: membership.map(Membership::offer).transpose().map_err(of_gateway)?,
        };
        Ok(release)
    }

    pub(super) const fn offered(&self) -> &OfferedCeph {
        &self.offered
    }

    /// Configuration at the time of the offer.
    pub(super) const fn served(&self) -> &FabricConfig {
        &self.served
    }

    /// The same of what no configuration has.
    pub(super) const fn adjusted(&self) -> &Adjusted {
        &self.adjusted
    }

    /// Milliseconds since everything was quiesced.
    pub(super) fn pause_ms(&self) -> u64 {
        self.begun.map_or(0, |begun| begun.elapsed().as_millis() as u64)
    }
}

impl Releases for Release<'_> {
    /// By which connections the new process can be shut out.
    fn introduced(&mut self, said: Value) -> Result<(), HandOverError> {
        let refused = |reason: String| HandOverError::program(Fault::OtherProcess, reason);
        let connections: Vec<ClusterConnection> = handed_ceph::read(&said).map_err(refused)?;
        // Others of the same machine must not be.
        if let Some(other) = connections.iter().find(|connection| !names_one(&connection.address)) {
            let reason = format!("the new process names {}, which is not a connection", other.address);
            return Err(refused(reason));
        }
        self.connections = connections;
        Ok(())
    }

    fn hold_still(&mut self) -> Result<(), HandOverError> {
        self.still = Some(Box::new(self.administration.hold_still()));
        // A gateway's new process has it of the group.
        if self.membership.is_none() && served(self.target) != self.served {
            let reason = "what it serves was changed meanwhile; upgrade it again";
            return Err(HandOverError::program(Fault::ThisProcess, reason));
        }
        if Adjusted::of(self.target) != self.adjusted {
            let reason =
                "its log level or threshold of slow commands was changed meanwhile; upgrade it again";
            return Err(HandOverError::program(Fault::ThisProcess, reason));
        }
        self.turn = self.membership.map(Membership::serving_guard);
        self.begun = Some(Instant::now());
        Ok(())
    }

    fn let_go(&mut self) -> Result<Value, HandOverError> {
        let membership = self.membership.zip(self.offered.member.as_ref()).zip(self.turn.as_deref());
        let member =
            membership.map(|((membership, offered), serving)| membership.hand_over(offered, serving));
        let member = member.transpose().map_err(of_gateway)?;
        self.target.release_images()?;
        let handed = serde_json::to_value(HandedCeph { member });
        handed.map_err(|error| HandOverError::program(Fault::ThisProcess, error))
    }

    fn rest(&mut self) {
        if let Some(membership) = self.membership {
            membership.rest();
        }
    }

    /// A new process that has not refused it itself is shut out.
    fn take_back(&mut self, has_refused: bool) {
        let from: &[ClusterConnection] = if has_refused { &[] } else { &self.connections };
        self.target.take_images_back(from);
        if let Some(membership) = self.membership {
            membership.resume();
        }
    }

    /// A gateway then begins a new epoch, since the new process may have done anything in the old
    /// one.
    fn begin_again(&mut self) {
        match self.membership.zip(self.turn.as_deref_mut()) {
            Some((membership, serving)) => membership.begin_again(serving, self.target),
            None => self.target.take_images_back(&self.connections),
        }
    }

    fn is_awaited(&mut self) {
        tracing::warn!(
            "the new process has the hosts and does not say that it serves; if it hangs, end it (kill -KILL), and this \
             process serves on"
        );
    }

    /// Leaves the changes that wait for the guard to the new process, too.
    fn leave(&mut self) {
        self.administration.leave();
        self.has_left = true;
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.turn = None;
        if let Some(membership) = self.membership.filter(|_| !self.has_left) {
            membership.withdraw();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use engine::target::{PortConfig, SubsystemConfig, TargetConfig};

    use super::*;

    #[test]
    fn a_threshold_of_slow_commands_that_changes_after_the_offer_refuses_the_hand_over() {
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![SubsystemConfig::new("nqn.test:a", "A", "Selvedge")],
            ..FabricConfig::default()
        };
        let config = TargetConfig { fabric, poll_us_max: 0, ..TargetConfig::default() };
        let target = Arc::new(Target::start(&config).unwrap());
        let administration = Administration::new(target.clone(), None).unwrap();
        let mut release = Release::new(&target, &administration).unwrap();
        target.keep_slow_commands(Some(Duration::from_millis(5)));
        let refused = release.hold_still().unwrap_err();
        assert_eq!(refused.fault(), Fault::ThisProcess);
        assert!(refused.to_string().contains("slow commands"), "{refused}");
        drop(release);
        let mut release = Release::new(&target, &administration).unwrap();
        assert_eq!(release.adjusted().slow_commands.threshold_ns, Some(5_000_000));
        assert!(release.hold_still().is_ok());
    }
}
