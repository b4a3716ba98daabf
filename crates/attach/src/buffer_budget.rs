//! Buffers that all clients of a thread hold, and each party of them. The more they hold, the less each may have beyond its first
//! request, so that there is room for one that comes later: clients that ask for much and read nothing wait themselves. Clients
//! are those of NBD, and virtqueues of vhost-user front ends.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;

use engine::ring::Buffer;
use rustix::net::getpeername;
use rustix::net::sockopt::socket_peercred;
use slab::Slab;

use crate::limits::{
    BUFFER_BYTES_MAX, PIECE_BYTES, THREAD_BUFFER_BYTES_MIN, VRINGS_BUFFER_BYTES_MAX,
    VRINGS_THREAD_BUFFER_BYTES_MIN,
};

/// Origin of clients: a user of this machine, an IPv4 address, or the /64 network of an IPv6 address, of which a machine has as
/// many addresses as it likes. All loopback addresses are one. Of virtqueues it is their front end, by its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Clients of a simulation are users.
#[cfg_attr(feature = "simulation", allow(dead_code))]
pub(crate) enum Party {
    User(u32),
    Network(IpAddr),
    FrontEnd(usize),
    Unknown,
}

#[cfg_attr(feature = "simulation", allow(dead_code))]
impl Party {
    /// Party of the client at the other end.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let address = getpeername(&socket).ok().flatten();
        match address.map(std::net::SocketAddr::try_from) {
            Some(Ok(address)) => Self::at(address.ip()),
            _ => socket_peercred(&socket).map_or(Self::Unknown, |peer| Self::User(peer.uid.as_raw())),
        }
    }

    fn at(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
            address => address,
        })
    }
}

/// Clients of one party.
#[derive(Debug)]
struct PartyShare {
    party: Party,
    clients: usize,
    held_bytes: usize,
}

/// Buffers of a thread.
#[derive(Debug)]
pub(crate) struct BufferBudget {
    bytes_max: usize,
    held_bytes: usize,
    parties: Slab<PartyShare>,
    /// A client waits for room.
    is_short: bool,
    /// Room was made since clients that wait were served.
    has_freed: bool,
}

impl BufferBudget {
    /// Budget of one of these threads.
    pub(crate) fn of_thread(threads: u16) -> Self {
        Self::share(BUFFER_BYTES_MAX, threads, THREAD_BUFFER_BYTES_MIN)
    }

    /// The same of one of these threads that serve virtqueues.
    pub(crate) fn of_vrings_thread(threads: u16) -> Self {
        Self::share(VRINGS_BUFFER_BYTES_MAX, threads, VRINGS_THREAD_BUFFER_BYTES_MIN)
    }

    fn share(all_bytes: usize, threads: u16, least: usize) -> Self {
        let bytes_max = (all_bytes / usize::from(threads.max(1))).max(least);
        Self { bytes_max, held_bytes: 0, parties: Slab::new(), is_short: false, has_freed: false }
    }

    /// Counts a client, and returns the key of its party.
    pub(crate) fn join(&mut self, party: Party) -> usize {
        let known = self.parties.iter_mut().find(|(_, share)| share.party == party);
        if let Some((key, share)) = known {
            share.clients += 1;
            return key;
        }
        self.parties.insert(PartyShare { party, clients: 1, held_bytes: 0 })
    }

    /// Forgets a client, and the bytes that it held.
    pub(crate) fn part(&mut self, party: usize, held_bytes: usize) {
        self.free(party, held_bytes);
        let Some(share) = self.parties.get_mut(party) else { return };
        share.clients -= 1;
        if share.clients == 0 {
            self.parties.remove(party);
        }
    }

    /// True if a client of this party, which holds `client_bytes`, may have `bytes` more. Otherwise it waits for room.
    pub(crate) fn has_room(&mut self, party: usize, client_bytes: usize, bytes: usize) -> bool {
        let party_bytes = self.parties.get(party).map_or(0, |share| share.held_bytes);
        let has_room = match client_bytes {
            // Each client gets on, however slowly. A read that needs all of its buffers at once may need many.
            0 if bytes <= Buffer::capacity_for(PIECE_BYTES as usize) => true,
            0 => party_bytes + bytes <= self.bytes_max / 2 && self.held_bytes + bytes <= self.bytes_max,
            // Half of all is for further requests. No party has more of it than is left for others, and no client more than is
            // left to its party.
            _ => {
                let left = (self.bytes_max / 2).saturating_sub(self.held_bytes);
                let party_left = (self.bytes_max / 4).saturating_sub(party_bytes);
                party_bytes + bytes <= left && client_bytes + bytes <= party_left
            }
        };
        self.is_short |= !has_room;
        has_room
    }

    /// Counts bytes that a client of this party takes.
    pub(crate) fn take(&mut self, party: usize, bytes: usize) {
        self.held_bytes += bytes;
        if let Some(share) = self.parties.get_mut(party) {
            share.held_bytes += bytes;
        }
    }

    /// The same of bytes that it gives back.
    pub(crate) fn free(&mut self, party: usize, bytes: usize) {
        self.held_bytes -= bytes;
        self.has_freed |= bytes > 0;
        if let Some(share) = self.parties.get_mut(party) {
            share.held_bytes -= bytes;
        }
    }

    /// True if clients that wait may find room.
    pub(crate) const fn has_news(&self) -> bool {
        self.is_short && self.has_freed
    }

