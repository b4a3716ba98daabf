//! Which hosts are at which gateway, as gateways tell each other every few seconds, and which hosts have no path to a gateway that
//! serves what they may use. It looks at no host and reads no object.

use std::collections::{BTreeMap, BTreeSet};

use engine::limits::{GATEWAY_HOSTS_REPORTED_MAX, GATEWAY_UNREACHED_MS, GATEWAY_UNREACHED_REPORTED_MAX};
use serde::{Deserialize, Serialize};

use super::state::{GroupState, Owner, Phase};

/// A subsystem and a host that has a controller of it.
pub(crate) type Guest = (String, String);

/// Report of a gateway on its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    epoch: u64,
    /// Number of each host of a subsystem: at most `GATEWAY_HOSTS_REPORTED_MAX`.
    guests: BTreeSet<u64>,
    /// Set if there are more. A missing number then says nothing.
    #[serde(default)]
    is_cut: bool,
    /// Guests without a path to another gateway: at most `GATEWAY_UNREACHED_REPORTED_MAX`.
    #[serde(default)]
    unreached: BTreeSet<UnreachedHost>,
}

/// A host without a path to the gateway that serves namespaces which it may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UnreachedHost {
    /// The host's NQN.
    pub host: String,
    /// The subsystem.
    pub subsystem: String,
    /// The gateway that serves the namespaces, at which the host has no controller of the subsystem.
    pub gateway: String,
    /// Load-balancing group of the gateway without a path.
    pub load_balancing_group: u32,
    /// A gateway at which the host has one.
    pub connected_to: String,
}

impl Presence {
    /// Report of a gateway in this epoch.
    pub(crate) fn new(epoch: u64, guests: &BTreeSet<Guest>, unreached: &BTreeSet<UnreachedHost>) -> Self {
        Self {
            epoch,
            guests: guests.iter().map(number).take(GATEWAY_HOSTS_REPORTED_MAX).collect(),
            is_cut: guests.len() > GATEWAY_HOSTS_REPORTED_MAX,
            unreached: unreached.iter().take(GATEWAY_UNREACHED_REPORTED_MAX).cloned().collect(),
        }
    }

    /// Hosts without a path to others, if the report is of this gateway's present epoch.
    pub(crate) fn unreached_at(&self, epoch: u64) -> impl Iterator<Item = &UnreachedHost> {
        self.unreached.iter().filter(move |_| self.epoch == epoch)
    }

    /// True if this host has no controller there, as far as the report of a gateway in this epoch
    /// shows.
    fn lacks(&self, guest: &Guest, epoch: u64) -> bool {
        self.epoch == epoch && !self.is_cut && !self.guests.contains(&number(guest))
    }
}

/// The guests of this gateway, by their numbers, that have no controller of the subsystem at another one which may serve, as far as
/// this can be known.
pub(crate) fn stranded(
    state: &GroupState,
    name: &str,
    reports: &BTreeMap<String, Presence>,
) -> BTreeSet<u64> {
    let of_now = |name: &str| {
        let epoch = state.gateways.get(name)?.epoch;
        reports.get(name).filter(|presence| presence.epoch == epoch)
    };
    // One that has ended has no hosts, whatever it said last.
    let is_alive = state.alive().any(|(other, _)| other == name);
    let reports_here = of_now(name).filter(|_| is_alive);
    let mut guests = reports_here.map(|presence| presence.guests.clone()).unwrap_or_default();
    let others = state.alive().filter(|(other, _)| *other != name && !state.is_drained(other));
    for presence in others.filter_map(|(other, _)| of_now(other)) {
        guests.retain(|guest| !presence.is_cut && !presence.guests.contains(guest));
    }
    guests
}

