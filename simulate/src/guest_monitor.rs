//! The monitor of a guest with the disk: it describes the guest's memory and virtqueues to the process that serves them, over a
//! connection that it makes again when it is lost, as QEMU does. What was in flight then stays so in memory that it keeps.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::time::Duration;

use attach_crate::{BackEndReply, FrontEnd, FrontEndMessage, HandedInflight, HandedRegion};
use engine::ring::Moment;
use engine::simulation::{self, EventDescriptor, Random, sleep};

use crate::disk_node::DiskNode;
use crate::guest::{BUFFERS_AT, Guest};
use crate::scene::Scene;

/// The name of its process.
pub(crate) const PROCESS: &str = "guest";
/// Longest time between two looks whether the users are done.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time before the next attempt to connect.
const AGAIN_US_MAX: u64 = 20_000;
/// Address of the guest's memory in the monitor.
const MEMORY_AT: u64 = 0x7f00_0000_0000;
/// Longest time between two stops of a guest that is stopped now and then, in microseconds.
const STOP_US_MAX: u64 = 900_000;
/// The longest of these.
const STOPPED_US_MAX: u64 = 30_000;
/// Features: version 1, tables of requests' own, entries that are to be notified of, flushes, discards and writes of zeroes, and
/// that features of the protocol are negotiated.
const VERSION_1: u64 = 1 << 32;
const INDIRECT: u64 = 1 << 28;
const EVENT_INDEX: u64 = 1 << 29;
const DISK: u64 = 1 << 9 | 1 << 13 | 1 << 14;
const PROTOCOL: u64 = 1 << 30;
/// Features of the protocol: several virtqueues, configuration, and an in-flight region.
const OF_PROTOCOL: u64 = 1 << 0 | 1 << 9 | 1 << 12;
/// Of the in-flight region's layout: bytes of the header and of each state, in which the first says whether a request is in flight,
/// and alignment of virtqueues.
const REGION_HEADER_BYTES: u64 = 16;
const STATE_BYTES: u64 = 16;

/// The life of the monitor and its guest.
pub(crate) fn live(scene: &Rc<Scene>) {
    match Guest::start(scene) {
        Ok(guest) => {
            let scene = scene.clone();
            simulation::start_thread("monitor", move || watch(&scene, &guest));
        }
        Err(error) => simulation::fail(format!("a guest does not start: {error}")),
    }
}

fn watch(scene: &Scene, guest: &Guest) {
    let Some(node) = &scene.disk else { return };
    let mut random = simulation::fork_random();
    let bases = guest.rings.iter().map(|_| Cell::new(guest.form.first)).collect();
    let tracks = !scene.plan.keeps_clients() || random.chance(600);
    let (stops, disables) = (random.chance(400), random.chance(500));
    let mut monitor = Monitor { scene, node, guest, tracks, inflight: None, bases, random, stops, disables };
    while !node.users_are_done() {
        let connected = node.socket.connect();
        match connected {
            Ok(front_end) => {
                let outcome = monitor.serve(&front_end);
                if node.users_are_done() {
                    return;
                }
                monitor.has_lost(outcome);
            }
            Err(error) => simulation::say(|| format!("the monitor does not connect: {error}")),
        }
        sleep(Duration::from_micros(monitor.random.between(1, AGAIN_US_MAX)));
    }
}

