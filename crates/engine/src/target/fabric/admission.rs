//! Admission of controllers and queues: quotas for each host and each network, a reserve for hosts
//! that the operator has named and one for those that prove their names, and discovery controllers
//! apart from all others. Only counts; refusals are logged by `connect`.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::limits::{
    CONNECTIONS_PER_REACTOR_MAX, CONTROLLERS_MAX, CONTROLLERS_PER_HOST_MAX, CONTROLLERS_PER_NETWORK_MAX,
    DISCOVERY_CONTROLLERS_MAX, NAMED_HOSTS_RESERVE, NAMED_QUEUES_SHARE, PROVED_HOSTS_RESERVE,
    PROVED_QUEUES_SHARE, QUEUES_PER_HOST_MAX, QUEUES_PER_NETWORK_MAX,
};
use crate::ring;
use crate::seldom::Seldom;
use crate::target::controller::{Guest, Network};

/// Quotas for one host and one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Quotas {
    /// Controllers of one host, by its NQN, discovery controllers apart.
    pub controllers_per_host: usize,
    /// Controllers of hosts that come from one address and are on no subsystem's list.
    pub controllers_per_network: usize,
    /// I/O queues of one host.
    pub queues_per_host: usize,
    /// I/O queues of hosts that come from one address and are on no subsystem's list.
    pub queues_per_network: usize,
    /// Discovery controllers of all hosts together. The one that has been silent for longest goes when another comes.
    pub discovery_controllers: usize,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            controllers_per_host: CONTROLLERS_PER_HOST_MAX,
            controllers_per_network: CONTROLLERS_PER_NETWORK_MAX,
            queues_per_host: QUEUES_PER_HOST_MAX,
            queues_per_network: QUEUES_PER_NETWORK_MAX,
            discovery_controllers: DISCOVERY_CONTROLLERS_MAX,
        }
    }
}

/// Why a host got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// There are as many controllers as there may be.
    Controllers,
    /// The rest is for hosts that the operator has named, or for those that prove their names.
    Reserve,
    ControllersPerHost,
    ControllersPerNetwork,
    QueuesPerHost,
    QueuesPerNetwork,
    /// Others that have yet to authenticate have taken the identifier that the host was promised.
    Promises,
}

impl Rule {
    pub(crate) const ALL: [Self; 7] = [
        Self::Controllers,
        Self::Reserve,
        Self::ControllersPerHost,
        Self::ControllersPerNetwork,
        Self::QueuesPerHost,
        Self::QueuesPerNetwork,
        Self::Promises,
    ];

    /// Value of the label in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Controllers => "controllers",
            Self::Reserve => "reserve",
            Self::ControllersPerHost => "controllers_per_host",
            Self::ControllersPerNetwork => "controllers_per_network",
            Self::QueuesPerHost => "queues_per_host",
            Self::QueuesPerNetwork => "queues_per_network",
            Self::Promises => "promised_controllers",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controllers => "the target has as many controllers as it may have",
            Self::Reserve => {
                "the last places are for hosts on a subsystem's list, and for those with a secret or TLS key"
            }
            Self::ControllersPerHost => "the host has as many controllers as one host may have",
            Self::ControllersPerNetwork => "the host's network has as many controllers as one may have",
            Self::QueuesPerHost => "the host has as many I/O queues as one host may have",
            Self::QueuesPerNetwork => "the host's network has as many I/O queues as one may have",
            Self::Promises => "too many hosts have connected that have yet to authenticate",
        })
    }
}

/// Controllers and queues in use.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    controllers: usize,
    queues: usize,
}

impl Taken {
    const fn is_empty(self) -> bool {
        self.controllers == 0 && self.queues == 0
    }
}

/// Controllers and queues in use on a target, by host and network.
#[derive(Debug)]
pub(crate) struct Admission {
    quotas: Quotas,
    controllers: usize,
    queues: usize,
    /// I/O queues for which the reactors have places.
    queues_max: usize,
    /// True if hosts may come that prove their names, for which places are kept.
    expects_proofs: bool,
    by_host: HashMap<String, Taken>,
    /// The same of hosts that have proved their names: who claims such a name, where it need not be proved, has a quota of its own.
    by_proved_host: HashMap<String, Taken>,
    /// Counts hosts not named by the operator. Named hosts have a quota of their own on any network.
    by_network: HashMap<Network, Taken>,
}

