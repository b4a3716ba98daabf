//! Limits on the connections at a listener of the control API, and on responses that are not read.
//! Any process of the machine, and any address, can open connections and say nothing: each party
//! has a quota, the oldest connection that has not identified itself makes room for one that comes,
//! and some permits are reserved for root and the target's own user. A connection that has
//! identified itself, and has sent its whole request, keeps its permit.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::ring::Moment;
use engine::seldom::Seldom;
use engine::target::Network;
use tokio::task::AbortHandle;

use super::access::is_operator;
use super::limits::{
    CONNECTION_TIMEOUT, CONNECTIONS_KEPT, CONNECTIONS_MAX, CONNECTIONS_PER_PARTY_MAX,
    METRICS_CONNECTION_TIMEOUT, METRICS_UNREAD_BYTES_MAX, METRICS_UNREAD_BYTES_PER_PARTY_MAX,
    UNREAD_BYTES_MAX, UNREAD_BYTES_PER_PARTY_MAX,
};

/// Limits of a listener on responses that are not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    bytes_per_party: usize,
    bytes: usize,
    duration: Duration,
}

impl Costs {
    /// Limits for requests to the control API.
    pub(super) const REQUESTS: Self = Self {
        bytes_per_party: UNREAD_BYTES_PER_PARTY_MAX,
        bytes: UNREAD_BYTES_MAX,
        duration: CONNECTION_TIMEOUT,
    };
    /// Limits for scrapes of metrics.
    pub(super) const SCRAPES: Self = Self {
        bytes_per_party: METRICS_UNREAD_BYTES_PER_PARTY_MAX,
        bytes: METRICS_UNREAD_BYTES_MAX,
        duration: METRICS_CONNECTION_TIMEOUT,
    };
}

/// Party that connections belong to before they have identified themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    /// User of this machine, as the kernel has it.
    User(u32),
    /// Network that connections come from.
    Network(Network),
}

impl Party {
    pub(super) fn of(address: SocketAddr) -> Self {
        Self::Network(Network::of(address.ip()))
    }

    /// True if permits are reserved for the party: it administers the target in any case.
    fn is_operator(self) -> bool {
        matches!(self, Self::User(uid) if is_operator(uid))
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Network(_) => f.write_str("a network"),
        }
    }
}

/// Mark of a connection, set once a whole request on it was identified.
#[derive(Clone, Debug, Default)]
pub(super) struct Identified(Arc<AtomicBool>);

impl Identified {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    party: Party,
    identified: Identified,
    task: Option<AbortHandle>,
    /// Bytes of its response.
    unread_bytes: usize,
    /// Set once it has made room for another connection.
    is_leaving: bool,
}

#[derive(Debug)]
struct Shared {
    /// In the order in which they came.
    entries: Mutex<(u64, Vec<Entry>)>,
    displaced: Seldom,
    since: Instant,
    costs: Costs,
}

/// Limiter of the connections of one listener.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimiter(Arc<Shared>);

/// Permit for one connection, returned when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    shared: Arc<Shared>,
    serial: u64,
    pub(super) identified: Identified,
}

impl ConnectionLimiter {
    pub(super) fn new(costs: Costs) -> Self {
        let (entries, displaced) = (Mutex::default(), Seldom::default());
        Self(Arc::new(Shared { entries, displaced, since: Instant::now(), costs }))
    }

    /// Permit for a connection of this party, unless all are held by connections that have identified themselves.
    pub(super) fn enter(&self, party: Party) -> Option<ConnectionPermit> {
        let mut guard = self.0.lock();
        let (last, entries) = &mut *guard;
        let is_admitted = match crowded(entries, party) {
            Crowded::No => true,
            Crowded::By(crowd) => self.displace(entries, crowd),
        };
        if !is_admitted {
            return None;
        }
        *last += 1;
        let (serial, identified) = (*last, Identified::default());
        let entry = Entry {
            serial,
            party,
            identified: identified.clone(),
            task: None,
            unread_bytes: 0,
            is_leaving: false,
        };
        entries.push(entry);
        Some(ConnectionPermit { shared: self.0.clone(), serial, identified })
    }

    /// Names the task that serves the connection with this permit, which is aborted when the connection has to make room.
    pub(super) fn watch(&self, serial: u64, task: AbortHandle) {
        if let Some(entry) = self.0.lock().1.iter_mut().find(|entry| entry.serial == serial) {
            entry.task = Some(task);
        }
    }