/// A number for a subsystem and a host, the same in all versions (FNV-1a). Two that have the same one may hide that a path is
/// missing, and nothing else.
pub(crate) fn number((subsystem, host): &Guest) -> u64 {
    let bytes = subsystem.bytes().chain([0]).chain(host.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The hosts of this gateway that have no controller at another one, of a subsystem of which that one serves them namespaces.
pub(crate) fn unreached(
    state: &GroupState,
    me: &Owner,
    guests: &BTreeSet<Guest>,
    others: &BTreeMap<String, Presence>,
) -> BTreeSet<UnreachedHost> {
    let mut found = BTreeSet::new();
    for guest in guests {
        let (nqn, host) = guest;
        let Some(subsystem) = state.config.subsystem(nqn) else { continue };
        let visible = subsystem.namespaces.iter().filter(|namespace| namespace.visible.includes(host));
        let groups: BTreeSet<u32> = visible.map(|namespace| namespace.ana_group).collect();
        for number in groups {
            let group = state.groups.get(&number).filter(|group| group.state == Phase::Serving);
            let Some(owner) = group.and_then(|group| group.owner.as_ref()) else { continue };
            let is_others = owner.gateway != me.gateway && state.is_alive(owner);
            let lacks = others.get(&owner.gateway).is_some_and(|there| there.lacks(guest, owner.epoch));
            if is_others && lacks {
                found.insert(UnreachedHost {
                    host: host.clone(),
                    subsystem: nqn.clone(),
                    gateway: owner.gateway.clone(),
                    load_balancing_group: number,
                    connected_to: me.gateway.clone(),
                });
            }
        }
    }
    found
}

/// Since when hosts of this gateway have had no path to others: most that have none connect in a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct PresenceWatch {
    since_ms: BTreeMap<UnreachedHost, u64>,
    reported: BTreeSet<UnreachedHost>,
}

impl PresenceWatch {
    /// Records what was found at this time, and logs who is missing for long, and who is no longer.
    pub(crate) fn note(&mut self, found: BTreeSet<UnreachedHost>, now_ms: u64) {
        self.since_ms.retain(|known, _| found.contains(known));
        for host in found {
            self.since_ms.entry(host).or_insert(now_ms);
        }
        let is_due = |since_ms: u64| now_ms.saturating_sub(since_ms) >= GATEWAY_UNREACHED_MS;
        let due = self.since_ms.iter().filter(|(_, since_ms)| is_due(**since_ms));
        let reported: BTreeSet<UnreachedHost> = due.map(|(host, _)| host.clone()).collect();
        for UnreachedHost { host, subsystem, gateway, load_balancing_group, .. } in
            reported.difference(&self.reported)
        {
            tracing::warn!(
                "host {host} has no path to gateway {gateway}, which serves load-balancing group {load_balancing_group} of \
                 {subsystem}: connect it there, or see why it does not reach it"
            );
        }
        for UnreachedHost { host, subsystem, gateway, .. } in self.reported.difference(&reported) {
            tracing::info!("host {host} has a path to gateway {gateway} of {subsystem} again");
        }
        self.reported = reported;
    }

    /// Hosts that have been missing for long.
    pub(crate) const fn reported(&self) -> &BTreeSet<UnreachedHost> {
        &self.reported
    }
}

#[cfg(test)]
mod tests {
    use engine::backend::BackendConfig;
    use engine::target::{NamespaceConfig, SubsystemConfig, Visibility};

    use super::*;

    const NQN: &str = "nqn.test:a";
    const HOST: &str = "nqn.test:host";

    fn owner(name: &str) -> Owner {
        Owner { gateway: name.to_owned(), epoch: 1 }
    }

    fn guests(names: &[&str]) -> BTreeSet<Guest> {
        names.iter().map(|name| (NQN.to_owned(), (*name).to_owned())).collect()
    }

    /// Gateways a and b, each with a namespace.
    fn group() -> GroupState {
        let mut state = GroupState::default();
        for name in ["a", "b"] {
            state.register(&owner(name), &[]).unwrap();
        }
        state.groups.values_mut().for_each(|group| group.state = Phase::Serving);
        let namespace = |nsid| {
            let namespace = NamespaceConfig::new(nsid, BackendConfig::Null { size: 4096 }, 4096);
            NamespaceConfig { ana_group: nsid, ..namespace }
        };
        let subsystem = SubsystemConfig::new(NQN, "A", "Selvedge");
        state.config.subsystems.push(subsystem.with(vec![namespace(1), namespace(2)]));
        state
    }

    fn found(state: &GroupState, there: &Presence) -> Vec<(String, u32)> {
        let others = BTreeMap::from([("b".to_owned(), there.clone())]);
        let found = unreached(state, &owner("a"), &guests(&[HOST]), &others);
        found.into_iter().map(|host| (host.gateway, host.load_balancing_group)).collect()
    }

    fn there(names: &[&str]) -> Presence {
        Presence::new(1, &guests(names), &BTreeSet::new())
    }

    #[test]
    fn who_has_no_controller_where_its_namespaces_are_served_is_found() {
        let mut state = group();
        let at_b = [("b".to_owned(), 2)];
        assert_eq!(found(&state, &there(&[])), at_b);
        assert_eq!(found(&state, &there(&["nqn.test:another"])), at_b);
        assert_eq!(found(&state, &there(&[HOST])), []);
        // What it does not see it does not miss.
        state.config.subsystems[0].namespaces[1].visible =
            Visibility::Only(vec!["nqn.test:another".to_owned()]);
        assert_eq!(found(&state, &there(&[])), []);
    }

    #[test]
    fn nothing_is_said_where_it_is_not_known_or_not_settled() {
        let mut state = group();
        assert_eq!(found(&state, &Presence { epoch: 2, ..there(&[]) }), [], "of another epoch");
        assert_eq!(found(&state, &Presence { is_cut: true, ..there(&[]) }), [], "there are more");
        assert!(
            unreached(&state, &owner("a"), &guests(&[HOST]), &BTreeMap::new()).is_empty(),
            "it says nothing"
        );
        state.groups.get_mut(&2).unwrap().state = Phase::HandingOver;
        assert_eq!(found(&state, &there(&[])), []);
    }

    #[test]
    fn a_host_that_is_missing_briefly_is_not_reported() {
        let state = group();
        let others = BTreeMap::from([("b".to_owned(), there(&[]))]);
        let missing = || unreached(&state, &owner("a"), &guests(&[HOST]), &others);
        let mut watch = PresenceWatch::default();
        watch.note(missing(), 1_000);
        watch.note(missing(), 1_000 + GATEWAY_UNREACHED_MS - 1);
        assert!(watch.reported().is_empty());
        watch.note(missing(), 1_000 + GATEWAY_UNREACHED_MS);
        assert_eq!(watch.reported().len(), 1);
        watch.note(BTreeSet::new(), 1_001 + GATEWAY_UNREACHED_MS);
        assert!(watch.reported().is_empty());
        watch.note(missing(), 1_002 + GATEWAY_UNREACHED_MS);
        assert!(watch.reported().is_empty(), "its time starts again");
    }

    #[test]
    fn what_is_said_has_an_end() {
        let many: BTreeSet<Guest> =
            (0..=GATEWAY_HOSTS_REPORTED_MAX).map(|number| (NQN.to_owned(), number.to_string())).collect();
        let said = Presence::new(1, &many, &BTreeSet::new());
        assert_eq!((said.guests.len(), said.is_cut), (GATEWAY_HOSTS_REPORTED_MAX, true));
        let bytes = serde_json::to_vec(&said).unwrap();
        assert!(bytes.len() < 32 << 10, "{} bytes", bytes.len());
        assert_eq!(serde_json::from_slice::<Presence>(&bytes).unwrap(), said);
        assert_eq!(
            number(&(String::new(), String::new())),
            0xcbf2_9ce4_8422_2325_u64.wrapping_mul(0x100_0000_01b3)
        );
    }
}
