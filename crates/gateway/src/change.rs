//! A change of what all gateways of a group serve, through one of them: it is in effect there before the others learn of it.

use engine::limits::GATEWAY_CHANGE_TRIES;
use engine::target::{Change, FabricConfig};

use super::error::{GroupError, Refused};
use super::local_fabric::identified;
use super::membership::Membership;
use super::serving::Serving;
use super::state::GroupState;

/// How often writing a configuration may fail before it is given up.
const FAILURES_MAX: usize = 3;

impl Membership {
    /// Has all gateways serve what `wanted` says of them, and this one its ports, for whoever has the turn.
    pub fn put(&self, serving: &Serving, wanted: &FabricConfig) -> Result<Vec<Change>, GroupError> {
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
        let next = GroupState { config: shared.clone(), ..base.clone() };
        let before = (target.config(), target.directives());
        let view = serving.view(&next, &me, &wanted.ports);
        let local = view.build();
        // Applied here before it is shared: what this gateway cannot do must not be asked of all.
        let changes = target.apply_directed(&local, &view.directives(&local))?;
        let shared = identified(shared, &target.config(), &target.namespace_identities());
        let outcome = if shared == base.config { Ok(()) } else { self.share(&base, &shared) };
        if outcome.is_err()
            && let Err(error) = target.apply_directed(&before.0, &before.1)
        {
            tracing::error!(%error, "what was served before cannot be served again");
        }
        outcome.map(|()| changes).map_err(GroupError::from)
    }

    /// Writes the configuration that all gateways share.
    fn share(&self, base: &GroupState, shared: &FabricConfig) -> Result<(), Refused> {
        let mut problem = "others change it all the time".to_owned();
        let mut failures = 0;
        for _ in 0..GATEWAY_CHANGE_TRIES {
            let current = match self.store().state() {
                Ok(current) => current,
                Err(error) => return Err(Refused::unavailable(error)),
            };
            if current.config == *shared {
                self.seen().learn(current);
                self.tell();
                return Ok(());
            }
            if current.config != base.config || !current.has_groups_of(shared) {
                self.seen().learn(current);
                let what = "the configuration was changed through another gateway at the same moment";
                return Err(Refused::conflict(what).hint("look at it, and ask again"));
            }
            let after = GroupState { config: shared.clone(), ..current.clone() };
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
