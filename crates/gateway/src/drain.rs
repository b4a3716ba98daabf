//! Gateways that are to serve nothing as long as another one can: for maintenance, or before they are taken out of the group. That
//! they are is written in the group's state; who gives what to whom then is decided in `decision`, like all else.
//!
//! A drain is a wish: a drained gateway serves what no other gateway can, since namespaces without
//! a path are worse.

use std::collections::BTreeSet;

use super::error::{Reason, Refused};
use super::format::WITH_DRAINS;
use super::member::{Update, update};
use super::membership::Membership;
use super::presence::number;
use super::state::{GroupState, Owner};

/// Hosts that are named when they speak against a drain.
const HOSTS_NAMED: usize = 3;

impl Membership {
    /// Has a gateway serve nothing as long as another one can, or lets it serve again. Force overcomes what speaks against a
    /// drain; what is so already is done.
    pub fn set_drained(&self, name: &str, is_drained: bool, is_forced: bool) -> Result<(), Refused> {
        self.outlook(name, is_drained, is_forced)?;
        let updated = update(self.store(), |state| {
            let outcome = state.may_set_drained(name, is_drained);
            if outcome.is_err() || state.is_drained(name) == is_drained {
                return Ok(Update::Done(outcome));
            }
            state.set_drained(name, is_drained);
            Ok(Update::Write(outcome))
        });
        let (state, outcome) = updated.map_err(Refused::unavailable)?;
        self.seen().learn(state);
        outcome?;
        self.tell();
        self.wake();
        Ok(())
    }

    /// Consequences of a drain or its end, as sentences. Empty if the gateway is in that state
    /// already.
    ///
    /// # Errors
    /// What speaks against it, but for what only force would overcome when that is to be used.
    pub fn outlook(&self, name: &str, is_drained: bool, is_forced: bool) -> Result<Vec<String>, Refused> {
        self.catch_up();
        let (state, others) = {
            let seen = self.seen();
            let peers = seen.watch.peers(&seen.state);
            let may_serve = |other: &&String| *other != name && !seen.state.is_drained(other);
            (seen.state.clone(), peers.well.iter().filter(may_serve).cloned().collect::<Vec<_>>())
        };
        state.may_set_drained(name, is_drained)?;
        if state.is_drained(name) == is_drained {
            return Ok(Vec::new());
        }
        if !is_drained {
            return Ok(state.comes_back(name));
        }
        let mut words = state.goes_away(name, &others);
        let stranded = self.stranded_at(name);
        let lose = (!stranded.is_empty()).then(|| state.lose_it(&stranded));
        if is_forced {
            words.extend(lose);
            return Ok(words);
        }
        if others.is_empty() {
            let refused = Refused::conflict(format!("no other gateway can serve for {name}"));
            return Err(refused.hint("start one; or force it: it serves then until there is one"));
        }
        let hint = "connect them to another gateway, which counts after some seconds; or force it";
        lose.map_or(Ok(words), |what| Err(Refused::conflict(what).hint(hint)))
    }
}

impl GroupState {
    /// True if this gateway is to serve nothing as long as another one can.
    pub(crate) fn is_drained(&self, name: &str) -> bool {
        self.drained.contains(name)
    }

    fn set_drained(&mut self, name: &str, is_drained: bool) {
        if is_drained {
            self.drained.insert(name.to_owned());
        } else {
            self.drained.remove(name);
        }
    }

    /// Checks that the drain can be recorded.
    fn may_set_drained(&self, name: &str, is_drained: bool) -> Result<(), Refused> {
        if !self.gateways.contains_key(name) {
            let refused = Refused::new(Reason::Unknown, format!("the group has no gateway {name}"));
            return Err(refused.hint("`selvedge gateways` shows those that there are"));
        }
        if is_drained && self.format < WITH_DRAINS {
            let refused = Refused::conflict("gateways of the group run a version that cannot be drained");
            return Err(refused.hint("upgrade all of them, and remove those that have ended for good"));
        }
        Ok(())
    }

