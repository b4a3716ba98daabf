//! The network: connections between machines over links that are slow, cut in one direction or both, or gone. Bytes of a
//! connection arrive in order or not at all, in pieces; nothing else is promised. Sockets are what programs see of it.

mod holders;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;

use self::holders::{Holders, release};
use super::link::{Damage, Link};
use super::scheduler::{MachineId, ProcessId, What, World};
use crate::ring::{Moment, Readiness};

/// Numbers of listeners begin here; below are ends of connections.
const LISTENERS_AT: RawFd = 1 << 24;
/// Bytes of the answer to the first PDU of a connection (ICResp).
const INITIALIZE_LENGTH: u64 = 128;
/// Time after which a lost connection request is sent again, at first.
const SYN_AGAIN_NS: u64 = 1_000_000_000;

/// Arrival over the network, at its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arrival {
    /// The first segment that an end has sent.
    Segment { connection: usize, from: usize },
    /// A request for a connection.
    Request { connection: usize, again_ns: u64 },
    /// Answer to such a request.
    Answer { connection: usize, accepted: bool, again_ns: u64 },
    /// An end hears that there is room again.
    Room { connection: usize, end: usize },
}

#[derive(Debug)]
enum Segment {
    Data(Vec<u8>),
    End,
    Reset,
}

/// End of a connection.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Processes that have it open, once for each time; `None` for those that wait to be accepted,
    /// or go from one process to another.
    holders: Holders,
    /// Set when its machine has stopped: it no longer knows of the connection, and its peer was not
    /// notified.
    is_forgotten: bool,
    watchers: Vec<(usize, u32)>,
    received: VecDeque<u8>,
    has_end: bool,
    error: Option<i32>,
    /// Rings that wait for room.
    wait_for_room: Vec<usize>,
    resets_when_closed: bool,
    has_shut_down: bool,
    /// Segments sent and not arrived, each with the earliest moment of its arrival.
    under_way: VecDeque<(Moment, Segment)>,
    bytes_under_way: usize,
    last_arrival: Moment,
    /// A segment or word of room stands before a cut link.
    pub(super) is_held: bool,
    pub(super) room_is_held: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: [End; 2],
    pub(super) client: MachineId,
    server: Option<MachineId>,
    pub(super) address: SocketAddr,
    client_address: SocketAddr,
    pub(super) is_made: bool,
    /// Bytes that each end has sent.
    sent: [u64; 2],
    capacity: usize,
    segment_length: usize,
    is_emptied_by_short_read: bool,
}

#[derive(Debug)]
struct Listener {
    address: SocketAddr,
    holders: Holders,
    watchers: Vec<(usize, u32)>,
    waiting: VecDeque<usize>,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) connections: Vec<Connection>,
    listeners: Vec<Listener>,
    pub(super) links: BTreeMap<(MachineId, IpAddr), Link>,
    pub(super) damage: Option<Damage>,
    pub(super) owners: BTreeMap<IpAddr, MachineId>,
}

/// An end of a connection by its number.
const fn end_of(descriptor: RawFd) -> (usize, usize) {
    (descriptor as usize / 2, descriptor as usize % 2)
}

const fn descriptor_of(connection: usize, end: usize) -> RawFd {
    (connection * 2 + end) as RawFd
}

impl World {
    /// Stops a machine: its ends of connections are forgotten, and no peer is notified.
    pub(super) fn forget_connections(&mut self, machine: MachineId) {
        for number in 0..self.network.connections.len() {
            for end in 0..2 {
                let connection = &mut self.network.connections[number];
                let of = if end == 0 { Some(connection.client) } else { connection.server };
                if of == Some(machine) {
                    let forgotten = &mut connection.ends[end];
                    *forgotten = End { is_forgotten: true, ..End::default() };
                }
            }
        }
        let processes = self.processes_on(machine);
        for listener in &mut self.network.listeners {
            if listener.holders.iter().flatten().any(|holder| processes.contains(holder)) {
                listener.holders.clear();
                listener.waiting.clear();
            }
        }
    }

    pub(super) fn listen(&mut self, address: SocketAddr) -> Result<RawFd, i32> {
        let Some(owner) = self.running() else { return Err(libc::ESRCH) };
        if self.network.owners.get(&address.ip()) != Some(&self.machine_of(owner)) {
            return Err(libc::EADDRNOTAVAIL);
        }
        if self.listener_at(address).is_some() {
            return Err(libc::EADDRINUSE);
        }
        let (holders, waiting) = (vec![Some(owner)], VecDeque::new());
        let listener = Listener { address, holders, watchers: Vec::new(), waiting };
        self.network.listeners.push(listener);
        Ok(LISTENERS_AT + (self.network.listeners.len() - 1) as RawFd)
    }

