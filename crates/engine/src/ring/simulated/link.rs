//! Links: the ways between machines and addresses, how slow they are, and whether they carry anything. What travels over
//! them is the network's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::network::Arrival;
use super::scheduler::{MachineId, What, World};
use crate::ring::Moment;

/// Direction over a link: to the address, or back to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the machine that connects to the address.
    There = 0,
    /// Back from it.
    Back = 1,
}

/// Properties of the connections that are made over a link. Without them each connection has its own, which are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// The most bytes that an end has sent and the other has not taken.
    pub capacity: usize,
    /// The most bytes of a segment.
    pub segment_length: usize,
    /// Bytes of a packet. A segment is one or several.
    pub packet_length: u64,
    /// Lost packets of a thousand. A segment with one arrives a round trip later, and so does all that follows on its
    /// connection. There is no congestion control.
    pub lost_per_mille: u64,
}

/// The way between a machine and an address.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) is_cut: [bool; 2],
    /// Shortest and longest time under way, in nanoseconds.
    pub(super) latency_ns: (u64, u64),
    pub(super) bytes_per_second: u64,
    pub(super) busy_until: [Moment; 2],
    pub(super) streams: Option<Streams>,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            is_cut: [false; 2],
            latency_ns: (20_000, 120_000),
            bytes_per_second: 1_000_000_000,
            busy_until: [Moment(0); 2],
            streams: None,
        }
    }
}

/// Offset of the damaged byte in what an end sends: behind any header, and before the end of a
/// block.
const DAMAGE_AT: usize = 400;

/// A byte that is to be damaged, of the next that a host sends or is sent on a connection.
#[derive(Debug)]
pub(super) struct Damage {
    client: MachineId,
    from: usize,
    /// Bytes that have passed by connection.
    passed: BTreeMap<usize, usize>,
}

impl Damage {
    pub(super) fn new(client: MachineId, direction: Direction) -> Self {
        let from = usize::from(direction == Direction::Back);
        Self { client, from, passed: BTreeMap::new() }
    }
}

impl World {
    /// Damages a byte of what an end sends, where that is wanted.
    pub(super) fn damage(&mut self, number: usize, from: usize, data: &mut [u8]) {
        let client = self.network.connections[number].client;
        let Some(damage) = &mut self.network.damage else { return };
        if (damage.client, damage.from) != (client, from) {
            return;
        }
        let passed = damage.passed.entry(number).or_default();
        if let Some(byte) = data.get_mut(DAMAGE_AT.saturating_sub(*passed)) {
            *byte ^= 0x10;
            self.network.damage = None;
        } else {
            *passed += data.len();
        }
    }

    /// Gives a machine an address.
    pub(super) fn own(&mut self, address: IpAddr, machine: MachineId) {
        self.network.owners.insert(address, machine);
    }

    pub(super) fn link(&mut self, host: MachineId, address: IpAddr) -> &mut Link {
        self.network.links.entry((host, address)).or_default()
    }

    /// Cuts or mends a link in one direction. What stands before it goes on when it is mended.
    pub(super) fn cut(&mut self, host: MachineId, address: IpAddr, direction: Direction, is_cut: bool) {
        self.link(host, address).is_cut[direction as usize] = is_cut;
        if is_cut {
            return;
        }
        for number in 0..self.network.connections.len() {
            let connection = &mut self.network.connections[number];
            if connection.client != host || connection.address.ip() != address {
                continue;
            }
            let end = direction as usize;
            // The sender retransmits sooner or later.
            let held = std::mem::take(&mut connection.ends[end].is_held);
            let room_held = std::mem::take(&mut connection.ends[1 - end].room_is_held);
            let wait = self.random.between(1_000_000, 300_000_000);
            if held {
                self.after(wait, What::Network(Arrival::Segment { connection: number, from: end }));
            }
            if room_held {
                self.after(wait, What::Network(Arrival::Room { connection: number, end: 1 - end }));
            }
        }
    }

    /// Resets the connections over a link, as a router in the way can.
    pub(super) fn reset_link(&mut self, host: MachineId, address: IpAddr) {
        for number in 0..self.network.connections.len() {
            let connection = &self.network.connections[number];
            if connection.client == host && connection.address.ip() == address && connection.is_made {
                self.break_end(number, 0);
                self.break_end(number, 1);
            }
        }
    }

    /// Latency of a connection's next segment, in nanoseconds.
    pub(super) fn latency(&mut self, number: usize) -> u64 {
        let connection = &self.network.connections[number];
        let key = (connection.client, connection.address.ip());
        let (least, most) = self.link(key.0, key.1).latency_ns;
        self.random.between(least, most)
    }

    /// Times that a segment of a connection travels the link one way: thrice if a packet is lost, since its sender learns that
    /// first.
    pub(super) fn trips(&mut self, number: usize, length: u64) -> u64 {
        let connection = &self.network.connections[number];
        let key = (connection.client, connection.address.ip());
        let Some(streams) = self.link(key.0, key.1).streams else { return 1 };
        let mut packets = 0..length.div_ceil(streams.packet_length.max(1));
        if packets.any(|_| self.random.chance(streams.lost_per_mille)) { 3 } else { 1 }
    }

    /// True if nothing that an end of a connection sends arrives.
    pub(super) fn is_cut(&self, number: usize, from: usize) -> bool {
        let connection = &self.network.connections[number];
        let link = self.network.links.get(&(connection.client, connection.address.ip()));
        link.is_some_and(|link| link.is_cut[from])
    }
}
