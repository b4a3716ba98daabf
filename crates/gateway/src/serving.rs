//! What a gateway's target serves of its group, and how it is made to serve something else. Why it should is not its
//! concern.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::limits::{GATEWAY_GIVE_UP_MS, GATEWAY_OPENING_PATIENCE_MS};
use engine::ring::wall_time;
use engine::target::{
    Directives, EarlyImages, FabricConfig, GroupState as AnaState, NamespaceConfig, PortConfig, Target,
    TargetError,
};

use super::decision::Decision;
use super::local_fabric::{LocalFabric, NamespaceKey, standby};
use super::member::NamespaceKeys;
use super::state::GroupState;

/// Time before images that could not be opened are tried again, in milliseconds: a cluster that is
/// absent may keep the gateway from all else for as long as connecting may take.
const TRY_AGAIN_MS: u64 = 60_000;
/// A namespace that is there and cannot be taken over keeps its load-balancing group from being served for this time, in
/// milliseconds. Then the others are served without it, which its hosts see as its end.
const LEAVE_OUT_MS: u64 = 60_000;
/// Files of secrets that are wrong are read again after so long, in milliseconds.
const SECRETS_AGAIN_MS: u64 = 5_000;

/// State of what the target serves.
#[derive(Debug, Default)]
pub struct Serving {
    /// The load-balancing groups whose images it has for itself.
    pub(super) hold: BTreeSet<u32>,
    /// The held groups that are served to hosts.
    pub(super) open: BTreeSet<u32>,
    left_out: NamespaceKeys,
    /// These, and those whose images are being opened yet.
    not_served: NamespaceKeys,
    /// The images that are being opened.
    early: Option<EarlyImages>,
    tried_ms: u64,
    failing_since_ms: Option<u64>,
    /// Since when its lease has been over.
    suspended_ms: Option<u64>,
    /// Set if hosts were sent to other gateways with commands that may still be under way on these
    /// connections, which must not be used again then.
    pub(super) has_given_up: bool,
    opening: u64,
    /// The generation of the secrets that it has read, and when it has failed to read others.
    secrets: u64,
    secrets_failed_ms: Option<u64>,
}

/// Result of an adjustment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adjusted {
    Unchanged,
    Changed,
    Failed,
}

/// Result of following the group's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    Same,
    Changed,
    /// Images are being opened that hosts have: until then all stays as it is.
    NotYet,
}

