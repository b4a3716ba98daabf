//! Limit on the clients that all threads of a server have together, and the share of it that each party may have: a client is
//! refused only when its party has its share of the whole server, whichever thread is next. Clients are counted when they are
//! accepted, select a disk, and end. No request takes the lock.
//!
//! Shares are judged only when a client connects. So a connection with a disk is never closed for another one, and an upgrade closes
//! no connection of a party that has more than its share in the new process, which may have fewer threads or descriptors. Such a
//! party gets no connection, not even for one that it has lost, until it has less than its share: those that it gives up are for
//! others.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;

use crate::buffer_budget::Party;
use crate::limits::{CLIENTS_OF_RESERVE_MAX, CLIENTS_PER_THREAD_MAX, CLIENTS_RESERVE};

/// Stage of a connection, as far as it decides which one makes room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientStage {
    /// No disk is selected.
    Handshake,
    /// The same, by TLS: the client has authenticated, and goes after the others.
    Secure,
    /// A disk is selected, or the connection ends: it makes room for none.
    Settled,
}

/// Clients of all threads of a server.
#[derive(Debug)]
pub(crate) struct ClientLimiter {
    per_thread_max: usize,
    /// The same of all threads.
    clients_max: usize,
    clients: Mutex<Clients>,
}

#[derive(Debug)]
struct Clients {
    entries: Slab<Entry>,
    of_threads: Vec<usize>,
    /// Without parties that have none.
    of_parties: HashMap<Party, usize>,
    last_number: u64,
    next_thread: usize,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    party: Party,
    thread: usize,
    stage: ClientStage,
}

/// Client that may be served.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) permit: ClientPermit,
    /// Number of a client of the same thread whose connection is to be closed before.
    pub(crate) displaced: Option<u64>,
}

/// Permit of a client, which is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    limiter: Arc<ClientLimiter>,
    key: usize,
    number: u64,
    thread: usize,
}

impl ClientLimiter {
    /// Limiter of a server with these threads, which accept this number of clients together.
    pub(crate) fn new(threads: u16, clients_max: usize) -> Arc<Self> {
        let threads = usize::from(threads);
        let per_thread_max = (clients_max / threads.max(1)).clamp(1, CLIENTS_PER_THREAD_MAX);
        let clients = Clients {
            entries: Slab::new(),
            of_threads: vec![0; threads],
            of_parties: HashMap::new(),
            last_number: 0,
            next_thread: 0,
        };
        Arc::new(Self { per_thread_max, clients_max: per_thread_max * threads, clients: Mutex::new(clients) })
    }

    /// Clients that all threads accept together.
    pub(crate) const fn clients_max(&self) -> usize {
        self.clients_max
    }

    /// Permit for a client that has connected, of the next thread with room. Where its party has its share of all clients, one of
    /// the party's makes room for it, and where all threads are full, that of the party with most of them. `None` if no such one
    /// is without a disk.
    pub(crate) fn admit(self: &Arc<Self>, party: Party) -> Option<Admitted> {
        let mut clients = self.lock();
        let free: usize = clients.of_threads.iter().map(|own| self.per_thread_max.saturating_sub(*own)).sum();
        let own = clients.of_parties.get(&party).copied().unwrap_or_default();
        if !has_share(own, free, self.clients_max) {
            return self.replace(&mut clients, (party, ClientStage::Handshake), |entry| entry.party == party);
        }
        if free == 0 {
            return self.replace(&mut clients, (party, ClientStage::Handshake), |_| true);
        }
        let thread = clients.thread_with_room(self.per_thread_max)?;
        clients.next_thread = (thread + 1) % clients.of_threads.len();
        let permit = self.enter(&mut clients, (party, ClientStage::Handshake), thread);
        Some(Admitted { permit, displaced: None })
    }

