//! A guest with the disk: a driver for each virtqueue, which puts the users' requests there and takes them back. It knows nothing
//! of the processes that serve it, nor of the connection to them, and waits for notifications alone. It lives as long as the scene.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use attach_crate::guest_file;
use engine::ring::{Event, Ring, RingOptions};
use engine::simulation::{self, EventDescriptor, Random, sleep};
use nvme::Status;

use crate::block_layer::{Change, Request, Work};
use crate::disk_node::DiskNode;
use crate::scene::Scene;
use crate::virtio_ring::{GuestMemory, QUEUE_BYTES, RingForm, Segment, VirtioRing};
use crate::{attach, block};

/// Longest time between two looks whether the users are done.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Guest address of the requests' buffers: behind a hole, as memory above 4 GiB is.
pub(crate) const BUFFERS_AT: u64 = 1 << 32;
/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;
/// Bytes of a request's header and ranges, whose status is behind them, and of all of its buffers.
const HEADER_BYTES: u64 = 16;
const RANGE_BYTES: u64 = 16;
const AT_STATUS: u64 = 64;
const AT_DATA: u64 = 4096;
const SLOT_BYTES: u64 = AT_DATA + (64 << 10);
/// Types of requests.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
/// The blocks may be deallocated.
const UNMAP: u32 = 1;
/// Status of a request that is not answered, and of one that is done.
const OPEN: u8 = 0xff;
const OK: u8 = 0;
/// Most pieces of the data of a request with a table of its own.
const PIECES_MAX: u64 = 4;
/// Of a thousand requests, those that are announced after a pause of at most this time, in microseconds.
const PAUSES: u64 = 30;
const PAUSE_US_MAX: u64 = 20_000;

/// Guest with its memory and virtqueues, which its monitor knows too.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) memory: GuestMemory,
    pub(crate) form: RingForm,
    pub(crate) rings: Vec<VirtioRing>,
    pub(crate) kicks: Vec<EventDescriptor>,
    pub(crate) calls: Vec<EventDescriptor>,
    /// Bytes of the tables, and of the buffers behind them in the file.
    pub(crate) table_bytes: u64,
    pub(crate) buffer_bytes: u64,
}

impl Guest {
    /// A guest that has just started, with its driver.
    pub(crate) fn start(scene: &Rc<Scene>) -> std::io::Result<Rc<Self>> {
        let (queues, depth) = scene.disk.as_ref().map_or((0, 0), |node| (node.plan.queues, node.plan.depth));
        let table_bytes = u64::from(queues) * QUEUE_BYTES;
        let buffer_bytes = u64::from(queues) * depth as u64 * SLOT_BYTES;
        let memory = GuestMemory(guest_file(table_bytes + buffer_bytes)?);
        let form = RingForm::any(depth, &mut simulation::fork_random());
        let ring = |queue: u16| VirtioRing::new(form, u64::from(queue) * QUEUE_BYTES, &memory);
        let events = || (0..queues).map(|_| EventDescriptor::new()).collect::<std::io::Result<Vec<_>>>();
        let rings = (0..queues).map(ring).collect();
        let (kicks, calls) = (events()?, events()?);
        let guest = Rc::new(Self { memory, form, rings, kicks, calls, table_bytes, buffer_bytes });
        for queue in 0..queues {
            let (scene, guest) = (scene.clone(), guest.clone());
            simulation::start_thread(&format!("driver{queue}"), move || drive(&scene, &guest, queue));
        }
        Ok(guest)
    }
}

fn drive(scene: &Scene, guest: &Guest, queue: u16) {
    let Some(node) = &scene.disk else { return };
    let Ok(mut ring) = Ring::new(RingOptions::default()) else { return };
    node.layer.borrow_mut().set_waker(queue, ring.waker());
    if ring.watch(&guest.calls[usize::from(queue)], 0).is_err() {
        return;
    }
    let free = (0..guest.rings[usize::from(queue)].entries()).collect();
    let random = simulation::fork_random();
    let mut driver = Driver { scene, node, guest, queue, free, pending: BTreeMap::new(), random };
    let mut events = Vec::new();
    while !node.users_are_done() {
        driver.publish();
        events.clear();
        if ring.wait(Some(LOOK_INTERVAL), &mut events).is_err() {
            return;
        }
        // Nothing is looked for without a notification.
        if events.iter().any(|event| matches!(event, Event::Ready { .. })) {
            driver.take_used();
        }
    }
}

/// Request that is made available, and its descriptors.
struct Pending {
    tag: usize,
    heads: Vec<u16>,
    /// Bytes of data of a read.
    read_bytes: u64,
}

struct Driver<'a> {
    scene: &'a Scene,
    node: &'a DiskNode,
    guest: &'a Guest,
    queue: u16,
    /// Descriptors of no request.
    free: Vec<u16>,
    /// Requests by their first descriptors.
    pending: BTreeMap<u32, Pending>,
    random: Random,
}

