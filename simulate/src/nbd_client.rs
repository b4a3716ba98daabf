//! NBD clients of the disk: one for each of its queues, whose requests they send over a connection as they are. One that loses
//! its connection makes another and sends again what has no reply, as the kernel's does. No reply may come twice, and none that
//! was not asked for. They live as long as the scene.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use engine::ring::{Event, Moment, Ring, RingOptions, Socket, Span, SpanMut, tcp};
use engine::simulation::{self, Random, sleep};
use engine::transport::ConnectionOptions;
use nvme::Status;

use crate::block_layer::{Change, Request, Work};
use crate::disk_node::DiskNode;
use crate::nbd_wire::{self, Form, Reply};
use crate::scene::Scene;
use crate::{attach, block};

/// The name of their process.
pub(crate) const PROCESS: &str = "nbd-clients";
/// Name of the disk.
pub(crate) const DISK: &str = "1";
/// Longest time between two looks whether the users are done.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time before the next attempt to connect.
const AGAIN_US_MAX: u64 = 20_000;
/// Of a thousand requests, those that are sent in part, with a pause of at most this time, in microseconds.
const PAUSES: u64 = 30;
const PAUSE_US_MAX: u64 = 400_000;
/// The same of replies that are left unread. Some are so for longer than a hand-over takes.
const UNREAD: u64 = 10;
const UNREAD_US_MAX: u64 = 2_500_000;

/// Address at which the disk's processes listen.
pub(crate) const fn address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 200, 1)), 10_809)
}

/// Why a client has lost its connection.
type Lost = String;

/// The life of all of them.
pub(crate) fn live(scene: &Rc<Scene>) {
    let Some(node) = &scene.disk else { return };
    for queue in 0..node.plan.queues {
        let scene = scene.clone();
        simulation::start_thread(&format!("client{queue}"), move || use_disk(&scene, queue));
    }
}

fn use_disk(scene: &Scene, queue: u16) {
    let Some(node) = &scene.disk else { return };
    let mut random = simulation::fork_random();
    let mut connections = 0;
    while !node.users_are_done() {
        let Ok(ring) = Ring::new(RingOptions::default()) else { return };
        match Client::connect(scene, node, queue, ring, &mut random) {
            Ok(mut client) => {
                connections += 1;
                node.layer.borrow_mut().set_waker(queue, client.ring.waker());
                let Err(reason) = client.serve(connections) else { return };
                simulation::say(|| format!("client {queue} has lost its connection: {reason}"));
                if scene.plan.keeps_clients() {
                    return simulation::fail(format!("client {queue} lost its connection: {reason}"));
                }
                let again = node.layer.borrow_mut().abandon_connection(queue, &mut random);
                node.count("requests sent again by NBD clients", again);
                node.count("NBD connections lost", 1);
            }
            Err(reason) => simulation::say(|| format!("client {queue} does not connect: {reason}")),
        }
        sleep(Duration::from_micros(random.between(1, AGAIN_US_MAX)));
    }
}

/// Request without a reply.
struct Pending {
    tag: usize,
    start: u64,
    /// Data that has come, of a read.
    data: Vec<u8>,
    /// Bytes of it.
    filled: usize,
}

struct Client<'a> {
    scene: &'a Scene,
    node: &'a DiskNode,
    queue: u16,
    form: Form,
    socket: Socket,
    ring: Ring,
    events: Vec<Event>,
    random: Random,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that may leave before the moment.
    pause: Option<(usize, Moment)>,
    /// Nothing is received before that.
    unread_until: Moment,
    is_readable: bool,
    is_writable: bool,
    pending: BTreeMap<u64, Pending>,
    last_cookie: u64,
}

impl<'a> Client<'a> {
    /// Connects, and chooses the disk.
    fn connect(
        scene: &'a Scene,
        node: &'a DiskNode,
        queue: u16,
        mut ring: Ring,
        random: &mut Random,
    ) -> Result<Self, Lost> {
        let text = |error: std::io::Error| error.to_string();
        let pending = tcp::connect_start(address(), &ConnectionOptions::default()).map_err(text)?;
        ring.watch(&pending, 0).map_err(text)?;
        ring.await_writable(&pending, 0).map_err(text)?;
        let mut events = Vec::new();
        while !pending.is_made().map_err(text)? {
            if node.users_are_done() {
                return Err("it is not needed".to_owned());
            }
            events.clear();
            ring.wait(Some(LOOK_INTERVAL), &mut events).map_err(text)?;
        }
        let mut client = Self {
            scene,
            node,
            queue,
            form: *random.pick(&Form::ALL),
            socket: pending.into_socket().map_err(text)?,
            ring,
            events,
            random: simulation::fork_random(),
            input: Vec::new(),
            output: Vec::new(),
            pause: None,
            unread_until: Moment(0),
            is_readable: true,
            is_writable: true,
            pending: BTreeMap::new(),
            last_cookie: 0,
        };
        client.negotiate()?;
        Ok(client)
    }

