//! A process that serves a disk, as `attach` does: it takes the disk's requests from a block layer, one command of the volume for
//! each, and keeps record of its controllers for the next one. It may be killed at any moment.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::initiator::{
    CommandQueues, Completion, ConnectOptions, Data, Ended, HostIdentity, InitiatorError, PathOptions,
    PathQueues, Paths, Request,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Event, Moment, Ring, RingOptions};
use engine::simulation::{self, sleep};
use nvme::Status;
use nvme::io::{IoCommand, encode_ranges};

use crate::block;
use crate::block_layer::{self, Change, Work};
use crate::controller_files::ControllerStore;
use crate::disk_node::DiskNode;
use crate::disk_plan::DiskPlan;
use crate::fault::Fate;
use crate::history::WriteEnd;
use crate::scene::{Scene, address};
use crate::target::NQN;
use crate::{host, secrets};

/// The name of its processes.
pub(crate) const PROCESS: &str = "attach";
/// Number of the host it is.
const NUMBER: usize = 0x2ff;
/// Time after which the process is started again when it could not connect.
pub(crate) const AGAIN: Duration = Duration::from_millis(300);
/// Interval at which it checks if another process still has the disk.
const PLACE_INTERVAL: Duration = Duration::from_millis(2);
/// Interval at which a thread checks if it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that a controller of which nothing is known but its keep alive time-out may take to come to rest.
const UNKNOWN_QUIESCE: Duration = Duration::from_millis(u16::MAX as u64);

/// Host identity of the disk.
pub(crate) fn identity() -> HostIdentity {
    secrets::identity(NUMBER)
}

fn options(scene: &Scene, plan: &DiskPlan) -> PathOptions {
    let path = |target: usize, port: usize| ConnectOptions {
        host: identity(),
        secrets: secrets::of_host(&scene.plan),
        tls: secrets::tls_of_host(&scene.plan),
        digests: plan.digests,
        io_queues: plan.queues,
        queue_entries: plan.queue_entries,
        keep_alive_ms: plan.keep_alive_ms,
        ..ConnectOptions::new(address(target, port), NQN)
    };
    let ports = scene.plan.ports;
    let paths = (0..scene.plan.targets * ports).map(|at| path(at / ports, at % ports)).collect();
    PathOptions {
        policy: plan.policy,
        reconnect_delay: Duration::from_millis(plan.reconnect_ms),
        controller_loss: None,
        ..PathOptions::new(paths, 1)
    }
}

/// Runs one life of the process.
pub(crate) fn live(scene: &Rc<Scene>, life: u64) {
    let Some(node) = &scene.disk else { return };
    let began = simulation::now();
    let mut unreadable = node.folder.unreadable();
    let (paths, controller_store) = connect(scene, node, life);
    // One that was started early waits until the killed one is gone, and looks again whose place it has.
    while node.layer.borrow().has_server() {
        sleep(PLACE_INTERVAL);
    }
    let late = controller_store.left_controllers();
    node.count("left controllers found late", late.len());
    paths.quiesce_left(&late);
    node.layer.borrow_mut().serve(life);
    if node.folder.unreadable() > unreadable {
        unreadable = node.folder.unreadable() - unreadable;
        node.count("unreadable files found", unreadable as usize);
        let keep_alives = Duration::from_millis(u64::from(node.plan.keep_alive_ms)) * 3;
        node.held_until.set(began.after(keep_alives + UNKNOWN_QUIESCE));
    }
    for number in 1..node.plan.queues {
        let (scene, paths) = (scene.clone(), paths.clone());
        simulation::start_thread(&format!("queue{number}"), move || serve(&scene, life, number, &paths));
    }
    serve(scene, life, 0, &paths);
    while node.queues_done.get() < node.plan.queues {
        sleep(LOOK_INTERVAL);
    }
    end(scene, node, &paths, life);
}

/// Ends the last process in order, with all records.
pub(crate) fn end(scene: &Scene, node: &DiskNode, paths: &Paths, life: u64) {
    leave(node, paths, life);
    if node.folder.count() > 0 {
        // The controllers that it had lost itself may not have come to rest before it ended.
        leave(node, &connect(scene, node, life).0, life);
    }
    // A controller that cannot flush its storage is not shut down in order.
    if node.folder.count() > 0 && !scene.plan.lets_commands_fail() {
        simulation::fail(format!("{} files of controllers are left", node.folder.count()));
    }
    scene.visitors_left.set(scene.visitors_left.get() - 1);
}