    fn listener_at(&self, address: SocketAddr) -> Option<usize> {
        self.network
            .listeners
            .iter()
            .position(|listener| !listener.holders.is_empty() && listener.address == address)
    }

    /// A process closes what it has of a listener.
    pub(super) fn close_listener(&mut self, descriptor: RawFd, holder: Option<ProcessId>) {
        let number = (descriptor - LISTENERS_AT) as usize;
        let gone = release(&mut self.network.listeners[number].holders, holder);
        let Some(is_last) = gone else { return };
        self.forget_watchers(descriptor, holder);
        if !is_last {
            return;
        }
        for connection in std::mem::take(&mut self.network.listeners[number].waiting) {
            self.network.connections[connection].ends[1].resets_when_closed = true;
            self.close_end(descriptor_of(connection, 1), None);
        }
    }

    pub(super) fn accept(&mut self, descriptor: RawFd) -> Option<(RawFd, SocketAddr)> {
        let number = (descriptor - LISTENERS_AT) as usize;
        let connection = self.network.listeners[number].waiting.pop_front()?;
        let owner = self.running();
        self.network.connections[connection].ends[1].holders = vec![owner];
        Some((descriptor_of(connection, 1), self.network.connections[connection].client_address))
    }

    pub(super) fn connect(&mut self, address: SocketAddr) -> Result<RawFd, i32> {
        let Some(owner) = self.running() else { return Err(libc::ESRCH) };
        let client = self.machine_of(owner);
        let number = self.network.connections.len();
        let port = 32_768 + (number % 28_000) as u16;
        let client_address =
            SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 99, (client.0 >> 8) as u8, client.0 as u8)), port);
        let mut ends = [End::default(), End::default()];
        ends[0].holders = vec![Some(owner)];
        let streams = self.link(client, address.ip()).streams;
        let capacity = *self.random.pick(&[4096, 16_384, 65_536, 262_144]);
        let segment_length = *self.random.pick(&[536, 1460, 8960, 65_536]);
        self.network.connections.push(Connection {
            ends,
            client,
            server: None,
            address,
            client_address,
            is_made: false,
            sent: [0; 2],
            capacity: streams.map_or(capacity, |streams| streams.capacity),
            segment_length: streams.map_or(segment_length, |streams| streams.segment_length),
            is_emptied_by_short_read: self.random.chance(700),
        });
        let latency = self.latency(number);
        self.after(latency, What::Network(Arrival::Request { connection: number, again_ns: SYN_AGAIN_NS }));
        self.trace.say(self.now, || format!("connection {number} to {address} is begun"));
        Ok(descriptor_of(number, 0))
    }

    /// True if the connection has been made; an error is the reason why it cannot be.
    pub(super) fn is_made(&self, descriptor: RawFd) -> Result<bool, i32> {
        let (number, end) = end_of(descriptor);
        let connection = &self.network.connections[number];
        match connection.ends[end].error {
            Some(error) => Err(error),
            None => Ok(connection.is_made),
        }
    }

    pub(super) fn is_emptied_by_short_read(&self, descriptor: RawFd) -> bool {
        self.network.connections[end_of(descriptor).0].is_emptied_by_short_read
    }

    pub(super) fn server_address(&self, descriptor: RawFd) -> SocketAddr {
        self.network.connections[end_of(descriptor).0].address
    }

    pub(super) fn watch(&mut self, descriptor: RawFd, watcher: (usize, u32)) {
        let (_, watchers) = self.network.opened(descriptor);
        watchers.retain(|(ring, _)| *ring != watcher.0);
        watchers.push(watcher);
        if descriptor >= LISTENERS_AT {
            if !self.network.listeners[(descriptor - LISTENERS_AT) as usize].waiting.is_empty() {
                self.ready_on(watcher, Readiness::READABLE);
            }
            return;
        }
        let (number, end) = end_of(descriptor);
        let of = &self.network.connections[number].ends[end];
        let ended = of.has_end || of.error.is_some();
        if ended || !of.received.is_empty() {
            self.ready_on(watcher, Readiness { readable: true, writable: false, ended });
        }
    }

    pub(super) fn unwatch(&mut self, descriptor: RawFd, ring: usize) {
        self.network.opened(descriptor).1.retain(|(watching, _)| *watching != ring);
    }

    pub(super) fn await_writable(&mut self, descriptor: RawFd, ring: usize) {
        let (number, end) = end_of(descriptor);
        let connection = &mut self.network.connections[number];
        let waiting = &mut connection.ends[end].wait_for_room;
        if !waiting.contains(&ring) {
            waiting.push(ring);
        }
        let is_due = connection.ends[end].error.is_some()
            || ((connection.is_made || end == 1) && self.room(number, end) > 0);
        if is_due {
            self.tell_writable(number, end);
        }
    }

    fn tell_writable(&mut self, number: usize, end: usize) {
        let of = &mut self.network.connections[number].ends[end];
        let (waiting, ended) = (std::mem::take(&mut of.wait_for_room), of.error.is_some());
        for watcher in of.watchers.clone().into_iter().filter(|(ring, _)| waiting.contains(ring)) {
            self.ready_on(watcher, Readiness { readable: ended, writable: true, ended });
        }
    }

    fn tell_readable(&mut self, number: usize, end: usize) {
        let of = &self.network.connections[number].ends[end];
        let ended = of.has_end || of.error.is_some();
        for watcher in of.watchers.clone() {
            self.ready_on(watcher, Readiness { readable: true, writable: false, ended });
        }
    }

    fn room(&self, number: usize, end: usize) -> usize {
        let connection = &self.network.connections[number];
        let used = connection.ends[end].bytes_under_way + connection.ends[1 - end].received.len();
        connection.capacity.saturating_sub(used)
    }

    /// Takes bytes to be sent, as many as there is room for.
    pub(super) fn send<'a>(
        &mut self,
        descriptor: RawFd,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, i32> {
        let (number, end) = end_of(descriptor);
        if let Some(error) = self.network.connections[number].ends[end].error {
            return Err(if error == libc::ECONNRESET { libc::EPIPE } else { error });
        }
        let mut room = self.room(number, end);
        if room == 0 {
            return Err(libc::EAGAIN);
        }
        let length = self.network.connections[number].segment_length;
        let mut sent = 0;
        let mut segment = Vec::new();
        for part in parts {
            let mut part = &part[..part.len().min(room)];
            room -= part.len();
            sent += part.len();
            while !part.is_empty() {
                let taken = part.len().min(length - segment.len());
                segment.extend_from_slice(&part[..taken]);
                part = &part[taken..];
                if segment.len() == length {
                    self.dispatch(number, end, Segment::Data(std::mem::take(&mut segment)));
                }
            }
            if room == 0 {
                break;
            }
        }
        if !segment.is_empty() {
            self.dispatch(number, end, Segment::Data(segment));
        }
        self.network.connections[number].sent[end] += sent as u64;
        Ok(sent)
    }

    /// Sends a segment on its way.
    fn dispatch(&mut self, number: usize, from: usize, mut segment: Segment) {
        if let Segment::Data(data) = &mut segment {
            self.damage(number, from, data);
        }
        let length = if let Segment::Data(data) = &segment { data.len() as u64 } else { 60 };
        let latency = self.latency(number) * self.trips(number, length);
        let connection = &mut self.network.connections[number];
        let key = (connection.client, connection.address.ip());
        let link = self.network.links.entry(key).or_default();
        let begins = link.busy_until[from].max(self.now);
        let leaves = begins.0 + length * 1_000_000_000 / link.bytes_per_second;
        link.busy_until[from] = Moment(leaves);
        let of = &mut connection.ends[from];
        let arrives = Moment((leaves + latency).max(of.last_arrival.0));
        of.last_arrival = arrives;
        if let Segment::Data(data) = &segment {
            of.bytes_under_way += data.len();
        }
        let is_first = of.under_way.is_empty();
        of.under_way.push_back((arrives, segment));
        if is_first && !of.is_held {
            self.at(arrives, What::Network(Arrival::Segment { connection: number, from }));
        }
    }

    /// Receives into `into`, in order.
    pub(super) fn receive<'a>(
        &mut self,
        descriptor: RawFd,
        into: impl Iterator<Item = &'a mut [u8]>,
    ) -> Result<usize, i32> {
        let (number, end) = end_of(descriptor);
        // A stream over several paths may give less than it has, and tells nothing of the rest.
        let is_sparing =
            !self.network.connections[number].is_emptied_by_short_read && self.random.chance(300);
        let share = if is_sparing { self.random.between(1, 4096) as usize } else { usize::MAX };
        let of = &mut self.network.connections[number].ends[end];
        if of.received.is_empty() {
            return match of.error {
                Some(error) => Err(error),
                None if of.has_end => Ok(0),
                None => Err(libc::EAGAIN),
            };
        }
        let mut moved = 0;
        for room in into {
            let taken = room.len().min(of.received.len()).min(share - moved);
            let (front, back) = of.received.as_slices();
            let from_front = taken.min(front.len());
            room[..from_front].copy_from_slice(&front[..from_front]);
            room[from_front..taken].copy_from_slice(&back[..taken - from_front]);
            of.received.drain(..taken);
            moved += taken;
            if of.received.is_empty() || moved == share {
                break;
            }
        }
        let latency = self.latency(number);
        self.after(latency, What::Network(Arrival::Room { connection: number, end: 1 - end }));
        Ok(moved)
    }

    /// Bytes that have come and were not received.
    pub(super) fn available(&self, descriptor: RawFd) -> usize {
        let (number, end) = end_of(descriptor);
        self.network.connections[number].ends[end].received.len()
    }

    pub(super) fn reset_when_closed(&mut self, descriptor: RawFd) {
        let (number, end) = end_of(descriptor);
        self.network.connections[number].ends[end].resets_when_closed = true;
    }

    pub(super) fn shut_down_sending(&mut self, descriptor: RawFd) {
        let (number, end) = end_of(descriptor);
        let connection = &mut self.network.connections[number];
        let is_made = connection.is_made || end == 1;
        let of = &mut connection.ends[end];
        if is_made && of.error.is_none() && !std::mem::replace(&mut of.has_shut_down, true) {
            self.dispatch(number, end, Segment::End);
        }
    }

    /// Closes an end for a process; with `None`, one that went from one process to another.
    pub(super) fn close_end(&mut self, descriptor: RawFd, holder: Option<ProcessId>) {
        let (number, end) = end_of(descriptor);
        let gone = release(&mut self.network.connections[number].ends[end].holders, holder);
        let Some(is_last) = gone else { return };
        self.forget_watchers(descriptor, holder);
        if !is_last {
            return;
        }
        let connection = &mut self.network.connections[number];
        let is_made = connection.is_made || end == 1;
        let of = &mut connection.ends[end];
        if !is_made || of.is_forgotten || of.error.is_some() {
            of.under_way.clear();
            of.received = VecDeque::new();
            return;
        }
        let resets = of.resets_when_closed || !of.received.is_empty();
        of.received = VecDeque::new();
        if resets {
            of.under_way.clear();
            of.bytes_under_way = 0;
            of.last_arrival = self.now;
            of.is_held = false;
            // What is on its way finds nothing there; the reset does not wait for it.
            self.dispatch(number, end, Segment::Reset);
        } else {
            self.shut_down_sending(descriptor);
        }
    }

    /// An end learns that the connection was reset.
    pub(super) fn break_end(&mut self, number: usize, end: usize) {
        let of = &mut self.network.connections[number].ends[end];
        of.under_way.clear();
        of.bytes_under_way = 0;
        if of.holders.is_empty() || of.error.is_some() {
            return;
        }
        of.error = Some(libc::ECONNRESET);
        self.tell_readable(number, end);
        self.tell_writable(number, end);
    }

    /// Handles an arrival over the network.
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Segment { connection, from } => self.arrive_segment(connection, from),
            Arrival::Request { connection, again_ns } => self.arrive_request(connection, again_ns),
            Arrival::Answer { connection, accepted, again_ns } => {
                self.arrive_answer(connection, accepted, again_ns);
            }
            Arrival::Room { connection, end } => {
                // The word of it comes from the other end.
                if self.is_cut(connection, 1 - end) {
                    self.network.connections[connection].ends[end].room_is_held = true;
                } else if self.room(connection, end) > 0 {
                    self.tell_writable(connection, end);
                }
            }
        }
    }

    fn arrive_segment(&mut self, number: usize, from: usize) {
        let Some(&(due, _)) = self.network.connections[number].ends[from].under_way.front() else { return };
        if due > self.now {
            self.at(due, What::Network(Arrival::Segment { connection: number, from }));
            return;
        }
        if self.is_cut(number, from) {
            let end = &mut self.network.connections[number].ends[from];
            if matches!(end.under_way.front(), Some((_, Segment::Reset))) {
                // A reset is not retransmitted.
                end.under_way.clear();
            } else {
                end.is_held = true;
            }
            return;
        }
        let of = &mut self.network.connections[number].ends[from];
        let Some((_, segment)) = of.under_way.pop_front() else { return };
        if let Segment::Data(data) = &segment {
            of.bytes_under_way -= data.len();
        }
        if let Some(&(next, _)) = of.under_way.front() {
            self.at(next.max(self.now), What::Network(Arrival::Segment { connection: number, from }));
        }
        let connection = &self.network.connections[number];
        let to = 1 - from;
        let machine = if to == 0 { Some(connection.client) } else { connection.server };
        if machine.is_none_or(|machine| !self.is_up(machine)) {
            return;
        }
        let end = &mut self.network.connections[number].ends[to];
        if end.holders.is_empty() {
            // The end has no process: a peer that sends more gets a reset.
            if matches!(segment, Segment::Data(_)) {
                end.under_way.clear();
                end.last_arrival = self.now;
                self.dispatch(number, to, Segment::Reset);
            }
            return;
        }
        match segment {
            Segment::Data(_) if end.error.is_some() || end.has_end => {}
            Segment::Data(data) => {
                end.received.extend(data);
                self.tell_readable(number, to);
            }
            Segment::End => {
                end.has_end = true;
                self.tell_readable(number, to);
            }
            Segment::Reset => self.break_end(number, to),
        }
    }

    fn arrive_request(&mut self, number: usize, again_ns: u64) {
        let connection = &self.network.connections[number];
        if connection.ends[0].holders.is_empty() {
            return;
        }
        let address = connection.address;
        let machine = self.network.owners.get(&address.ip()).copied();
        let reaches = machine.is_some_and(|machine| self.is_up(machine)) && !self.is_cut(number, 0);
        if !reaches {
            let again = Arrival::Request { connection: number, again_ns: again_ns * 2 };
            return self.after(again_ns, What::Network(again));
        }
        let listener = self.listener_at(address);
        if let Some(listener) = listener {
            let connection = &mut self.network.connections[number];
            connection.server = machine;
            connection.ends[1] = End { holders: vec![None], ..End::default() };
            self.network.listeners[listener].waiting.push_back(number);
            for watcher in self.network.listeners[listener].watchers.clone() {
                self.ready_on(watcher, Readiness::READABLE);
            }
        }
        let latency = self.latency(number);
        let answer =
            Arrival::Answer { connection: number, accepted: listener.is_some(), again_ns: SYN_AGAIN_NS };
        self.after(latency, What::Network(answer));
    }

    fn arrive_answer(&mut self, number: usize, accepted: bool, again_ns: u64) {
        if self.is_cut(number, 1) {
            let again = Arrival::Answer { connection: number, accepted, again_ns: again_ns * 2 };
            return self.after(again_ns, What::Network(again));
        }
        let client = &mut self.network.connections[number].ends[0];
        if client.holders.is_empty() || client.is_forgotten {
            if accepted {
                // It has given up meanwhile.
                client.last_arrival = self.now;
                self.dispatch(number, 0, Segment::Reset);
            }
            return;
        }
        if accepted {
            self.network.connections[number].is_made = true;
        } else {
            client.error = Some(libc::ECONNREFUSED);
        }
        self.tell_writable(number, 0);
    }

    /// States of the connections that a process has made, by what has gone over them.
    pub(super) fn states(&self, process: ProcessId) -> Vec<&'static str> {
        let made_by = |connection: &&Connection| connection.ends[0].holders.contains(&Some(process));
        let state = |connection: &Connection| match connection {
            Connection { ends: [end, _], .. } if end.error.is_some() || end.has_end => "connection ending",
            Connection { is_made: false, .. } => "connecting",
            Connection { sent: [_, 0], .. } => "initializing",
            Connection { sent: [_, ..=INITIALIZE_LENGTH], .. } => "joining",
            _ => "live",
        };
        self.network.connections.iter().filter(made_by).map(state).collect()
    }

    /// Number of connections that a process has open.
    pub(super) fn open_ends(&self, process: ProcessId) -> usize {
        let ends = self.network.connections.iter().flat_map(|connection| &connection.ends);
        ends.filter(|end| end.holders.contains(&Some(process))).count()
    }
}