impl Admission {
    /// Admission to a target with this number of reactors.
    pub(crate) fn new(quotas: Quotas, reactors: usize) -> Self {
        Self {
            quotas,
            controllers: 0,
            queues: 0,
            queues_max: reactors * CONNECTIONS_PER_REACTOR_MAX,
            expects_proofs: false,
            by_host: HashMap::new(),
            by_proved_host: HashMap::new(),
            by_network: HashMap::new(),
        }
    }

    /// Keeps places for hosts that prove their names, if there are any.
    pub(crate) const fn expect_proofs(&mut self, expects_proofs: bool) {
        self.expects_proofs = expects_proofs;
    }

    /// The part of the last places that a host leaves to others: to those that are named, or to those that are proved.
    const fn left_to_others(&self, guest: &Guest, named: usize, proved: usize) -> usize {
        match (guest.is_named, guest.is_proved) {
            (false, _) => named,
            (true, false) if self.expects_proofs => proved,
            (true, _) => 0,
        }
    }

    pub(crate) const fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Gives a host a controller.
    ///
    /// # Errors
    /// The rule that is in its way.
    pub(crate) fn take_controller(&mut self, guest: &Guest) -> Result<(), Rule> {
        let (of_host, of_network) = self.taken(guest);
        let left = self.left_to_others(guest, NAMED_HOSTS_RESERVE, PROVED_HOSTS_RESERVE);
        let rule = if self.controllers >= CONTROLLERS_MAX {
            Rule::Controllers
        } else if of_host.controllers >= self.quotas.controllers_per_host {
            Rule::ControllersPerHost
        } else if self.controllers + left >= CONTROLLERS_MAX {
            Rule::Reserve
        } else if !guest.is_named && of_network.controllers >= self.quotas.controllers_per_network {
            Rule::ControllersPerNetwork
        } else {
            self.controllers += 1;
            self.change(guest, |taken| taken.controllers += 1);
            return Ok(());
        };
        Err(rule)
    }

    /// A controller is gone.
    pub(crate) fn give_controller(&mut self, guest: &Guest) {
        self.controllers -= 1;
        self.change(guest, |taken| taken.controllers -= 1);
    }

    /// Gives a host an I/O queue.
    ///
    /// # Errors
    /// The rule that is in its way.
    pub(crate) fn take_queue(&mut self, guest: &Guest) -> Result<(), Rule> {
        let (of_host, of_network) = self.taken(guest);
        if of_host.queues >= self.quotas.queues_per_host {
            return Err(Rule::QueuesPerHost);
        }
        if !guest.is_named && of_network.queues >= self.quotas.queues_per_network {
            return Err(Rule::QueuesPerNetwork);
        }
        let all = self.queues_max;
        let left = self.left_to_others(guest, all / NAMED_QUEUES_SHARE, all / PROVED_QUEUES_SHARE);
        if left > 0 && self.queues >= all - left {
            return Err(Rule::Reserve);
        }
        self.queues += 1;
        self.change(guest, |taken| taken.queues += 1);
        Ok(())
    }

    /// An I/O queue is gone.
    pub(crate) fn give_queue(&mut self, guest: &Guest) {
        self.queues -= 1;
        self.change(guest, |taken| taken.queues -= 1);
    }

    fn taken(&self, guest: &Guest) -> (Taken, Taken) {
        let hosts = if guest.is_proved { &self.by_proved_host } else { &self.by_host };
        let of_host = hosts.get(&guest.nqn).copied().unwrap_or_default();
        let of_network = self.by_network.get(&guest.network).copied().unwrap_or_default();
        (of_host, of_network)
    }

    fn change(&mut self, guest: &Guest, change: impl Fn(&mut Taken)) {
        let hosts = if guest.is_proved { &mut self.by_proved_host } else { &mut self.by_host };
        update(hosts, &guest.nqn, &change);
        if !guest.is_named {
            update(&mut self.by_network, &guest.network, &change);
        }
    }
}

/// Changes what a party has taken; one that has nothing leaves no trace.
fn update<K: Eq + Hash + Clone>(parties: &mut HashMap<K, Taken>, party: &K, change: impl Fn(&mut Taken)) {
    let taken = parties.entry(party.clone()).or_default();
    change(taken);
    if taken.is_empty() {
        parties.remove(party);
    }
}

/// Reasons besides quotas for which a Connect is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Host that is not on the subsystem's list.
    NotAllowed,
    /// Subsystem that is not on the port.
    UnknownSubsystem,
    /// Identifier that another host has.
    HostIdInUse,
    /// Contradiction in the command, or to what there is.
    Invalid,
}