    /// The same, once.
    pub(crate) const fn take_news(&mut self) -> bool {
        let has_news = self.has_news();
        if has_news {
            self.is_short = false;
        }
        self.has_freed = false;
        has_news
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::limits::{
        CLIENT_BUFFER_BYTES_MAX, CLIENTS_PER_THREAD_MAX, FRONT_ENDS_MAX, VRING_BUFFER_BYTES_MAX, VRINGS_MAX,
    };

    const PIECE: usize = PIECE_BYTES as usize;

    /// Takes all pieces that a client may have, and returns their bytes.
    fn fill(budget: &mut BufferBudget, party: usize) -> usize {
        let mut held = 0;
        while held < CLIENT_BUFFER_BYTES_MAX && budget.has_room(party, held, PIECE) {
            budget.take(party, PIECE);
            held += PIECE;
        }
        held
    }

    #[test]
    fn a_client_alone_may_have_all_that_a_client_may() {
        let mut budget = BufferBudget::of_thread(1);
        let party = budget.join(Party::User(1));
        assert_eq!(fill(&mut budget, party), CLIENT_BUFFER_BYTES_MAX);
        let mut budget = BufferBudget::of_thread(128);
        let party = budget.join(Party::User(1));
        assert!(budget.has_room(party, 0, 2 * nbd::limits::PAYLOAD_BYTES_MAX as usize));
    }

    #[test]
    fn clients_that_hold_all_they_may_leave_room_to_others() {
        let mut budget = BufferBudget::of_thread(1);
        let greedy = budget.join(Party::User(1));
        let held: usize = (1..CLIENTS_PER_THREAD_MAX).map(|_| fill(&mut budget, greedy)).sum();
        assert!(held <= BUFFER_BYTES_MAX / 2, "{held}");
        // One of the same party gets on, and one of another has much.
        assert!(fill(&mut budget, greedy) >= PIECE);
        let other = budget.join(Party::User(2));
        assert!(fill(&mut budget, other) >= CLIENT_BUFFER_BYTES_MAX / 2);
    }

    #[test]
    fn parties_that_hold_all_they_may_leave_room_to_the_next_one() {
        let mut budget = BufferBudget::of_thread(1);
        for user in 0..20 {
            let party = budget.join(Party::User(user));
            for _ in 0..8 {
                fill(&mut budget, party);
            }
        }
        let last = budget.join(Party::User(99));
        assert!(budget.has_room(last, 0, nbd::limits::PAYLOAD_BYTES_MAX as usize), "{}", budget.held_bytes);
        assert!(fill(&mut budget, last) >= PIECE);
    }

    #[test]
    fn first_requests_of_one_party_are_limited_too() {
        let mut budget = BufferBudget::of_thread(1);
        let (greedy, other) = (budget.join(Party::User(1)), budget.join(Party::User(2)));
        let bytes = nbd::limits::PAYLOAD_BYTES_MAX as usize;
        let mut clients = 0;
        while budget.has_room(greedy, 0, bytes) {
            budget.take(greedy, bytes);
            clients += 1;
        }
        assert_eq!(clients, BUFFER_BYTES_MAX / 2 / bytes);
        assert!(budget.has_room(other, 0, bytes) && budget.has_room(greedy, 0, PIECE));
    }

    #[test]
    fn front_ends_that_hold_all_they_may_leave_room_to_the_next_one() {
        for threads in [1, 4, 128] {
            let mut budget = BufferBudget::of_vrings_thread(threads);
            for front_end in 1..FRONT_ENDS_MAX {
                let party = budget.join(Party::FrontEnd(front_end));
                for _ in 0..VRINGS_MAX {
                    fill(&mut budget, party);
                }
            }
            // All but a piece that each virtqueue has alone.
            let alone = (FRONT_ENDS_MAX - 1) * VRINGS_MAX * PIECE;
            assert!(budget.held_bytes <= budget.bytes_max / 2 + alone, "{}", budget.held_bytes);
            let last = budget.join(Party::FrontEnd(0));
            assert!(fill(&mut budget, last) >= PIECE);
        }
    }

    #[test]
    fn a_virtqueue_alone_may_have_all_that_a_virtqueue_may() {
        for threads in [1, 128] {
            let mut budget = BufferBudget::of_vrings_thread(threads);
            let party = budget.join(Party::FrontEnd(0));
            assert!(fill(&mut budget, party) >= VRING_BUFFER_BYTES_MAX);
        }
    }

    #[test]
    fn room_that_is_made_is_news_for_those_that_wait() {
        let mut budget = BufferBudget::of_thread(1);
        let party = budget.join(Party::User(1));
        budget.take(party, BUFFER_BYTES_MAX / 2);
        budget.free(party, PIECE);
        assert!(!budget.take_news(), "no client waits");
        assert!(!budget.has_room(party, PIECE, PIECE) && !budget.has_news());
        budget.free(party, PIECE);
        assert!(budget.take_news() && !budget.take_news());
        // What a client held is free when it goes, and its party is forgotten.
        budget.part(party, BUFFER_BYTES_MAX / 2 - 2 * PIECE);
        assert!(budget.held_bytes == 0 && budget.parties.is_empty());
    }

    #[test]
    fn parties_are_users_and_networks() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(Party::of(&one), Party::User(rustix::process::getuid().as_raw()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(Party::of(&client), Party::Network([127, 0, 0, 1].into()));
        let at = |address: &str| Party::at(address.parse().unwrap());
        assert_eq!(at("fd00::1"), at("fd00::ffff:0:0:1"));
        assert_ne!(at("fd00::1"), at("fd00:0:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert!(["127.1.2.3", "::ffff:127.0.0.9", "::1"].into_iter().all(|own| at(own) == at("127.0.0.1")));
    }
}