    fn negotiate(&mut self) -> Result<(), Lost> {
        if self.bytes(nbd_wire::GREETING.len())? != nbd_wire::GREETING {
            simulation::fail("a server does not greet an NBD client");
        }
        self.output.extend(nbd_wire::CLIENT_FLAGS);
        let mut flags = 0;
        for (option, data) in nbd_wire::options(self.form, DISK) {
            self.output.extend(nbd_wire::option(option, &data));
            loop {
                let head = self.bytes(nbd_wire::OPTION_REPLY_BYTES)?;
                let (kind, length) = nbd_wire::option_reply(&head);
                let data = self.bytes(length)?;
                match kind {
                    nbd_wire::ACK => break,
                    _ if nbd_wire::is_refusal(kind) => {
                        return Err(format!("option {option} is refused: {kind:#x}"));
                    }
                    _ => flags = nbd_wire::transmission_flags(&data).unwrap_or(flags),
                }
            }
        }
        // A process without a path does not know what its disk can do.
        if nbd_wire::can_all(flags) { Ok(()) } else { Err(format!("its disk cannot do enough: {flags:#x}")) }
    }

    /// The next bytes of this number, as soon as they have come.
    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Lost> {
        while self.input.len() < count {
            self.exchange()?;
        }
        Ok(self.input.drain(..count).collect())
    }

    /// Sends the users' requests until they are done.
    fn serve(&mut self, connection: u64) -> Result<(), Lost> {
        let served = self.serve_users(connection);
        // The server ends when they are done.
        if self.node.users_are_done() { Ok(()) } else { served }
    }

    fn serve_users(&mut self, connection: u64) -> Result<(), Lost> {
        while !self.node.users_are_done() {
            loop {
                let taken = self.node.layer.borrow_mut().take_by(self.queue, connection);
                let Some((tag, request)) = taken else { break };
                self.send(tag, &request);
            }
            self.exchange()?;
            while let Some(reply) = self.reply() {
                self.take(reply);
            }
        }
        self.output.extend(nbd_wire::request(self.form, nbd_wire::DISCONNECT, 0, 0, (0, 0)));
        while !self.output.is_empty() {
            self.exchange()?;
        }
        Ok(())
    }

    fn send(&mut self, tag: usize, request: &Request) {
        let block_size = self.scene.plan.block_size;
        let (offset, length) = (request.start * block_size as u64, request.count * block_size as u64);
        self.last_cookie += 1;
        let cookie = self.last_cookie;
        simulation::say(|| format!("client {} sends {cookie}: {request:?}", self.queue));
        let (mut kind, mut flags, mut extent) = (nbd_wire::READ, 0, (offset, length));
        match request.work {
            Work::Read { .. } => flags = nbd_wire::whole(self.form, self.random.chance(300)),
            Work::Flush { .. } => (kind, extent) = (nbd_wire::FLUSH, (0, 0)),
            Work::Write { durable, how, .. } => {
                flags = nbd_wire::durable(durable);
                kind = match how {
                    Change::Write => nbd_wire::WRITE,
                    Change::Discard => nbd_wire::TRIM,
                    Change::Zeroes { deallocate } => {
                        flags |= nbd_wire::no_hole(!deallocate);
                        nbd_wire::WRITE_ZEROES
                    }
                };
            }
        }
        self.output.extend(nbd_wire::request(self.form, kind, flags, cookie, extent));
        if let Work::Write { name, how: Change::Write, .. } = request.work {
            let mut data = vec![0; length as usize];
            block::fill(&mut data, block_size, request.start, name);
            self.output.extend(data);
        }
        let data = if kind == nbd_wire::READ { vec![0; length as usize] } else { Vec::new() };
        let replaced = self.pending.insert(cookie, Pending { tag, start: offset, data, filled: 0 });
        assert!(replaced.is_none(), "each request has a cookie of its own");
        if self.pause.is_none() && self.random.chance(PAUSES) {
            let at = self.random.below(self.output.len() as u64) as usize;
            let time = Duration::from_micros(self.random.between(1, PAUSE_US_MAX));
            self.pause = Some((at, self.ring.now().after(time)));
        }
        if self.random.chance(UNREAD) {
            let time = Duration::from_micros(self.random.between(1, UNREAD_US_MAX));
            self.unread_until = self.ring.now().after(time);
        }
    }