impl Fault {
    const ALL: [Self; 4] = [Self::NotAllowed, Self::UnknownSubsystem, Self::HostIdInUse, Self::Invalid];

    /// Name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::UnknownSubsystem => "unknown_subsystem",
            Self::HostIdInUse => "host_id_in_use",
            Self::Invalid => "invalid",
        }
    }
}

/// Counters of refused and ended connections, by reason.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_rule: [Seldom; Rule::ALL.len()],
    by_fault: [Seldom; Fault::ALL.len()],
    /// Of hosts that did not authenticate, or not rightly.
    unproved: Seldom,
    /// Of hosts that came without TLS where it is required.
    in_clear: Seldom,
    /// Of TLS handshakes that failed, or were not wanted.
    handshakes: Seldom,
    discovery_ended: AtomicU64,
    silent_ended: AtomicU64,
    /// Controllers of unproved hosts that ended for a proved host with the same HOSTID.
    displaced: Seldom,
    /// Changes of hosts that make too many.
    changes: Seldom,
    /// Connections that the system or the reactors have no room for.
    without_room: Seldom,
    /// Failures to accept a connection.
    unaccepted: Seldom,
    /// Registrations that are to persist, where nothing is kept.
    unkept: Seldom,
    /// Settings of Reservation Persistence by hosts that are not registered.
    unregistered: Seldom,
}

impl Refusals {
    /// Counts a refusal; whether it is one to be logged.
    pub(crate) fn count(&self, rule: Rule) -> Option<u64> {
        self.by_rule[rule as usize].count_to_log(ring::now())
    }

    /// Counts a fault of a Connect or of its host; the number if it is one to be logged.
    pub(crate) fn count_fault(&self, fault: Fault) -> Option<u64> {
        self.by_fault[fault as usize].count_to_log(ring::now())
    }