    /// Permit for a client that comes as the server ends: it gets the reason from this thread, if that has room.
    pub(crate) fn admit_last(self: &Arc<Self>, party: Party, thread: usize) -> Option<Admitted> {
        let mut clients = self.lock();
        let has_room = clients.of_threads[thread] < self.per_thread_max;
        let permit = has_room.then(|| self.enter(&mut clients, (party, ClientStage::Handshake), thread))?;
        Some(Admitted { permit, displaced: None })
    }

    /// Permit for a client of another process, of this thread, whatever its party has: clients that are handed over may be more than
    /// are accepted. Where the thread is full of such, one without a disk makes room.
    pub(crate) fn adopt(self: &Arc<Self>, client: (Party, ClientStage), thread: usize) -> Option<Admitted> {
        let mut clients = self.lock();
        if clients.of_threads[thread] < CLIENTS_PER_THREAD_MAX {
            let permit = self.enter(&mut clients, client, thread);
            return Some(Admitted { permit, displaced: None });
        }
        self.replace(&mut clients, client, |entry| entry.thread == thread)
    }

    /// Counts a client instead of one of those that are asked for.
    fn replace(
        self: &Arc<Self>,
        clients: &mut Clients,
        client: (Party, ClientStage),
        is_asked: impl Fn(&Entry) -> bool,
    ) -> Option<Admitted> {
        let Entry { number, thread, .. } = clients.displace(is_asked)?;
        Some(Admitted { permit: self.enter(clients, client, thread), displaced: Some(number) })
    }

    fn enter(
        self: &Arc<Self>,
        clients: &mut Clients,
        (party, stage): (Party, ClientStage),
        thread: usize,
    ) -> ClientPermit {
        clients.last_number += 1;
        let number = clients.last_number;
        clients.of_threads[thread] += 1;
        *clients.of_parties.entry(party).or_default() += 1;
        let key = clients.entries.insert(Entry { number, party, thread, stage });
        ClientPermit { limiter: self.clone(), key, number, thread }
    }

    /// The lock, whose holder cannot have left the counts half done.
    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clients {
    /// The next thread that has fewer clients than this.
    fn thread_with_room(&self, most: usize) -> Option<usize> {
        let count = self.of_threads.len();
        let mut threads = (self.next_thread..self.next_thread + count).map(|thread| thread % count);
        threads.find(|thread| self.of_threads[*thread] < most)
    }

    /// Takes the client that makes room for another one out of the counts: of those that are asked for and have not selected a
    /// disk, of the party with most of them, the one that came first. So neither a crowd nor those that come after it displace one
    /// that is about to select one.
    fn displace(&mut self, is_asked: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let is_idle = |(_, entry): &(usize, &Entry)| entry.stage != ClientStage::Settled && is_asked(entry);
        let mut idle: Vec<(usize, &Entry)> = self.entries.iter().filter(is_idle).collect();
        // A client that has authenticated goes last.
        if idle.iter().any(|(_, entry)| entry.stage == ClientStage::Handshake) {
            idle.retain(|(_, entry)| entry.stage == ClientStage::Handshake);
        }
        let mut crowds: HashMap<Party, usize> = HashMap::new();
        for (_, entry) in &idle {
            *crowds.entry(entry.party).or_default() += 1;
        }
        let first = idle.iter().max_by_key(|(_, entry)| (crowds.get(&entry.party), Reverse(entry.number)));
        let key = first.map(|(key, _)| *key)?;
        Some(self.remove(key))
    }

    fn remove(&mut self, key: usize) -> Entry {
        let entry = self.entries.remove(key);
        self.of_threads[entry.thread] -= 1;
        if let Some(count) = self.of_parties.get_mut(&entry.party) {
            *count -= 1;
            if *count == 0 {
                self.of_parties.remove(&entry.party);
            }
        }
        entry
    }

    /// The entry of a permit; `None` once its client has made room for another one.
    fn entry_of(&mut self, permit: &ClientPermit) -> Option<&mut Entry> {
        self.entries.get_mut(permit.key).filter(|entry| entry.number == permit.number)
    }
}

impl ClientPermit {
    /// Number of the client, of all that the server has had.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Thread that serves it.
    pub(crate) const fn thread(&self) -> usize {
        self.thread
    }