    /// True while no connection has a permit.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().1.is_empty()
    }

    /// Has the oldest connection of the party leave that has not identified itself; whether there is one.
    fn displace(&self, entries: &mut [Entry], party: Party) -> bool {
        let Some(oldest) = entries.iter_mut().find(|entry| entry.party == party && entry.is_displaceable())
        else {
            return false;
        };
        oldest.is_leaving = true;
        if let Some(task) = &oldest.task {
            task.abort();
        }
        if let Some(times) = self.0.displaced.count_to_log(Moment::default().after(self.0.since.elapsed())) {
            tracing::warn!(
                times,
                "Closed a connection of the control API that had not identified itself: {party} has \
                many, and another one comes"
            );
        }
        true
    }
}

impl Entry {
    fn is_displaceable(&self) -> bool {
        !self.is_leaving && !self.identified.is_set()
    }
}

/// Room for another connection.
enum Crowded {
    No,
    /// A connection of this party has to make room.
    By(Party),
}

fn crowded(entries: &[Entry], party: Party) -> Crowded {
    let staying = || entries.iter().filter(|entry| !entry.is_leaving);
    let own = staying().filter(|entry| entry.party == party).count();
    let operators = staying().filter(|entry| entry.party.is_operator()).count();
    let shared = staying().count() - operators.min(CONNECTIONS_KEPT);
    if party.is_operator() && operators < CONNECTIONS_KEPT {
        return Crowded::No;
    }
    if !party.is_operator() && own >= CONNECTIONS_PER_PARTY_MAX {
        return Crowded::By(party);
    }
    if shared < CONNECTIONS_MAX {
        return Crowded::No;
    }
    // Of those that have something to lose the one with the most, and of these the one that came first.
    let mut crowds: HashMap<Party, usize> = HashMap::new();
    staying().for_each(|entry| *crowds.entry(entry.party).or_default() += 1);
    let displaceable = entries.iter().enumerate().filter(|(_, entry)| entry.is_displaceable());
    let heaviest = displaceable.max_by_key(|(at, entry)| (crowds.get(&entry.party), std::cmp::Reverse(*at)));
    Crowded::By(heaviest.map_or(party, |(_, entry)| entry.party))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Entry>)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    pub(super) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Longest duration of the connection.
    pub(super) fn duration(&self) -> Duration {
        self.shared.costs.duration
    }

    /// Counts the bytes of a response until this is dropped; false if the party or all parties have
    /// too many that are not read.
    pub(super) fn holds(&self, bytes: usize) -> bool {
        let mut guard = self.shared.lock();
        let entries = &mut guard.1;
        let Some(at) = entries.iter().position(|entry| entry.serial == self.serial) else { return false };
        let party = entries[at].party;
        let sum = |counts: &dyn Fn(Party) -> bool| -> usize {
            entries.iter().filter(|entry| counts(entry.party)).map(|entry| entry.unread_bytes).sum()
        };
        let (own, shared) = (sum(&|other| other == party), sum(&|other| !other.is_operator()));
        let is_within = |sum: usize, limit: usize| sum.saturating_add(bytes) <= limit;
        let Costs { bytes_per_party, bytes: bytes_of_all, .. } = self.shared.costs;
        let is_own_within = own == 0 || is_within(own, bytes_per_party);
        let is_admitted = is_own_within && (party.is_operator() || is_within(shared, bytes_of_all));
        if is_admitted {
            entries[at].unread_bytes += bytes;
        }
        is_admitted
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.lock().1.retain(|entry| entry.serial != self.serial);
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::ANSWER_BYTES_MAX;
    use super::*;

    const OTHER_USER: Party = Party::User(65_534);

    fn network(last: u8) -> Party {
        Party::of(([10, 0, 0, last], 1).into())
    }

    /// Serial numbers of the permits whose connections have to make room.
    fn leaving(limiter: &ConnectionLimiter) -> Vec<u64> {
        limiter.0.lock().1.iter().filter(|entry| entry.is_leaving).map(|entry| entry.serial).collect()
    }

    fn enter(limiter: &ConnectionLimiter, party: Party, count: usize) -> Vec<ConnectionPermit> {
        (0..count).map(|_| limiter.enter(party).expect("a permit")).collect()
    }

    #[test]
    fn a_silent_user_keeps_neither_root_nor_another_user_out() {
        let limiter = ConnectionLimiter::new(Costs::REQUESTS);
        let silent = enter(&limiter, OTHER_USER, 3 * CONNECTIONS_MAX);
        let gone = leaving(&limiter);
        assert_eq!(
            gone.len(),
            silent.len() - CONNECTIONS_PER_PARTY_MAX,
            "its own oldest went for its newest"
        );
        assert_eq!(gone[0], silent[0].serial());
        let _root = enter(&limiter, Party::User(0), CONNECTIONS_KEPT + CONNECTIONS_PER_PARTY_MAX);
        let _other = enter(&limiter, Party::User(1000), 1);
        assert_eq!(leaving(&limiter).len(), gone.len() + 1, "one more, when all permits were held");
    }

    #[test]
    fn the_party_with_the_most_silent_connections_makes_room() {
        let limiter = ConnectionLimiter::new(Costs::REQUESTS);
        let heavy = enter(&limiter, network(1), CONNECTIONS_PER_PARTY_MAX);
        let _light: Vec<_> = (2..2 + (CONNECTIONS_MAX - heavy.len()) as u8)
            .flat_map(|last| enter(&limiter, network(last), 1))
            .collect();
        assert_eq!(leaving(&limiter), [0; 0]);
        let _honest = enter(&limiter, network(200), 1);
        assert_eq!(leaving(&limiter), [heavy[0].serial()]);
        drop(heavy);
        assert_eq!(leaving(&limiter), [0; 0]);
    }

    #[test]
    fn a_connection_that_has_identified_itself_keeps_its_permit() {
        let limiter = ConnectionLimiter::new(Costs::REQUESTS);
        let known = enter(&limiter, network(1), CONNECTIONS_PER_PARTY_MAX);
        known.iter().skip(1).for_each(|permit| permit.identified.set());
        let _one = enter(&limiter, network(1), 1);
        assert_eq!(leaving(&limiter), [known[0].serial()], "the one that has not");
        let _all = known;
        let mut more = enter(&limiter, network(2), CONNECTIONS_MAX - CONNECTIONS_PER_PARTY_MAX);
        more.iter().for_each(|permit| permit.identified.set());
        let _last = enter(&limiter, network(3), 1);
        assert_eq!(leaving(&limiter).len(), 2, "the silent one of the first network");
        assert!(limiter.enter(network(3)).is_some(), "the one of its own");
        more.clear();
        assert!(!limiter.is_empty());
    }

    #[test]
    fn with_no_silent_connection_left_root_alone_gets_a_permit() {
        let limiter = ConnectionLimiter::new(Costs::REQUESTS);
        let all: Vec<_> =
            (1..=CONNECTIONS_MAX as u8).flat_map(|last| enter(&limiter, network(last), 1)).collect();
        all.iter().for_each(|permit| permit.identified.set());
        assert!(limiter.enter(network(99)).is_none() && limiter.enter(OTHER_USER).is_none());
        assert_eq!(enter(&limiter, Party::User(0), CONNECTIONS_KEPT).len(), CONNECTIONS_KEPT);
    }

    #[test]
    fn a_party_that_reads_nothing_leaves_room_for_the_responses_of_others() {
        let limiter = ConnectionLimiter::new(Costs::REQUESTS);
        let part = UNREAD_BYTES_PER_PARTY_MAX / 4;
        let slow = enter(&limiter, network(1), CONNECTIONS_PER_PARTY_MAX);
        assert_eq!(slow.iter().filter(|permit| permit.holds(part)).count(), 4);
        let other = enter(&limiter, network(2), 2);
        assert!(other[0].holds(ANSWER_BYTES_MAX), "the largest response");
        assert!(!other[1].holds(1), "a second one beside it");
        let third = enter(&limiter, network(3), 1);
        assert!(!third[0].holds(ANSWER_BYTES_MAX), "all parties have too many");
        let root = enter(&limiter, Party::User(0), 1);
        assert!(root[0].holds(ANSWER_BYTES_MAX));
        drop(other);
        assert!(third[0].holds(ANSWER_BYTES_MAX));
        drop(slow);
        assert!(enter(&limiter, network(1), 1)[0].holds(part));
    }

    #[test]
    fn networks_that_do_not_read_metrics_hold_less_and_leave_room_for_a_large_response() {
        let limiter = ConnectionLimiter::new(Costs::SCRAPES);
        let scrape = 3 << 20;
        let networks: Vec<_> = (1..=4).map(|last| enter(&limiter, network(last), 4)).collect();
        let held = networks.iter().flatten().filter(|permit| permit.holds(scrape)).count();
        assert_eq!(held, 4 * 2, "two of each");
        let other = enter(&limiter, network(5), 1);
        assert!(other[0].holds(METRICS_UNREAD_BYTES_MAX - held * scrape), "a large one");
        assert!(other[0].duration() < CONNECTION_TIMEOUT);
    }
}