    /// The load-balancing groups that a gateway serves, with the number of their namespaces.
    fn served_by<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (u32, String)> + 'a {
        let is_its = move |owner: &Owner| owner.gateway == name;
        let its = self.groups.iter().filter(move |(_, group)| group.owner.as_ref().is_some_and(is_its));
        its.map(|(number, _)| (*number, self.counted(*number)))
    }

    fn counted(&self, group: u32) -> String {
        let all = self.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        match all.filter(|namespace| namespace.ana_group == group).count() {
            1 => "1 namespace".to_owned(),
            count => format!("{count} namespaces"),
        }
    }

    /// Sentences that name the new owner of each of a gateway's groups when it is drained.
    fn goes_away(&self, name: &str, others: &[String]) -> Vec<String> {
        let served = self.served_by(name).map(|(number, count)| match others {
            [] => format!("load-balancing group {number} ({count}) stays, until another gateway is there"),
            [other] => format!("load-balancing group {number} ({count}) goes to gateway {other}"),
            _ => {
                let others = others.join(", ");
                format!("load-balancing group {number} ({count}) goes to one of the gateways {others}")
            }
        });
        let served: Vec<String> = served.collect();
        if served.is_empty() { vec![format!("gateway {name} gets no load-balancing group")] } else { served }
    }

    /// Sentences that name the groups that return to a gateway whose drain ends.
    fn comes_back(&self, name: &str) -> Vec<String> {
        let own = self.groups.iter().filter(|(_, group)| group.preferred == name);
        let own: Vec<String> = own
            .map(|(number, _)| {
                let count = self.counted(*number);
                format!(
                    "load-balancing group {number} ({count}) goes back to gateway {name}, if hosts are at it"
                )
            })
            .collect();
        if own.is_empty() { vec![format!("gateway {name} may serve again")] } else { own }
    }

    /// Sentence that these guests have no path to any other gateway. It names some of those in the
    /// configuration.
    fn lose_it(&self, stranded: &BTreeSet<u64>) -> String {
        let guests =
            self.config.subsystems.iter().flat_map(|subsystem| {
                subsystem.hosts.iter().map(|host| (subsystem.nqn.clone(), host.clone()))
            });
        let known = guests.filter(|guest| stranded.contains(&number(guest)));
        let mut named: Vec<String> =
            known.map(|(nqn, host)| format!("host {host} of {nqn}")).take(HOSTS_NAMED).collect();
        match stranded.len() - named.len() {
            0 => {}
            count if named.is_empty() => named.push(format!("{count} of its hosts")),
            count => named.push(format!("{count} more")),
        }
        format!("these would be left without a path to a gateway that serves: {}", named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use engine::target::SubsystemConfig;

    use super::super::format::Format;
    use super::super::presence::{Presence, stranded};
    use super::*;

    fn state() -> GroupState {
        let mut state = GroupState::default();
        for name in ["a", "b"] {
            state.register(&Owner { gateway: name.to_owned(), epoch: 1 }, &[]).unwrap();
        }
        let mut subsystem = SubsystemConfig::new("nqn.disks", "A", "Selvedge");
        subsystem.hosts = ["nqn.one", "nqn.other"].map(str::to_owned).into();
        state.config.subsystems.push(subsystem);
        state
    }

    fn presences(of: &[(&str, &[&str])]) -> BTreeMap<String, Presence> {
        let presence = |hosts: &[&str]| {
            let guests = hosts.iter().map(|host| ("nqn.disks".to_owned(), (*host).to_owned())).collect();
            Presence::new(1, &guests, &BTreeSet::new())
        };
        of.iter().map(|(name, hosts)| ((*name).to_owned(), presence(hosts))).collect()
    }

    #[test]
    fn hosts_without_another_path_are_found_and_named() {
        let mut state = state();
        let all: &[&str] = &["nqn.one", "nqn.other", "nqn.unknown"];
        assert!(stranded(&state, "a", &presences(&[("a", all), ("b", all)])).is_empty());
        let found = stranded(&state, "a", &presences(&[("a", all), ("b", &["nqn.other"])]));
        assert_eq!(
            state.lose_it(&found),
            "these would be left without a path to a gateway that serves: host nqn.one of nqn.disks, 1 more"
        );
        let found = stranded(&state, "a", &presences(&[("a", &["nqn.unknown"]), ("b", &[])]));
        assert!(state.lose_it(&found).ends_with("serves: 1 of its hosts"));
        // A path to a gateway that is drained, too, does not help.
        state.set_drained("b", true);
        assert_eq!(stranded(&state, "a", &presences(&[("a", all), ("b", all)])).len(), 3);
        // No host loses a path with a gateway that has ended.
        state.bury("a", |_, _| None);
        assert!(stranded(&state, "a", &presences(&[("a", all), ("b", &[])])).is_empty());
    }

    #[test]
    fn a_drain_is_reported_until_the_gateway_is_removed() {
        let mut state = state();
        assert_eq!(state.may_set_drained("c", true).unwrap_err().reason, Reason::Unknown);
        assert_eq!(state.may_set_drained("a", true), Ok(()));
        state.set_drained("a", true);
        let mut former = GroupState { format: Format(3), ..state.clone() };
        assert!(former.may_set_drained("a", true).unwrap_err().what.contains("cannot be drained"));
        assert_eq!(former.may_set_drained("a", false), Ok(()));
        state.version = 1;
        let pairs = state.change_from(&GroupState::default()).set;
        assert_eq!(pairs["drained"], b"[\"a\"]");
        assert!(GroupState::of_pairs(&pairs).unwrap().is_drained("a"));
        // It is another epoch of the same gateway, and one of the same name is another gateway.
        state.register(&Owner { gateway: "a".to_owned(), epoch: 2 }, &[]).unwrap();
        assert!(state.is_drained("a"));
        former.gateways.remove("a");
        former.register(&Owner { gateway: "a".to_owned(), epoch: 3 }, &[]).unwrap();
        assert!(!former.is_drained("a"));
    }

    #[test]
    fn what_goes_where_is_said() {
        let state = state();
        let [b, c] = ["b", "c"].map(str::to_owned);
        let group = "load-balancing group 1 (0 namespaces)";
        assert_eq!(state.goes_away("a", std::slice::from_ref(&b)), [format!("{group} goes to gateway b")]);
        assert_eq!(state.goes_away("a", &[b, c]), [format!("{group} goes to one of the gateways b, c")]);
        assert_eq!(state.goes_away("a", &[]), [format!("{group} stays, until another gateway is there")]);
        assert_eq!(state.goes_away("c", &[]), ["gateway c gets no load-balancing group"]);
        assert_eq!(state.comes_back("a"), [format!("{group} goes back to gateway a, if hosts are at it")]);
    }
}