/// Why a monitor has no connection.
enum Ended {
    /// The disk cannot do enough.
    Unfit(u64),
    /// The connection is lost, or not needed any longer.
    Lost(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

struct Monitor<'a> {
    scene: &'a Scene,
    node: &'a DiskNode,
    guest: &'a Guest,
    /// Set if processes keep record of requests in flight, without which a guest survives none of them.
    tracks: bool,
    /// Memory for that.
    inflight: Option<(HandedInflight, File)>,
    /// Next entries of the available rings, for the process that serves next.
    bases: Vec<Cell<u16>>,
    random: Random,
    /// Set if the guest is stopped now and then.
    stops: bool,
    /// Set if its virtqueues are disabled first, as QEMU has done since version 8.
    disables: bool,
}

impl Monitor<'_> {
    /// The connection is no more. What was in flight is not known: virtqueues begin with their used rings.
    fn has_lost(&self, outcome: Result<(), Ended>) {
        match outcome {
            Err(Ended::Unfit(features)) => {
                return simulation::say(|| format!("the disk cannot do enough: {features:#x}"));
            }
            Err(Ended::Lost(error)) => {
                simulation::say(|| format!("the monitor has lost its connection: {error}"));
            }
            Ok(()) => {}
        }
        if self.scene.plan.keeps_clients() {
            return simulation::fail("a guest's monitor lost its connection");
        }
        for (base, ring) in self.bases.iter().zip(&self.guest.rings) {
            base.set(ring.used(&self.guest.memory));
        }
        self.node.count("vhost-user connections lost", 1);
    }

    /// Has a process serve the guest until the users are done or the connection is lost.
    fn serve(&mut self, front_end: &FrontEnd) -> Result<(), Ended> {
        front_end.send(FrontEndMessage::GetFeatures)?;
        let offered = self.number(front_end)?;
        let features = self.features();
        if offered & features != features {
            return Err(Ended::Unfit(offered));
        }
        front_end.send(FrontEndMessage::SetProtocolFeatures(OF_PROTOCOL))?;
        self.check_size(front_end)?;
        if self.tracks && self.inflight.is_none() {
            let entries = self.guest.rings[0].entries();
            front_end.send(FrontEndMessage::GetInflight(self.guest.rings.len() as u16, entries))?;
            self.inflight = match self.reply(front_end)? {
                BackEndReply::Inflight(description, file) => Some((description, file)),
                other => return Err(wrong(&other)),
            };
        }
        self.count_inflight();
        self.begin(front_end)?;
        loop {
            let until = self.next_stop();
            while simulation::now() < until {
                if self.node.users_are_done() {
                    return Ok(());
                }
                if front_end.receive()?.is_some() {
                    simulation::fail("a process replies to no message");
                }
                let rest = until.since(simulation::now()).min(LOOK_INTERVAL);
                EventDescriptor::wait_for_any(&[front_end.came()], Some(rest));
            }
            self.stop(front_end)?;
            self.begin(front_end)?;
        }
    }

    fn features(&self) -> u64 {
        let form = self.guest.form;
        let indirect = if form.is_indirect { INDIRECT } else { 0 };
        let event_index = if form.has_event_index { EVENT_INDEX } else { 0 };
        VERSION_1 | DISK | PROTOCOL | indirect | event_index
    }

    /// Moment of the next stop of the guest.
    fn next_stop(&mut self) -> Moment {
        match self.stops {
            true => simulation::now().after(Duration::from_micros(self.random.between(1, STOP_US_MAX))),
            false => Moment(u64::MAX),
        }
    }

    fn check_size(&self, front_end: &FrontEnd) -> Result<(), Ended> {
        front_end.send(FrontEndMessage::GetConfig(0, 8))?;
        let bytes = match self.reply(front_end)? {
            BackEndReply::Config(bytes) => bytes,
            other => return Err(wrong(&other)),
        };
        let sectors = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let blocks = self.scene.history.borrow().block_count();
        if sectors * 512 != blocks * self.scene.plan.block_size as u64 {
            simulation::fail(format!("the disk of a guest has {sectors} sectors"));
        }
        Ok(())
    }