impl Driver<'_> {
    fn ring(&self) -> &VirtioRing {
        &self.guest.rings[usize::from(self.queue)]
    }

    /// Place of a request's buffers, behind the beginning of all of them.
    const fn slot(&self, tag: usize) -> u64 {
        (self.queue as u64 * self.node.plan.depth as u64 + tag as u64) * SLOT_BYTES
    }

    fn write(&self, place: u64, bytes: &[u8]) {
        self.guest.memory.write(self.guest.table_bytes + place, bytes);
    }

    /// Makes all requests of the users available, and announces them if the device wants to know.
    fn publish(&mut self) {
        let (mut has_more, mut pauses) = (false, false);
        loop {
            let taken = self.node.layer.borrow_mut().take_by(self.queue, 1);
            let Some((tag, request)) = taken else { break };
            self.begin(tag, &request);
            has_more = true;
            pauses |= self.random.chance(PAUSES);
        }
        if pauses {
            sleep(Duration::from_micros(self.random.between(1, PAUSE_US_MAX)));
        }
        if self.ring().is_to_announce(&self.guest.memory) {
            self.guest.kicks[usize::from(self.queue)].signal();
        } else if has_more {
            self.node.count("guests' requests that need no announcement", 1);
        }
    }

    fn begin(&mut self, tag: usize, request: &Request) {
        let block_size = self.scene.plan.block_size as u64;
        let (slot, bytes) = (self.slot(tag), request.count * block_size);
        let (mut kind, mut flags, mut given, mut wanted) = (READ, 0, 0, 0);
        match request.work {
            Work::Read { .. } => wanted = bytes,
            Work::Flush { .. } => kind = FLUSH,
            Work::Write { how, name, .. } => match how {
                Change::Write => {
                    (kind, given) = (WRITE, bytes);
                    let mut data = vec![0; bytes as usize];
                    block::fill(&mut data, block_size as usize, request.start, name);
                    self.write(slot + AT_DATA, &data);
                }
                Change::Discard => kind = DISCARD,
                Change::Zeroes { deallocate } => {
                    (kind, flags) = (WRITE_ZEROES, if deallocate { UNMAP } else { 0 });
                }
            },
        }
        let sector = request.start * block_size / SECTOR_BYTES;
        let is_range = matches!(kind, DISCARD | WRITE_ZEROES);
        let header_sector = if matches!(kind, READ | WRITE) { sector } else { 0 };
        let mut header = [kind, 0].map(u32::to_le_bytes).concat();
        header.extend(header_sector.to_le_bytes());
        if is_range {
            header.extend(sector.to_le_bytes());
            header.extend([(bytes / SECTOR_BYTES) as u32, flags].map(u32::to_le_bytes).concat());
        }
        self.write(slot, &header);
        self.write(slot + AT_STATUS, &[OPEN]);
        let mut segments = vec![self.segment(slot, HEADER_BYTES, false)];
        if is_range {
            segments.push(self.segment(slot + HEADER_BYTES, RANGE_BYTES, false));
        }
        self.add_data(&mut segments, slot + AT_DATA, given.max(wanted), wanted > 0);
        segments.push(self.segment(slot + AT_STATUS, 1, true));
        let heads: Vec<u16> = (0..self.ring().descriptors_of(segments.len()))
            .map(|_| self.free.swap_remove(self.random.below(self.free.len() as u64) as usize))
            .collect();
        simulation::say(|| format!("queue {} has {heads:?} for {tag}: {request:?}", self.queue));
        self.ring().publish(&self.guest.memory, &heads, &segments);
        let replaced = self.pending.insert(heads[0].into(), Pending { tag, heads, read_bytes: wanted });
        assert!(replaced.is_none(), "a free descriptor is of no request");
    }

    const fn segment(&self, place: u64, length: u64, is_writable: bool) -> Segment {
        Segment { address: BUFFERS_AT + place, length: length as u32, is_writable }
    }

    /// Adds the buffers of data, in one piece or, where a request has a table of its own, in several.
    fn add_data(&mut self, segments: &mut Vec<Segment>, place: u64, bytes: u64, is_writable: bool) {
        let pieces = if self.guest.form.is_indirect { self.random.between(1, PIECES_MAX) } else { 1 };
        let mut done = 0;
        for left in (0..pieces).rev() {
            let length = if left == 0 { bytes - done } else { self.random.below(bytes - done + 1) };
            if length > 0 {
                segments.push(self.segment(place + done, length, is_writable));
            }
            done += length;
        }
    }

    /// Takes all that the device has given back.
    fn take_used(&mut self) {
        loop {
            let unseen = self.ring().unseen(&self.guest.memory);
            if unseen == 0 {
                return;
            }
            if usize::from(unseen) > self.pending.len() {
                return simulation::fail(format!(
                    "virtqueue {} gives {unseen} requests back, and has {}",
                    self.queue,
                    self.pending.len()
                ));
            }
            for _ in 0..unseen {
                self.take_one();
            }
            self.ring().ask_for_notification(&self.guest.memory);
        }
    }

    fn take_one(&mut self) {
        let (head, length) = self.ring().take_used(&self.guest.memory);
        let Some(Pending { tag, heads, read_bytes }) = self.pending.remove(&head) else {
            return simulation::fail(format!(
                "virtqueue {} gives request {head} back, which it does not have, or has given back before",
                self.queue
            ));
        };
        let place = self.guest.table_bytes + self.slot(tag);
        let mut status = [0];
        self.guest.memory.read(place + AT_STATUS, &mut status);
        let [status] = status;
        simulation::say(|| format!("queue {} gets {head} for {tag}: {status}, {length} bytes", self.queue));
        simulation::note(u64::from(head) << 32 | u64::from(self.queue) << 16 | u64::from(status));
        let expected = if status == OK { read_bytes + 1 } else { 1 };
        if status == OPEN || u64::from(length) != expected {
            return simulation::fail(format!("request {head} has status {status} and {length} filled bytes"));
        }
        let mut data = vec![0; read_bytes as usize];
        self.guest.memory.read(place + AT_DATA, &mut data);
        // A process that still works on it finds no request there.
        self.write(self.slot(tag), &[0xee; (HEADER_BYTES + RANGE_BYTES) as usize]);
        self.free.extend(heads);
        let status = if status == OK { Status::SUCCESS } else { Status::INTERNAL_ERROR };
        let answered = self.node.layer.borrow_mut().answered(self.queue, tag);
        let Some(request) = answered else { return };
        attach::ended(self.scene, self.node, request, (status, Some(&data[..])));
    }
}
