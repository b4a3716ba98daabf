//! A change of what all gateways of a group serve, through one of them: it is in effect there before the others learn of it.

use std::time::Duration;

use engine::limits::GATEWAY_CHANGE_TRIES;
use engine::ring::wall_time;
use engine::target::{Change, FabricConfig, TargetError, secret_file_faults};

use super::error::{GroupError, Refused};
use super::local_fabric::identified;
use super::membership::Membership;
use super::serving::Serving;
use super::state::GroupState;

/// How often writing a configuration may fail before it is given up.
const FAILURES_MAX: usize = 3;

impl Membership {
    /// Has all gateways serve what `wanted` says of them, and this one its ports, for whoever has the turn. Where hosts have
    /// new secrets, all read their files anew, and accept the former ones for this time.
    pub fn put(
        &self,
        serving: &Serving,
        wanted: &FabricConfig,
        new_secrets: Option<Duration>,
    ) -> Result<Vec<Change>, GroupError> {
        let unavailable = |what: &str| Refused::unavailable(what).hint("ask another gateway, or wait").into();
        let Some(target) = self.target.get() else {
            return Err(unavailable("this gateway serves nothing yet"));
        };
        let (me, base, has_lease) = {
            let seen = self.seen();
            (seen.me.gateway.clone(), seen.state.clone(), seen.has_lease(self.now_ms()))
        };
        if !has_lease {
            return Err(unavailable("this gateway cannot reach its group's cluster"));
        }
        let shared = serving.view(&base, &me, &wanted.ports).shared_part(wanted)?;
        let secrets = match new_secrets {
            Some(overlap) => base.secrets.next(overlap, wall_time()),
            None => base.secrets.clone(),
        };
        let next = GroupState { config: shared.clone(), secrets, ..base.clone() };
        let before = (target.config(), target.directives());
        let view = serving.view(&next, &me, &wanted.ports);
        let local = view.build();
        // Checked and applied here before it is shared: what this gateway cannot do must not be asked of all.
        if new_secrets.is_some()
            && let Some(fault) = secret_file_faults(&local).first()
        {
            return Err(TargetError::Config(fault.to_string()).into());
        }
        let overlap = new_secrets.unwrap_or_default();
        let changes = target.apply_directed(&local, &view.directives(&local), overlap)?;
        let config = identified(shared, &target.config(), &target.namespace_identities());
        let next = GroupState { config, ..next };
        let outcome = if next == base { Ok(()) } else { self.share(&base, &next) };
        if outcome.is_err()
            && let Err(error) = target.apply_directed(&before.0, &before.1, Duration::ZERO)
        {
            tracing::error!(%error, "what was served before cannot be served again");
        }
        // New secrets are read as at all gateways, by the deciding thread.
        self.wake();
        outcome.map(|()| changes).map_err(GroupError::from)
    }

    /// Writes the configuration that all gateways share, as `next` has it.
    fn share(&self, base: &GroupState, next: &GroupState) -> Result<(), Refused> {
        let part = |state: &GroupState| (state.config.clone(), state.secrets.clone());
        let (before, shared) = (part(base), part(next));
        let mut problem = "others change it all the time".to_owned();
        let mut failures = 0;
        for _ in 0..GATEWAY_CHANGE_TRIES {
            let current = match self.store().state() {
                Ok(current) => current,
                Err(error) => return Err(Refused::unavailable(error)),
            };
            if part(&current) == shared {
                self.seen().learn(current);
                self.tell();
                return Ok(());
            }
            if part(&current) != before || !current.has_groups_of(&shared.0) {
                self.seen().learn(current);
                let what = "the configuration was changed through another gateway at the same moment";
                return Err(Refused::conflict(what).hint("look at it, and ask again"));
            }
            let (config, secrets) = shared.clone();
            let after = GroupState { config, secrets, ..current.clone() };
            // Whether it has happened is seen when it is read again. Meanwhile nothing else can be decided here.
            if let Err(error) = self.store().change(&current, &after) {
                problem = error.to_string();
                failures += 1;
                if failures == FAILURES_MAX {
                    break;
                }
            }
        }
        Err(Refused::unavailable(format!("the group's state cannot be changed: {problem}")))
    }
}