impl Serving {
    /// View of this state by which the target is configured.
    pub(super) fn view<'a>(
        &'a self,
        state: &'a GroupState,
        name: &'a str,
        ports: &'a [PortConfig],
    ) -> LocalFabric<'a> {
        LocalFabric {
            state,
            name,
            ports,
            hold: &self.hold,
            open: &self.open,
            left_out: &self.not_served,
            opening: self.opening,
        }
    }

    /// Namespaces of the group that are not served, since their images are not open.
    pub(super) fn absent(&self, state: &GroupState) -> Vec<(String, NamespaceConfig)> {
        let configured = |(nqn, nsid): &NamespaceKey| {
            let mut namespaces = state.config.subsystem(nqn)?.namespaces.iter();
            Some((nqn.clone(), namespaces.find(|namespace| namespace.nsid == *nsid)?.clone()))
        };
        self.not_served.iter().filter_map(configured).collect()
    }

    /// Number of the present opening of images.
    pub(super) const fn opening(&self) -> u64 {
        self.opening
    }

    /// Copy for reports.
    pub(super) fn glance(&self) -> Self {
        let Self { hold, open, not_served, opening, .. } = self;
        let (hold, open, not_served) = (hold.clone(), open.clone(), not_served.clone());
        Self { hold, open, not_served, opening: *opening, ..Self::default() }
    }

    /// Serves nothing, and reopens all images before anything is served again. Their locks are not
    /// given back: that waits for the cluster, and connections on the blocklist hold none.
    pub(super) fn close(&mut self, target: &Target) {
        let fabric = inaccessible(target.config(), &BTreeSet::new());
        if let Err(error) = target.apply_directed(&fabric, &target.directives(), Duration::ZERO) {
            tracing::error!(%error, "cannot close the namespaces that this gateway must not serve");
        }
        self.hold.clear();
        self.open.clear();
        self.left_out.clear();
        self.not_served.clear();
        self.early = None;
        (self.suspended_ms, self.has_given_up) = (None, false);
        // With the next number every image is a different one for the target, which opens it again on a new connection.
        self.opening += 1;
    }

    /// Makes the target serve what was decided. What is to end ends first, and without anything that could fail or wait
    /// for a cluster; without a lease nothing else is done.
    pub(super) fn adjust(
        &mut self,
        target: &Target,
        state: &GroupState,
        name: &str,
        decision: &Decision,
        (has_lease, now_ms): (bool, u64),
    ) -> Adjusted {
        let mut adjusted = Adjusted::Unchanged;
        // A host that has another file is given it with the configuration, and that has to keep the former secrets too.
        let new_secrets =
            (self.secrets != state.secrets.generation).then(|| state.secrets.overlap(wall_time()));
        let overlap = new_secrets.unwrap_or_default();
        // What ends comes first, and in a change of its own: opening something else may wait for a cluster or fail, and meanwhile
        // the next owner waits for these images.
        let hold: BTreeSet<u32> = self.hold.intersection(&decision.hold).copied().collect();
        let open: BTreeSet<u32> = self.open.intersection(&decision.open).copied().collect();
        if (&hold, &open) != (&self.hold, &self.open) {
            let fabric = inaccessible(target.config(), &open);
            let directives = without(target.directives(), &fabric, &hold);
            if let Err(error) = target.apply_directed(&fabric, &directives, overlap) {
                return self.failed(&error, now_ms);
            }
            tracing::info!(?hold, ?open, "load-balancing groups released");
            // Recorded only after the target has let go: the group's state says so to the next owner because of it.
            (self.hold, self.open) = (hold, open);
            adjusted = Adjusted::Changed;
        }
        // After letting go, which needs no lease, and before taking anything: without one, others may have taken over already.
        if !has_lease {
            self.wait_suspended(target, now_ms);
            return adjusted;
        }
        self.suspended_ms = None;
        match self.follow(target, state, name, decision, (now_ms, overlap)) {
            Ok(Followed::Same) => {}
            Ok(Followed::Changed) => adjusted = Adjusted::Changed,
            Ok(Followed::NotYet) => return adjusted,
            Err(error) => return self.failed(&error, now_ms),
        }
        self.failing_since_ms = None;
        if new_secrets.is_some() {
            self.follow_secrets(target, state, (now_ms, overlap));
        }
        // Only after the target serves them: the group's state says that the takeover is complete because of it.
        if (&self.hold, &self.open) != (&decision.hold, &decision.open) {
            (self.hold, self.open) = (decision.hold.clone(), decision.open.clone());
            tracing::info!(hold = ?self.hold, open = ?self.open, "serving load-balancing groups");
            adjusted = Adjusted::Changed;
        }
        adjusted
    }

    /// Lets hosts try elsewhere what does not come to an end here.
    fn wait_suspended(&mut self, target: &Target, now_ms: u64) {
        let since_ms = *self.suspended_ms.get_or_insert(now_ms);
        if !self.hold.is_empty() && !self.has_given_up && now_ms >= since_ms + GATEWAY_GIVE_UP_MS {
            tracing::warn!(
                "the group's cluster does not answer: hosts are to retry outstanding commands at other gateways"
            );
            // Hosts repeat these commands elsewhere from now on: this gateway must come back on new connections (`has_given_up`).
            target.give_up_commands();
            self.has_given_up = true;
        }
    }

    /// Has the target serve the group's configuration, but for what cannot be opened, or is not open yet.
    fn follow(
        &mut self,
        target: &Target,
        state: &GroupState,
        name: &str,
        decision: &Decision,
        (now_ms, overlap): (u64, Duration),
    ) -> Result<Followed, TargetError> {
        let (served, directed) = (target.config(), target.directives());
        let is_time = now_ms >= self.tried_ms + TRY_AGAIN_MS;
        let mut left_out = if is_time { NamespaceKeys::new() } else { self.left_out.clone() };
        let wish = |left_out: &NamespaceKeys| {
            let view = LocalFabric {
                hold: &decision.hold,
                open: &decision.open,
                ..self.view(state, name, &served.ports)
            };
            let view = LocalFabric { left_out, ..view };
            let fabric = view.build();
            let directives = view.directives(&fabric);
            (fabric, directives)
        };
        let (mut wanted, mut directives) = wish(&left_out);
        // A cluster that does not answer keeps this gateway from nothing else, least of all from saying that it serves no more.
        // Images are compared one by one only after a change, and not with each heartbeat.
        let is_other = (&wanted, &directives) != (&served, &directed);
        let early = is_other.then(|| target.open_early(&wanted, &directives));
        early.iter().for_each(|early| early.wait(Duration::from_millis(GATEWAY_OPENING_PATIENCE_MS)));
        let pending: NamespaceKeys = early.iter().flat_map(EarlyImages::pending).collect();
        if pending.iter().any(|(nqn, nsid)| is_there(&served, nqn, *nsid)) {
            self.early = early;
            return Ok(Followed::NotYet);
        }
        let without = |left_out: &NamespaceKeys| left_out.union(&pending).cloned().collect::<NamespaceKeys>();
        if !pending.is_empty() {
            (wanted, directives) = wish(&without(&left_out));
        }
        let mut is_new = false;
        while (&wanted, &directives) != (&served, &directed) {
            match target.apply_directed(&wanted, &directives, overlap) {
                Ok(_) => {
                    is_new = true;
                    break;
                }
                Err(TargetError::Namespace { nqn, nsid, source })
                    if self.can_do_without(&served, &nqn, nsid, now_ms) =>
                {
                    let key = (nqn, nsid);
                    if !self.left_out.contains(&key) {
                        tracing::warn!(
                            "namespace {nsid} of {}: cannot open its storage: {source}; serving the others and retrying",
                            key.0
                        );
                    }
                    // One less each time, so that this ends.
                    left_out.insert(key);
                    (wanted, directives) = wish(&without(&left_out));
                }
                Err(error) => return Err(error),
            }
        }
        self.not_served = without(&left_out);
        if is_time || left_out != self.left_out {
            self.tried_ms = now_ms;
            self.left_out = left_out;
        }
        self.early = early.filter(|_| !pending.is_empty());
        Ok(if is_new { Followed::Changed } else { Followed::Same })
    }

    /// Makes the target reread its files of secrets. A faulty file costs nothing else: the
    /// configuration stays, with the former secrets.
    fn follow_secrets(&mut self, target: &Target, state: &GroupState, (now_ms, overlap): (u64, Duration)) {
        if self.secrets_failed_ms.is_some_and(|failed_ms| now_ms < failed_ms + SECRETS_AGAIN_MS) {
            return;
        }
        match target.replace_secrets(&target.config(), overlap) {
            Ok(_) => {
                tracing::info!(?overlap, "files of secrets reread");
                (self.secrets, self.secrets_failed_ms) = (state.secrets.generation, None);
            }
            Err(error) => {
                if self.secrets_failed_ms.is_none() {
                    tracing::warn!(%error, "cannot read the new secrets of hosts; retrying");
                }
                self.secrets_failed_ms = Some(now_ms);
            }
        }
    }

    /// A namespace that hosts have is not taken from them because a cluster has a bad moment.
    fn can_do_without(&self, served: &FabricConfig, nqn: &str, nsid: u32, now_ms: u64) -> bool {
        !is_there(served, nqn, nsid)
            || self.failing_since_ms.is_some_and(|since_ms| now_ms >= since_ms + LEAVE_OUT_MS)
    }

    fn failed(&mut self, error: &TargetError, now_ms: u64) -> Adjusted {
        if self.failing_since_ms.is_none() {
            tracing::warn!(%error, "cannot apply the configuration of the group; retrying");
        } else {
            tracing::debug!(%error, "cannot apply the configuration of the group");
        }
        self.failing_since_ms.get_or_insert(now_ms);
        Adjusted::Failed
    }
}

fn is_there(served: &FabricConfig, nqn: &str, nsid: u32) -> bool {
    let subsystem = served.subsystem(nqn);
    subsystem.is_some_and(|subsystem| subsystem.namespaces.iter().any(|namespace| namespace.nsid == nsid))
}

/// The same with no more than these load-balancing groups open.
fn inaccessible(mut fabric: FabricConfig, open: &BTreeSet<u32>) -> FabricConfig {
    let groups = fabric.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.ana_groups);
    for group in groups.filter(|group| !open.contains(&group.id)) {
        group.state = AnaState::Inaccessible;
    }
    fabric
}

/// The same, with no more images of this configuration than those of these load-balancing groups.
fn without(mut directives: Directives, fabric: &FabricConfig, hold: &BTreeSet<u32>) -> Directives {
    directives.standby.extend(standby(fabric, hold));
    directives
}

#[cfg(test)]
#[path = "serving_tests.rs"]
mod tests;