    /// The next part of a reply that has come.
    fn reply(&mut self) -> Option<Reply> {
        let read_of = |cookie: u64| {
            self.pending.get(&cookie).map_or((0, 0), |pending| (pending.start, pending.data.len()))
        };
        let (length, reply) = match nbd_wire::reply(&self.input, self.form, read_of) {
            Ok(parsed) => parsed?,
            Err(reason) => {
                simulation::fail(format!("client {}: {reason}", self.queue));
                return None;
            }
        };
        self.input.drain(..length);
        Some(reply)
    }

    fn take(&mut self, reply: Reply) {
        let Reply { cookie, is_last, error, data } = reply;
        let Some(pending) = self.pending.get_mut(&cookie) else {
            return simulation::fail(format!(
                "client {} has a reply to {cookie}, which it has not asked for, or has been answered",
                self.queue
            ));
        };
        if let Some((offset, data)) = data {
            let at = offset.wrapping_sub(pending.start) as usize;
            let place = at.checked_add(data.len()).and_then(|end| pending.data.get_mut(at..end));
            let Some(place) = place else {
                return simulation::fail(format!("a reply has {} bytes at {offset}", data.len()));
            };
            place.copy_from_slice(&data);
            pending.filled += data.len();
        }
        if !is_last && error == 0 {
            return;
        }
        let Some(Pending { tag, data, filled, .. }) = self.pending.remove(&cookie) else { return };
        let status = if error == 0 { Status::SUCCESS } else { Status::INTERNAL_ERROR };
        simulation::say(|| format!("client {} has {cookie}: {error}", self.queue));
        simulation::note(cookie << 32 | u64::from(self.queue) << 16 | u64::from(error));
        let Some(request) = self.node.layer.borrow_mut().answered(self.queue, tag) else { return };
        let data = (filled == data.len()).then_some(&data[..]);
        attach::ended(self.scene, self.node, request, (status, data));
    }

    /// Sends and receives what goes, and waits for more.
    fn exchange(&mut self) -> Result<(), Lost> {
        let now = self.ring.now();
        let mut until = now.after(LOOK_INTERVAL);
        if let Some((_, moment)) = self.pause {
            until = until.min(moment);
        }
        if now < self.unread_until {
            until = until.min(self.unread_until);
        }
        let is_due = self.pause.is_some_and(|(_, moment)| now >= moment);
        if is_due {
            self.pause = None;
        }
        let has_sent = self.flush()?;
        let has_received = now >= self.unread_until && self.receive()?;
        let timeout = if has_received || has_sent { Duration::ZERO } else { until.since(now) };
        self.events.clear();
        self.ring.wait(Some(timeout), &mut self.events).map_err(|error| error.to_string())?;
        for event in &self.events {
            if let Event::Ready { readiness, .. } = event {
                self.is_readable |= readiness.readable || readiness.ended;
                self.is_writable |= readiness.writable;
            }
        }
        Ok(())
    }

    /// Sends as much as there is room for. True if there was something.
    fn flush(&mut self) -> Result<bool, Lost> {
        let most = self.pause.map_or(self.output.len(), |(at, _)| at.min(self.output.len()));
        if most == 0 || !self.is_writable {
            return Ok(false);
        }
        match self.socket.send(&[Span::new(&self.output[..most])]) {
            Ok(sent) => {
                self.output.drain(..sent);
                if let Some((at, _)) = &mut self.pause {
                    *at -= sent;
                }
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.is_writable = false;
                self.ring.await_writable(&self.socket, 0).map_err(|error| error.to_string())?;
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Receives once. True if something came.
    fn receive(&mut self) -> Result<bool, Lost> {
        if !self.is_readable {
            return Ok(false);
        }
        let mut space = [0; 16_384];
        match self.socket.receive(&mut [SpanMut::new(&mut space)]) {
            Ok(0) => Err("the server has closed it".to_owned()),
            Ok(count) => {
                self.input.extend(&space[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
