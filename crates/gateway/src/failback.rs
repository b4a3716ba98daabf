//! Failback: return of load-balancing groups to a gateway that was gone, after a time that is a setting of each gateway, or by
//! order of an administrator.

use std::str::FromStr;
use std::time::Duration;

use engine::limits::GATEWAY_RETURN_MS;
use engine::units::{QuantityError, parse_time};

use super::error::{Reason, Refused};
use super::membership::Membership;
use super::state::{GroupState, Owner};

/// Setting of one gateway: time at which it gives groups back to gateways that have returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failback {
    /// Once the other gateway has been well for this time.
    After(Duration),
    /// By order of an administrator.
    OnDemand,
}

impl Default for Failback {
    fn default() -> Self {
        Self::After(Duration::ZERO)
    }
}

impl FromStr for Failback {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text == "on-demand" { Ok(Self::OnDemand) } else { parse_time(text).map(Self::After) }
    }
}

impl Failback {
    /// True if a gateway that has been well for this time gets its groups back. One that fails again at once would take them
    /// with it.
    pub(crate) fn is_due(self, well_ms: u64) -> bool {
        match self {
            Self::After(delay) => well_ms >= GATEWAY_RETURN_MS && u128::from(well_ms) >= delay.as_millis(),
            Self::OnDemand => false,
        }
    }
}

impl Membership {
    /// Gives a gateway that has returned its load-balancing groups without further delay. Groups that it has are its own already.
    ///
    /// # Errors
    /// The gateway is unknown, drained or not well, or another one than this has its groups.
    pub fn fail_back(&self, name: &str) -> Result<(), Refused> {
        self.catch_up();
        let mut seen = self.seen();
        seen.state.may_fail_back(name, &seen.me.gateway)?;
        if name != seen.me.gateway && !seen.watch.peers(&seen.state).well.contains(name) {
            let refused = Refused::conflict(format!("gateway {name} sends no heartbeat"));
            return Err(refused.hint("start it; `selvedge gateways` shows its state"));
        }
        seen.watch.demand(name);
        drop(seen);
        self.wake();
        Ok(())
    }
}

impl GroupState {
    /// True if there is a load-balancing group for this gateway to get back.
    pub(super) fn lacks_own(&self, name: &str) -> bool {
        self.lacked(name).next().is_some()
    }

    /// The load-balancing groups that a gateway lacks, with their owners: its own that another one has, and those of its location
    /// that are served elsewhere.
    fn lacked<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (u32, Option<&'a Owner>)> + 'a {
        self.groups.iter().filter_map(move |(number, group)| {
            let owner = group.owner.as_ref();
            let has_own = group.preferred == name && owner.is_none_or(|owner| owner.gateway != name);
            let is_near = self.group_location(*number).is_some() && !self.is_elsewhere(name, *number);
            let has_near = is_near && owner.is_none_or(|owner| self.is_elsewhere(&owner.gateway, *number));
            (has_own || has_near).then_some((*number, owner))
        })
    }

    /// Checks that the gateway `me` may give `name` its groups.
    fn may_fail_back(&self, name: &str, me: &str) -> Result<(), Refused> {
        if !self.gateways.contains_key(name) {
            let refused = Refused::new(Reason::Unknown, format!("the group has no gateway {name}"));
            return Err(refused.hint("`selvedge gateways` shows those that there are"));
        }
        if self.is_drained(name) {
            let refused = Refused::conflict(format!("gateway {name} is drained"));
            return Err(refused.hint(format!("`selvedge gateways resume {name}` ends that")));
        }
        let lacked: Vec<_> = self.lacked(name).filter_map(|(number, owner)| Some((number, owner?))).collect();
        match lacked.first() {
            Some((number, owner)) if lacked.iter().all(|(_, owner)| owner.gateway != me) => {
                let other = &owner.gateway;
                let what = format!("load-balancing group {number} is served by gateway {other}");
                Err(Refused::conflict(what).hint(format!("ask {other} to give it back")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_time_or_ends_on_demand() {
        assert_eq!("on-demand".parse(), Ok(Failback::OnDemand));
        assert_eq!("10m".parse(), Ok(Failback::After(Duration::from_secs(600))));
        assert!("soon".parse::<Failback>().is_err());
        let due = |failback: Failback, well_ms| failback.is_due(well_ms);
        assert!(
            !due(Failback::default(), GATEWAY_RETURN_MS - 1) && due(Failback::default(), GATEWAY_RETURN_MS)
        );
        let minute = Failback::After(Duration::from_secs(60));
        assert!(!due(minute, 59_999) && due(minute, 60_000));
        assert!(!due(Failback::OnDemand, u64::MAX));
    }

    #[test]
    fn the_gateway_that_has_a_group_is_the_one_to_give_it_back() {
        let mut state = GroupState::default();
        for (name, epoch) in [("a", 1), ("b", 2), ("c", 3)] {
            state.register(&Owner { gateway: name.to_owned(), epoch }, &[]).unwrap();
        }
        assert_eq!(state.may_fail_back("b", "a"), Ok(()), "it has its own");
        state.groups.get_mut(&2).unwrap().owner = Some(Owner { gateway: "a".to_owned(), epoch: 1 });
        assert_eq!(state.may_fail_back("b", "a"), Ok(()));
        let refused = |state: &GroupState, name: &str, me: &str| {
            state.may_fail_back(name, me).unwrap_err().hint.unwrap_or_default()
        };
        assert!(refused(&state, "b", "c").contains("ask a"), "{}", refused(&state, "b", "c"));
        assert!(refused(&state, "d", "a").contains("selvedge gateways"));
        state.drained.insert("b".to_owned());
        assert!(refused(&state, "b", "a").contains("resume b"));
    }
}