/// Connects a process, as often as it takes.
pub(crate) fn connect(scene: &Scene, node: &DiskNode, life: u64) -> (Arc<Paths>, Arc<ControllerStore>) {
    loop {
        // A process that could not connect is another one from then on.
        match connect_once(scene, node, life) {
            Ok(connected) => return connected,
            Err(error) => simulation::say(|| format!("no disk: {error}")),
        }
        sleep(AGAIN);
    }
}

/// Connects a process, which keeps record of its controllers.
pub(crate) fn connect_once(
    scene: &Scene,
    node: &DiskNode,
    life: u64,
) -> Result<(Arc<Paths>, Arc<ControllerStore>), InitiatorError> {
    let controller_store = node.folder.controller_store(life, node.plan.keep_alive_ms, node.plan.has_resets);
    let left_controllers = controller_store.left_controllers();
    node.count("left controllers found", left_controllers.len());
    let options = PathOptions {
        left_controllers,
        record_store: Some(controller_store.clone()),
        ..options(scene, &node.plan)
    };
    Ok((Arc::new(Paths::connect(options)?), controller_store))
}

/// Ends in order, when all paths are there and nothing of killed processes is left.
fn leave(node: &DiskNode, paths: &Paths, life: u64) {
    host::wait_for_paths(NUMBER, paths);
    while paths.wait_for_left_controllers().is_some() {
        sleep(LOOK_INTERVAL);
    }
    paths.disconnect();
    node.folder.abandon(life, Fate::Stays);
}

/// Serves a queue until its users have gone.
fn serve(scene: &Rc<Scene>, life: u64, number: u16, paths: &Arc<Paths>) {
    let Some(node) = &scene.disk else { return };
    let Ok(mut ring) = Ring::new(RingOptions::default()) else { return };
    let queues = PathQueues::open(paths, &mut ring, 0, number, node.plan.queues, node.plan.depth);
    node.layer.borrow_mut().set_waker(number, ring.waker());
    let mut thread = Thread {
        scene,
        node,
        life,
        number,
        queues,
        ring,
        events: Vec::new(),
        scratch: vec![0; RECEIVE_LENGTH],
        held_since: None,
    };
    while !node.users_are_done() {
        if number == 0 {
            thread.look_at_hold(paths);
            check_records(node, life, paths);
        }
        thread.round();
    }
    thread.queues.close(&mut thread.ring);
    node.queues_done.set(node.queues_done.get() + 1);
}

struct Thread<'a> {
    scene: &'a Scene,
    node: &'a DiskNode,
    life: u64,
    number: u16,
    queues: PathQueues,
    ring: Ring,
    events: Vec<Event>,
    scratch: Vec<u8>,
    held_since: Option<Moment>,
}