    /// Records the client's stage. Returns false if its connection is to be closed for another one.
    pub(crate) fn record(&self, stage: ClientStage) -> bool {
        let mut clients = self.limiter.lock();
        let Some(entry) = clients.entry_of(self) else { return false };
        entry.stage = stage;
        true
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut clients = self.limiter.lock();
        if clients.entry_of(self).is_some() {
            clients.remove(self.key);
        }
    }
}

/// True if a party with this number of clients may have another one while this number of all `clients_max` is free.
fn has_share(own: usize, free: usize, clients_max: usize) -> bool {
    let part = |of_all: usize| of_all * clients_max / CLIENTS_PER_THREAD_MAX;
    free > part(CLIENTS_RESERVE) || own < part(CLIENTS_OF_RESERVE_MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: Party = Party::User(1);
    const MODEST: Party = Party::User(2);
    const THIRD: Party = Party::User(3);

    /// Clients of a party that have selected disks, as many as it gets.
    fn fill(limiter: &Arc<ClientLimiter>, party: Party) -> Vec<ClientPermit> {
        let mut permits = Vec::new();
        while let Some(Admitted { permit, displaced }) = limiter.admit(party) {
            assert_eq!(displaced, None);
            assert!(permit.record(ClientStage::Settled));
            permits.push(permit);
        }
        permits
    }

    fn admit(limiter: &Arc<ClientLimiter>, party: Party) -> ClientPermit {
        limiter.admit(party).expect("a permit").permit
    }

    #[test]
    fn clients_are_assigned_in_turn_to_threads_with_room() {
        for clients_max in [usize::MAX, 15] {
            let limiter = ClientLimiter::new(3, clients_max);
            let permits: Vec<_> = (0..6).map(|user| admit(&limiter, Party::User(user))).collect();
            assert_eq!(permits.iter().map(ClientPermit::thread).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
            drop(permits);
            // Two threads are full.
            let full: Vec<_> = (0..2 * limiter.per_thread_max)
                .map(|at| limiter.adopt((GREEDY, ClientStage::Settled), 2 * (at % 2)).expect("a permit"))
                .collect();
            assert!((0..3).all(|_| admit(&limiter, MODEST).thread() == 1));
            drop(full);
        }
    }

    #[test]
    fn a_party_with_all_clients_that_it_may_have_leaves_some_to_four_others() {
        let reserved = CLIENTS_OF_RESERVE_MAX;
        let all = [CLIENTS_PER_THREAD_MAX - CLIENTS_RESERVE, reserved, reserved, reserved, reserved];
        // There are fewer where the process has few descriptors.
        for (threads, clients_max, expected) in [
            (1, usize::MAX, all),
            (4, usize::MAX, all.map(|count| 4 * count)),
            (1, 25, [19, 1, 1, 1, 1]),
            (5, 25, [19, 1, 1, 1, 1]),
            (1, 1, [1, 0, 0, 0, 0]),
        ] {
            let limiter = ClientLimiter::new(threads, clients_max);
            let permits = [0, 1, 2, 3, 4].map(|user| fill(&limiter, Party::User(user)));
            assert_eq!(permits.map(|own| own.len()), expected);
            let clients = limiter.lock();
            assert!(clients.entries.is_empty() && clients.of_parties.is_empty());
            assert!(clients.of_threads.iter().all(|count| *count == 0));
        }
    }

    #[test]
    fn a_party_is_refused_by_its_share_of_the_server_and_not_of_the_thread_that_is_next() {
        let limiter = ClientLimiter::new(2, usize::MAX);
        let share = CLIENTS_PER_THREAD_MAX - CLIENTS_RESERVE;
        // Clients of two parties come in turn, and so to one thread each.
        let mut greedy = Vec::new();
        let mut modest = Vec::new();
        for _ in 0..share {
            greedy.push(admit(&limiter, GREEDY));
            modest.push(admit(&limiter, MODEST));
        }
        assert!(greedy.iter().all(|permit| permit.record(ClientStage::Settled) && permit.thread() == 0));
        assert!(modest.iter().all(|permit| permit.record(ClientStage::Settled) && permit.thread() == 1));
        modest.truncate(share / 2);
        greedy.extend(fill(&limiter, GREEDY));
        assert_eq!(greedy.len() + modest.len(), 2 * share, "all but the reserve");
        assert!(limiter.admit(GREEDY).is_none() && limiter.admit(MODEST).is_none());
        let third = fill(&limiter, THIRD);
        assert_eq!(third.len(), 2 * CLIENTS_OF_RESERVE_MAX);
        // One that ends leaves its place to its party, wherever it was.
        greedy.pop();
        assert!(limiter.admit(GREEDY).is_none(), "the third one has places of the reserve");
        drop(third);
        assert_eq!(fill(&limiter, GREEDY).len(), 1);
    }

    #[test]
    fn a_client_without_a_disk_makes_room_on_whichever_thread_it_is() {
        let limiter = ClientLimiter::new(2, 8);
        let own = |stage: ClientStage| {
            let permit = admit(&limiter, GREEDY);
            assert!(permit.record(stage));
            permit
        };
        let first = own(ClientStage::Settled);
        let secure = own(ClientStage::Secure);
        let others = [own(ClientStage::Settled), own(ClientStage::Handshake), own(ClientStage::Handshake)];
        let last = own(ClientStage::Settled);
        let modest = admit(&limiter, MODEST);
        // The party has its share; its own one makes room, the one that came first, and one that has authenticated last.
        let mut newer = Vec::new();
        for leaving in [&others[1], &others[2], &secure] {
            let Admitted { permit, displaced } = limiter.admit(GREEDY).expect("a permit");
            assert_eq!((displaced, permit.thread()), (Some(leaving.number()), leaving.thread()));
            assert!(!leaving.record(ClientStage::Settled), "it selects a disk too late");
            assert!(permit.record(ClientStage::Settled));
            newer.push(permit);
        }
        assert!(limiter.admit(GREEDY).is_none());
        drop((first, secure, others, last, newer));
        assert_eq!(limiter.lock().entries.len(), 1);
        drop(modest);
    }

    #[test]
    fn a_party_keeps_more_than_its_share_over_an_upgrade_and_gets_no_further_client() {
        let limiter = ClientLimiter::new(2, 16);
        let adopt =
            |at: usize| limiter.adopt((GREEDY, ClientStage::Settled), at % 2).expect("a permit").permit;
        let mut greedy: Vec<_> = (0..14).map(adopt).collect();
        assert!(limiter.admit(GREEDY).is_none());
        let modest = fill(&limiter, MODEST);
        assert_eq!(modest.len(), 1, "a place of the reserve");
        greedy.truncate(11);
        assert!(limiter.admit(GREEDY).is_none(), "one that it has lost goes to others");
        assert_eq!(fill(&limiter, THIRD).len(), 1);
        greedy.truncate(10);
        assert_eq!(fill(&limiter, GREEDY).len(), 1);
    }

    #[test]
    fn clients_that_are_handed_over_may_be_more_than_are_accepted_and_those_with_disks_have_precedence() {
        let limiter = ClientLimiter::new(1, 4);
        let adopt = |stage: ClientStage| limiter.adopt((GREEDY, stage), 0);
        let idle = adopt(ClientStage::Handshake).expect("a permit");
        let all: Vec<_> =
            (0..CLIENTS_PER_THREAD_MAX).map(|_| adopt(ClientStage::Settled).expect("a permit")).collect();
        let last = all.last().expect("one");
        assert_eq!(last.displaced, Some(idle.permit.number()));
        assert!(adopt(ClientStage::Settled).is_none());
        assert!(limiter.admit(MODEST).is_none() && limiter.admit_last(MODEST, 0).is_none());
    }
}