    /// Describes memory and virtqueues, and has them served.
    fn begin(&self, front_end: &FrontEnd) -> Result<(), Ended> {
        if let Some((description, file)) = &self.inflight {
            front_end.send(FrontEndMessage::SetInflight(*description, file.try_clone()?))?;
        }
        front_end.send(FrontEndMessage::SetFeatures(self.features()))?;
        let (tables, buffers) = (self.guest.table_bytes, self.guest.buffer_bytes);
        let regions = vec![
            HandedRegion { guest: 0, front_end: MEMORY_AT, size: tables, offset: 0 },
            HandedRegion { guest: BUFFERS_AT, front_end: MEMORY_AT + tables, size: buffers, offset: tables },
        ];
        let file = &self.guest.memory.0;
        let files = vec![file.try_clone()?, file.try_clone()?];
        front_end.send(FrontEndMessage::SetMemoryTable(regions, files))?;
        for (number, ring) in self.guest.rings.iter().enumerate() {
            let index = number as u32;
            let tables = ring.tables().map(|place| MEMORY_AT + place);
            front_end.send(FrontEndMessage::SetVringEntries(index, ring.entries().into()))?;
            front_end.send(FrontEndMessage::SetVringBase(index, self.bases[number].get().into()))?;
            front_end.send(FrontEndMessage::SetVringAddresses(index, tables))?;
            front_end.send(FrontEndMessage::SetVringKick(index, self.guest.kicks[number].clone()))?;
            front_end.send(FrontEndMessage::SetVringCall(index, self.guest.calls[number].clone()))?;
        }
        for index in 0..self.guest.rings.len() {
            front_end.send(FrontEndMessage::SetVringEnabled(index as u32, true))?;
        }
        Ok(())
    }

    /// Stops all virtqueues, as for a guest that is paused: nothing is given back until they begin again.
    fn stop(&mut self, front_end: &FrontEnd) -> Result<(), Ended> {
        if self.disables {
            for index in 0..self.guest.rings.len() {
                front_end.send(FrontEndMessage::SetVringEnabled(index as u32, false))?;
            }
        }
        for (number, ring) in self.guest.rings.iter().enumerate() {
            front_end.send(FrontEndMessage::GetVringBase(number as u32))?;
            let base = self.number(front_end)? as u16;
            let used = ring.used(&self.guest.memory);
            if base != used {
                simulation::fail(format!("virtqueue {number} stops at {base}, and its used ring at {used}"));
            }
            self.bases[number].set(base);
        }
        self.node.count("guests stopped", 1);
        sleep(Duration::from_micros(self.random.between(1, STOPPED_US_MAX)));
        for (number, ring) in self.guest.rings.iter().enumerate() {
            let (base, used) = (self.bases[number].get(), ring.used(&self.guest.memory));
            if base != used {
                simulation::fail(format!("virtqueue {number} was stopped at {base}, and is now at {used}"));
            }
        }
        Ok(())
    }

    /// Waits for a reply.
    fn reply(&self, front_end: &FrontEnd) -> Result<BackEndReply, Ended> {
        loop {
            if let Some(reply) = front_end.receive()? {
                return Ok(reply);
            }
            if self.node.users_are_done() {
                return Err(Ended::Lost(io::Error::other("it is not needed")));
            }
            EventDescriptor::wait_for_any(&[front_end.came()], Some(LOOK_INTERVAL));
        }
    }

    fn number(&self, front_end: &FrontEnd) -> Result<u64, Ended> {
        match self.reply(front_end)? {
            BackEndReply::Number(number) => Ok(number),
            other => Err(wrong(&other)),
        }
    }

    /// Counts requests that are in flight for a process that is about to serve.
    fn count_inflight(&self) {
        let Some((description, file)) = &self.inflight else { return };
        let vring_bytes = description.size / u64::from(description.vrings);
        let mut count = 0;
        for (number, ring) in self.guest.rings.iter().enumerate() {
            let base = number as u64 * vring_bytes + REGION_HEADER_BYTES;
            for head in 0..u64::from(ring.entries()) {
                let mut state = [0];
                if file.read_exact_at(&mut state, base + head * STATE_BYTES).is_ok() {
                    count += usize::from(state[0]);
                }
            }
        }
        self.node.count("guests' requests in flight at a connection", count);
    }
}

fn wrong(reply: &BackEndReply) -> Ended {
    simulation::fail(format!("a process replies {reply:?}"));
    Ended::Lost(io::Error::other("it is another reply"))
}