impl Thread<'_> {
    /// Counts for how long writes are held.
    fn look_at_hold(&mut self, paths: &Paths) {
        let now = simulation::now();
        let is_held = paths.wait_for_left_controllers().is_some();
        self.node.holds.set(is_held);
        match self.held_since {
            None if is_held => self.held_since = Some(now),
            Some(since) if !is_held => {
                self.held_since = None;
                let what = match now.since(since).as_millis() {
                    ..100 => "writes held for less than 0.1 s",
                    100..1_000 => "writes held for less than 1 s",
                    1_000..10_000 => "writes held for less than 10 s",
                    _ => "writes held for longer",
                };
                self.node.count(what, 1);
            }
            _ => {}
        }
    }

    fn round(&mut self) {
        let now = self.ring.now();
        self.queues.turn(&mut self.ring, now);
        while let Some(ended) = self.queues.pop() {
            match ended {
                Ended::Answered(completion) => self.answer(completion),
                Ended::Lost(lost) => {
                    return simulation::fail(format!("the disk's paths are given up: {}", lost.error));
                }
            }
        }
        if let Some(error) = self.queues.error() {
            return simulation::fail(format!("the disk's paths are given up: {error}"));
        }
        while self.queues.free_slots() > 0 {
            let taken = self.node.layer.borrow_mut().take(self.number, self.life);
            let Some((tag, request)) = taken else { break };
            self.submit(tag, &request);
        }
        self.queues.flush(&mut self.ring);
        let mut until = now.after(LOOK_INTERVAL);
        if let Some(deadline) = self.queues.next_deadline() {
            until = until.min(deadline);
        }
        let timeout = if self.queues.has_more() { Duration::ZERO } else { until.since(now) };
        self.events.clear();
        if self.ring.wait(Some(timeout), &mut self.events).is_err() {
            return;
        }
        let now = self.ring.now();
        self.queues.on_events(&mut self.ring, &mut self.scratch, &self.events, now);
    }

    fn submit(&mut self, tag: usize, request: &block_layer::Request) {
        let (start, count, blocks) = (request.start, request.count, request.count as u32);
        let block_size = self.scene.plan.block_size;
        let (command, data) = match &request.work {
            Work::Read { .. } => {
                let buffer = Buffer::zeroed(count as usize * block_size);
                let command = IoCommand::Read { start, blocks, force_unit_access: false };
                (command, Data::Receive(buffer))
            }
            Work::Flush { .. } => (IoCommand::Flush, Data::None),
            Work::Write { name, durable: force_unit_access, how: Change::Write } => {
                let mut buffer = Buffer::zeroed(count as usize * block_size);
                block::fill(&mut buffer, block_size, start, *name);
                let force_unit_access = *force_unit_access;
                (IoCommand::Write { start, blocks, force_unit_access }, Data::Send(buffer))
            }
            Work::Write { durable, how: Change::Zeroes { deallocate }, .. } => {
                let (force_unit_access, deallocate) = (*durable, *deallocate);
                (IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate }, Data::None)
            }
            Work::Write { how: Change::Discard, .. } => {
                let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
                (command, host::send(&encode_ranges(&[(start, blocks)])))
            }
        };
        simulation::say(|| format!("the disk's queue {} begins {tag}: {command:?} {request:?}", self.number));
        let request = Request { entry: command.encode(1), data, user: tag as u64 };
        if self.queues.submit(request).is_err() {
            simulation::fail("a free slot took no command");
        }
    }

    fn answer(&self, completion: Completion) {
        let Completion { user, status, data, .. } = completion;
        simulation::say(|| format!("the disk's queue {} ends {user}: {status}", self.number));
        simulation::note(user << 16 | u64::from(status.bits()));
        let request = self.node.layer.borrow_mut().answer(self.number, user as usize, self.life);
        let Some(request) = request else { return };
        ended(self.scene, self.node, request, (status, data.as_deref()));
    }
}

/// A path takes no command before its controller is written down.
pub(crate) fn check_records(node: &DiskNode, life: u64, paths: &Paths) {
    for path in paths.status() {
        if let Some(id) = path.cntlid
            && !node.folder.holds(life, path.address, id)
        {
            let address = path.address;
            simulation::fail(format!(
                "the path to {address} is used, and its controller {id} is not recorded"
            ));
        }
    }
}

/// A request has ended, with the data of a read.
pub(crate) fn ended(
    scene: &Scene,
    node: &DiskNode,
    request: block_layer::Request,
    (status, data): (Status, Option<&[u8]>),
) {
    let block_layer::Request { work, start, count, .. } = request;
    scene.coverage.borrow_mut().ending(name(&work), status);
    if !status.is_success() && !scene.plan.lets_commands_fail() {
        return simulation::fail(format!("the disk's {work:?} failed: {status}"));
    }
    let mut history = scene.history.borrow_mut();
    match work {
        Work::Read { look } if status.is_success() => match data {
            Some(data) if data.len() as u64 == count * scene.plan.block_size as u64 => {
                history.end_read(start, &look, data);
            }
            _ => simulation::fail("a read of the disk brought less than it should"),
        },
        Work::Write { name, durable, .. } => {
            history.end_write((start, count), name, durable, WriteEnd::Answered(status));
            check_hold(node, name, status);
        }
        Work::Flush { name, era } if status.is_success() => history.end_flush(name, era),
        _ => {}
    }
}

/// A process that cannot read what a killed one has written down writes nothing for the longest time.
fn check_hold(node: &DiskNode, name: u64, status: Status) {
    let until = node.held_until.get();
    if status.is_success() && simulation::now() < until {
        simulation::fail(format!(
            "write {name} did not wait until {:.6} s, although it is not known which controllers a killed process had",
            until.0 as f64 / 1e9
        ));
    }
}

/// A request's name in tables.
const fn name(work: &Work) -> &'static str {
    match work {
        Work::Read { .. } => "disk's read",
        Work::Flush { .. } => "disk's flush",
        Work::Write { how: Change::Write, durable: false, .. } => "disk's write",
        Work::Write { how: Change::Write, .. } => "disk's durable write",
        Work::Write { how: Change::Zeroes { .. }, .. } => "disk's write zeroes",
        Work::Write { how: Change::Discard, .. } => "disk's discard",
    }
}