    /// Counts a discovery controller that had to make room for another.
    pub(crate) fn count_discovery_ended(&self) {
        self.discovery_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a host that did not authenticate rightly; whether it is one to be logged.
    pub(crate) fn count_unproved(&self) -> Option<u64> {
        self.unproved.count_to_log(ring::now())
    }

    /// Counts a host that came without TLS where it is required; whether it is one to be logged.
    pub(crate) fn count_in_clear(&self) -> Option<u64> {
        self.in_clear.count_to_log(ring::now())
    }

    /// Counts a TLS handshake that failed or was not wanted; whether it is one to be logged.
    pub(crate) fn count_handshake(&self) -> Option<u64> {
        self.handshakes.count_to_log(ring::now())
    }

    /// Counts a controller that ended for a proved host with the same HOSTID; the number if it is one to be logged.
    pub(crate) fn count_displaced(&self) -> Option<u64> {
        self.displaced.count_to_log(ring::now())
    }

    /// Counts a change of a host that makes too many; the number if it is one to be logged.
    pub(crate) fn count_change(&self) -> Option<u64> {
        self.changes.count_to_log(ring::now())
    }

    /// Counts a connection that there is no room for; the number if it is one to be logged.
    pub(crate) fn count_without_room(&self) -> Option<u64> {
        self.without_room.count_to_log(ring::now())
    }

    /// Counts a failure to accept a connection; the number if it is one to be logged.
    pub(crate) fn count_unaccepted(&self) -> Option<u64> {
        self.unaccepted.count_to_log(ring::now())
    }

    /// Counts a registration that is to persist where nothing is kept; the number if it is one to be logged.
    pub(crate) fn count_unkept(&self) -> Option<u64> {
        self.unkept.count_to_log(ring::now())
    }

    /// Counts a setting of Reservation Persistence by a host that is not registered; the number if it is one to be logged.
    pub(crate) fn count_unregistered(&self) -> Option<u64> {
        self.unregistered.count_to_log(ring::now())
    }

    /// Counts a controller whose keep alive timer ran out.
    pub(crate) fn count_silent_ended(&self) {
        self.silent_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Refusals by what was in the way.
    pub(crate) fn read(&self) -> Vec<(&'static str, u64)> {
        let by_rule = Rule::ALL.map(|rule| (rule.name(), &self.by_rule[rule as usize]));
        let by_fault = Fault::ALL.map(|fault| (fault.name(), &self.by_fault[fault as usize]));
        let all = by_rule.into_iter().chain(by_fault).chain([
            ("authentication", &self.unproved),
            ("without_tls", &self.in_clear),
            ("tls_handshake", &self.handshakes),
        ]);
        all.map(|(name, tally)| (name, tally.read())).collect()
    }

    pub(crate) fn silent_ended(&self) -> u64 {
        self.silent_ended.load(Ordering::Relaxed)
    }

    pub(crate) fn displaced(&self) -> u64 {
        self.displaced.read()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.read()
    }

    pub(crate) fn discovery_ended(&self) -> u64 {
        self.discovery_ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(nqn: &str, address: &str, is_named: bool) -> Guest {
        let network = Network::of(address.parse().unwrap());
        Guest { nqn: nqn.to_owned(), network, is_named, is_proved: false }
    }

    fn proved(nqn: &str, address: &str) -> Guest {
        Guest { is_proved: true, ..guest(nqn, address, true) }
    }

    #[test]
    fn a_network_is_an_ipv4_address_or_half_an_ipv6_address() {
        let network = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(network("10.0.0.1"), network("::ffff:10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::2:3"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        let own = ["127.0.0.1", "127.3.2.1", "::ffff:127.0.0.9", "::1"].map(network);
        assert!(
            own.iter().all(|other| *other == own[0]),
            "addresses of this machine are one network: {own:?}"
        );
        assert_ne!(own[0], network("::2:3"));
    }

    #[test]
    fn a_process_with_all_loopback_addresses_leaves_others_their_places() {
        let mut admission = Admission::new(Quotas::default(), 1);
        let taken = (1..=255).cycle().take(CONTROLLERS_MAX).enumerate().filter(|(number, last)| {
            let guest = guest(&format!("nqn.{number}"), &format!("127.0.0.{last}"), false);
            admission.take_controller(&guest).is_ok()
        });
        assert_eq!(taken.count(), CONTROLLERS_PER_NETWORK_MAX);
        assert_eq!(admission.take_controller(&guest("other", "10.0.0.1", false)), Ok(()));
    }

    #[test]
    fn one_host_takes_no_more_than_its_quota_and_gets_it_back() {
        let quotas = Quotas { controllers_per_host: 2, queues_per_host: 3, ..Quotas::default() };
        let mut admission = Admission::new(quotas, 2);
        let (a, b) = (guest("a", "10.0.0.1", true), guest("b", "10.0.0.1", true));
        assert_eq!(admission.take_controller(&a), Ok(()));
        assert_eq!(admission.take_controller(&a), Ok(()));
        assert_eq!(admission.take_controller(&a), Err(Rule::ControllersPerHost));
        assert_eq!(admission.take_controller(&b), Ok(()));
        for _ in 0..3 {
            assert_eq!(admission.take_queue(&a), Ok(()));
        }
        assert_eq!(admission.take_queue(&a), Err(Rule::QueuesPerHost));
        assert_eq!(admission.take_queue(&b), Ok(()));
        admission.give_controller(&a);
        admission.give_queue(&a);
        assert_eq!((admission.take_controller(&a), admission.take_queue(&a)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_stranger_with_many_names_takes_no_more_than_its_networks_quota() {
        let quotas = Quotas { controllers_per_network: 5, queues_per_network: 2, ..Quotas::default() };
        let mut admission = Admission::new(quotas, 2);
        for number in 0..5 {
            assert_eq!(admission.take_controller(&guest(&number.to_string(), "10.0.0.9", false)), Ok(()));
        }
        let sixth = guest("6", "10.0.0.9", false);
        assert_eq!(admission.take_controller(&sixth), Err(Rule::ControllersPerNetwork));
        assert_eq!(admission.take_controller(&guest("7", "10.0.0.8", false)), Ok(()));
        assert_eq!(admission.take_controller(&guest("named", "10.0.0.9", true)), Ok(()));
        assert_eq!((admission.take_queue(&sixth), admission.take_queue(&sixth)), (Ok(()), Ok(())));
        assert_eq!(admission.take_queue(&sixth), Err(Rule::QueuesPerNetwork));
    }

    #[test]
    fn the_last_places_are_for_named_hosts() {
        let all = CONTROLLERS_MAX;
        let quotas = Quotas { controllers_per_host: all, controllers_per_network: all, ..Quotas::default() };
        let mut admission = Admission::new(quotas, 2);
        let (stranger, named) = (guest("stranger", "10.0.0.9", false), guest("named", "10.0.0.1", true));
        for _ in 0..all - NAMED_HOSTS_RESERVE {
            assert_eq!(admission.take_controller(&stranger), Ok(()));
        }
        assert_eq!(admission.take_controller(&stranger), Err(Rule::Reserve));
        for _ in 0..NAMED_HOSTS_RESERVE {
            assert_eq!(admission.take_controller(&named), Ok(()));
        }
        assert_eq!(admission.take_controller(&named), Err(Rule::Controllers));
    }

    #[test]
    fn the_last_places_for_queues_are_for_named_hosts() {
        let all = CONNECTIONS_PER_REACTOR_MAX;
        let quotas = Quotas { queues_per_host: 2 * all, queues_per_network: 2 * all, ..Quotas::default() };
        let mut admission = Admission::new(quotas, 1);
        let (stranger, named) = (guest("stranger", "10.0.0.9", false), guest("named", "10.0.0.1", true));
        for _ in 0..all - all / NAMED_QUEUES_SHARE {
            assert_eq!(admission.take_queue(&stranger), Ok(()));
        }
        assert_eq!(admission.take_queue(&stranger), Err(Rule::Reserve));
        assert_eq!(admission.take_queue(&named), Ok(()));
        admission.give_queue(&stranger);
        admission.give_queue(&stranger);
        assert_eq!(admission.take_queue(&stranger), Ok(()));
    }

    #[test]
    fn who_claims_the_name_of_a_host_that_proves_its_own_takes_nothing_from_it() {
        let quotas = Quotas { controllers_per_host: 1, queues_per_host: 1, ..Quotas::default() };
        let mut admission = Admission::new(quotas, 1);
        let (claimed, real) = (guest("a", "10.0.0.9", true), proved("a", "10.0.0.1"));
        assert_eq!((admission.take_controller(&claimed), admission.take_queue(&claimed)), (Ok(()), Ok(())));
        assert_eq!(admission.take_controller(&claimed), Err(Rule::ControllersPerHost));
        assert_eq!((admission.take_controller(&real), admission.take_queue(&real)), (Ok(()), Ok(())));
        assert_eq!(admission.take_controller(&real), Err(Rule::ControllersPerHost));
        admission.give_controller(&claimed);
        assert_eq!(
            admission.take_controller(&real),
            Err(Rule::ControllersPerHost),
            "each gives back its own"
        );
    }

    #[test]
    fn where_hosts_prove_their_names_the_last_places_are_for_them() {
        let all = CONNECTIONS_PER_REACTOR_MAX;
        let quotas = Quotas { controllers_per_host: all, queues_per_host: all, ..Quotas::default() };
        for expects_proofs in [false, true] {
            let mut admission = Admission::new(quotas, 1);
            admission.expect_proofs(expects_proofs);
            let (named, real) = (guest("named", "10.0.0.9", true), proved("real", "10.0.0.1"));
            let left = |part: usize| if expects_proofs { part } else { 0 };
            (0..CONTROLLERS_MAX - left(PROVED_HOSTS_RESERVE))
                .for_each(|_| assert_eq!(admission.take_controller(&named), Ok(())));
            (0..all - left(all / PROVED_QUEUES_SHARE))
                .for_each(|_| assert_eq!(admission.take_queue(&named), Ok(())));
            let rules = match expects_proofs {
                false => (Err(Rule::Controllers), Err(Rule::QueuesPerHost)),
                true => (Err(Rule::Reserve), Err(Rule::Reserve)),
            };
            assert_eq!((admission.take_controller(&named), admission.take_queue(&named)), rules);
            let of_real = (admission.take_controller(&real), admission.take_queue(&real));
            assert_eq!(of_real.0.is_ok(), expects_proofs);
            assert_eq!(of_real.1, Ok(()));
        }
    }

    #[test]
    fn who_has_nothing_leaves_no_trace() {
        let mut admission = Admission::new(Quotas::default(), 2);
        let guest = guest("a", "10.0.0.1", false);
        admission.take_controller(&guest).unwrap();
        admission.take_queue(&guest).unwrap();
        admission.give_queue(&guest);
        admission.give_controller(&guest);
        assert!(admission.by_host.is_empty() && admission.by_network.is_empty());
    }

    #[test]
    fn a_flood_of_refusals_is_logged_seldom() {
        let refusals = Refusals::default();
        let logged = (0..100_000).filter(|_| refusals.count(Rule::Reserve).is_some()).count();
        assert!((16..64).contains(&logged), "{logged}");
        assert_eq!(refusals.read()[1], ("reserve", 100_000));
    }
}
