//! A host's process: paths to the volume and jobs that read, write, flush, zero and compare there, each telling the
//! history what it did and saw.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::initiator::{
    CommandQueues, Completion, ConnectOptions, Data, Ended, PathOptions, PathQueues, PathState, PathStatus,
    Paths, Request,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Event, Moment, Ring, RingOptions};
use engine::simulation::{self, Random, sleep};
use nvme::Status;
use nvme::io::IoCommand;
use nvme::reservation::{
    AcquireAction, AcquireData, PersistenceChange, RegisterAction, RegisterData, ReservationType,
};
use zerocopy::IntoBytes;

use crate::administration;
use crate::coverage::Coverage;
use crate::group_check;
use crate::history::{Look, WriteEnd};
use crate::plan::HostPlan;
use crate::reservation::Ticket;
use crate::scene::{Scene, address};
use crate::secrets;
use crate::target::NQN;

/// Time between two attempts of a host's to connect at all.
const AGAIN: Duration = Duration::from_millis(300);
/// Interval at which a job checks if it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time in which all paths have to come back when nothing keeps them from it.
const PATIENCE: Duration = Duration::from_secs(100);
/// Allowance beyond the known time after which a command is at rest.
const MARGIN: Duration = Duration::from_secs(1);

/// Operation of a command.
#[derive(Clone, Debug)]
pub(crate) enum Io {
    Read { start: u64, count: u64, look: Look },
    Write { start: u64, count: u64, name: u64, durable: bool, ticket: Ticket },
    Flush { name: u64, era: u64 },
    Compare { start: u64 },
    Register,
    Acquire { asked: u64, confirms: bool },
}

/// A command that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Outstanding {
    job: u16,
    user: u64,
    io: Io,
}

/// The life of a host's process.
pub(crate) fn live(scene: &Rc<Scene>, number: usize) {
    let plan = &scene.plan.hosts[number];
    let volumes: BTreeSet<usize> = (0..plan.jobs).map(|job| scene.plan.volume_of(number, job)).collect();
    let all: BTreeMap<usize, Arc<Paths>> =
        volumes.into_iter().map(|volume| (volume, connect(scene, number, volume))).collect();
    for job in 1..plan.jobs {
        let (scene, paths) = (scene.clone(), all[&scene.plan.volume_of(number, job)].clone());
        simulation::start_thread(&format!("job{job}"), move || Job::run(&scene, number, job, &paths));
    }
    Job::run(scene, number, 0, &all[&scene.plan.volume_of(number, 0)]);
    let node = &scene.hosts[number];
    while node.jobs_done.get() < plan.jobs {
        sleep(LOOK_INTERVAL);
    }
    for paths in all.values() {
        match scene.plan.gateways {
            Some(_) => wait_for_gateways(scene, number, paths),
            None => wait_for_paths(number, paths),
        }
        paths.disconnect();
    }
    node.is_done.set(true);
}

/// Paths to a volume, as soon as there are any.
fn connect(scene: &Scene, number: usize, volume: usize) -> Arc<Paths> {
    let options = options(scene, number, volume);
    loop {
        match Paths::connect(options.clone()) {
            Ok(paths) => return Arc::new(paths),
            Err(error) => simulation::say(|| format!("no path: {error}")),
        }
        sleep(AGAIN);
    }
}

/// Waits, when all is well, until every path is usable again.
pub(crate) fn wait_for_paths(number: usize, paths: &Paths) {
    let until = simulation::now().after(PATIENCE);
    let is_of_use = |path: &PathStatus| path.state == PathState::Live && path.ana == "optimized";
    while let Some(path) = paths.status().iter().find(|path| !is_of_use(path)) {
        if simulation::now() >= until {
            let (state, ana) = (path.state, path.ana);
            return simulation::fail(format!(
                "host {number}: the path to {} stays {state:?}, its ANA state {ana}",
                path.address
            ));
        }
        sleep(LOOK_INTERVAL);
    }
}

/// Waits, when all is well, until every gateway is reached and serves its own, and one of them
/// serves the volume.
fn wait_for_gateways(scene: &Scene, number: usize, paths: &Paths) {
    let until = simulation::now().after(PATIENCE);
    let are_of_use = |paths: &[PathStatus]| {
        paths.iter().all(|path| path.state == PathState::Live)
            && paths.iter().filter(|path| path.ana == "optimized").count() == 1
    };
    while !(are_of_use(&paths.status()) && group_check::is_settled()) {
        if simulation::now() >= until {
            let found: Vec<String> =
                paths.status().iter().map(|path| format!("{:?}, {}", path.state, path.ana)).collect();
            return simulation::fail(format!(
                "host {number}: the paths to the gateways stay {found:?}, with their group {}",
                if group_check::is_settled() { "at rest" } else { "not at rest" }
            ));
        }
        administration::resume_all(scene);
        sleep(LOOK_INTERVAL);
    }
}

fn options(scene: &Scene, number: usize, volume: usize) -> PathOptions {
    let plan = &scene.plan.hosts[number];
    let (host, secrets) = (secrets::identity(number), secrets::of_host(&scene.plan));
    let path = |target: usize, port: usize| ConnectOptions {
        host: host.clone(),
        secrets: secrets.clone(),
        tls: secrets::tls_of_host(&scene.plan),
        digests: plan.digests,
        io_queues: plan.io_queues,
        queue_entries: plan.queue_entries,
        keep_alive_ms: plan.keep_alive_ms,
        command_timeout: Duration::from_millis(plan.command_timeout_ms),
        disable_flow_control: !plan.flow_control,
        ..ConnectOptions::new(address(target, port), NQN)
    };
    let ports = scene.plan.ports;
    let paths = (0..scene.plan.targets * ports).map(|at| path(at / ports, at % ports)).collect();
    PathOptions {
        policy: plan.policy,
        reconnect_delay: Duration::from_millis(plan.reconnect_ms),
        controller_loss: None,
        ..PathOptions::new(paths, volume as u32 + 1)
    }
}

/// Time at which the commands of a controller that is lost now are at rest.
pub(crate) fn rest(scene: &Scene, keep_alive_ms: u32) -> Moment {
    let keep_alives = Duration::from_millis(u64::from(keep_alive_ms)) * 3;
    let quiesce = Duration::from_millis(u64::from(scene.plan.quiesce_ms));
    simulation::now().after(keep_alives + quiesce + MARGIN)
}

/// A host was killed: what it had begun may go on for a while.
pub(crate) fn bury(scene: &Scene, number: usize) {
    let rest = rest(scene, scene.plan.hosts[number].keep_alive_ms);
    for outstanding in scene.hosts[number].outstanding.take() {
        match outstanding.io {
            Io::Write { start, count, name, durable, .. } => {
                let end = WriteEnd::Lost { rest };
                scene.history.borrow_mut().end_write((start, count), name, durable, end);
            }
            Io::Acquire { asked, .. } => scene.reservation.borrow_mut().is_unknown(asked, rest),
            _ => {}
        }
    }
}

/// A host is to take the reservation.
pub(crate) fn ask_to_preempt(scene: &Scene, number: usize) {
    scene.hosts[number].preempts.set(true);
}

/// Records what a fault has met: commands by what they are and where, and connections by how far they are.
pub(crate) fn cover(scene: &Scene, fault: &'static str, is_of_disk: bool, coverage: &mut Coverage) {
    let marks = simulation::disk::marks_under_way(std::path::Path::new(crate::scene::VOLUME));
    if let Some(disk) = &scene.disk {
        disk.cover(fault, coverage);
    }
    if is_of_disk {
        return;
    }
    for node in &scene.hosts {
        for outstanding in &*node.outstanding.borrow() {
            let phase = match &outstanding.io {
                Io::Read { .. } | Io::Compare { .. } => "read outstanding",
                Io::Flush { .. } => "flush outstanding",
                Io::Register | Io::Acquire { .. } => "reservation outstanding",
                Io::Write { name, .. } => match marks.get(name) {
                    None => "write not at the storage",
                    Some(false) => "write at the storage",
                    Some(true) => "write stored, not answered",
                },
            };
            coverage.met(fault, phase);
        }
        for state in simulation::connection_states(node.process.get()) {
            coverage.met(fault, state);
        }
    }
}

struct Job<'a> {
    scene: &'a Rc<Scene>,
    host: usize,
    number: u16,
    plan: &'a HostPlan,
    ring: Ring,
    queues: PathQueues,
    events: Vec<Event>,
    scratch: Vec<u8>,
    random: Random,
    next_at: Moment,
    last_user: u64,
    nsid: u32,
    /// Blocks of its volume, as the history counts them.
    blocks: Range<u64>,
    /// Position of the last sweep over all of them.
    swept: u64,
}

impl<'a> Job<'a> {
    fn run(scene: &'a Rc<Scene>, host: usize, number: u16, paths: &Paths) {
        let plan = &scene.plan.hosts[host];
        let Ok(mut ring) = Ring::new(RingOptions::default()) else { return };
        let (volume, size) = (scene.plan.volume_of(host, number) as u64, scene.plan.blocks as u64);
        let queues = PathQueues::open(paths, &mut ring, 0, number, plan.jobs, plan.depth);
        let mut job = Self {
            scene,
            host,
            number,
            plan,
            ring,
            queues,
            events: Vec::new(),
            scratch: vec![0; RECEIVE_LENGTH],
            random: simulation::fork_random(),
            next_at: simulation::now(),
            last_user: 0,
            nsid: volume as u32 + 1,
            blocks: volume * size..(volume + 1) * size,
            swept: volume * size,
        };
        while !job.is_done() {
            job.round();
        }
        if job.queues.free_slots() != plan.depth {
            simulation::fail(format!(
                "host {host} has lost slots: {} of {}",
                job.queues.free_slots(),
                plan.depth
            ));
        }
        job.queues.close(&mut job.ring);
        let done = &scene.hosts[host].jobs_done;
        done.set(done.get() + 1);
    }

    fn outstanding(&self) -> usize {
        self.scene.hosts[self.host].outstanding.borrow().iter().filter(|io| io.job == self.number).count()
    }

    /// At the end, when all writers have stopped, job 0 reads all blocks once more.
    fn is_done(&self) -> bool {
        let sweeps = self.number == 0 && self.swept < self.volume_end();
        self.scene.ends.get() && self.outstanding() == 0 && !sweeps
    }

    /// End of its volume, which may grow where it is the only one.
    fn volume_end(&self) -> u64 {
        if self.scene.plan.volumes() == 1 {
            self.scene.history.borrow().block_count()
        } else {
            self.blocks.end
        }
    }

    fn round(&mut self) {
        let now = self.ring.now();
        self.queues.turn(&mut self.ring, now);
        while let Some(ended) = self.queues.pop() {
            match ended {
                Ended::Answered(completion) => self.end(completion),
                Ended::Lost(lost) => {
                    let (host, error) = (self.host, &lost.error);
                    return simulation::fail(format!("host {host}: its paths are given up: {error}"));
                }
            }
        }
        if let Some(error) = self.queues.error() {
            return simulation::fail(format!("host {}: its paths are given up: {error}", self.host));
        }
        self.begin_some(now);
        self.queues.flush(&mut self.ring);
        let mut until = now.after(LOOK_INTERVAL);
        if self.queues.free_slots() > 0 && !self.scene.ends.get() {
            until = until.min(self.next_at);
        }
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

    fn begin_some(&mut self, now: Moment) {
        if self.scene.ends.get() {
            let end = self.volume_end();
            while self.number == 0 && self.swept < end && self.queues.free_slots() > 0 {
                let count = (end - self.swept).min(16);
                self.read(self.swept, count);
                self.swept += count;
            }
            return;
        }
        if self.number == 0 && self.scene.hosts[self.host].preempts.get() && self.queues.free_slots() > 0 {
            self.scene.hosts[self.host].preempts.set(false);
            self.register();
        }
        while self.queues.free_slots() > 0 && now >= self.next_at {
            self.next_at = self
                .next_at
                .max(now)
                .after(Duration::from_micros(self.random.between(1, self.plan.pause_us_max)));
            self.begin_one(now);
        }
    }

    fn begin_one(&mut self, now: Moment) {
        let blocks = self.volume_end() - self.blocks.start;
        let count = self.random.between(1, self.plan.blocks_max.min(blocks));
        let start = self.blocks.start + self.random.below(blocks - count + 1);
        let [writes, flushes, zeroes, compares] = self.plan.mix;
        let choice = self.random.below(1000);
        if choice < writes + zeroes {
            if self.scene.history.borrow().is_free(start, count, now) {
                self.write(start, count, choice >= writes);
            }
        } else if choice < writes + zeroes + flushes {
            let mut history = self.scene.history.borrow_mut();
            let io = Io::Flush { name: history.begin_flush(), era: history.era() };
            drop(history);
            self.submit(IoCommand::Flush, Data::None, io);
        } else if choice < writes + zeroes + flushes + compares {
            // Data that was never written differs from any stored data.
            let mut buffer = self.buffer(count);
            crate::block::fill(&mut buffer, self.scene.plan.block_size, start, u64::MAX);
            let command = IoCommand::Compare { start: self.block_offset(start), blocks: count as u32 };
            self.submit(command, Data::Send(buffer), Io::Compare { start });
        } else {
            self.read(start, count);
        }
    }

    /// Position of a block in its volume.
    const fn block_offset(&self, block: u64) -> u64 {
        block - self.blocks.start
    }

    fn buffer(&self, count: u64) -> Buffer {
        Buffer::zeroed(count as usize * self.scene.plan.block_size)
    }

    fn read(&mut self, start: u64, count: u64) {
        let look = self.scene.history.borrow().begin_read(start, count);
        let command = IoCommand::Read {
            start: self.block_offset(start),
            blocks: count as u32,
            force_unit_access: false,
        };
        let buffer = self.buffer(count);
        self.submit(command, Data::Receive(buffer), Io::Read { start, count, look });
    }

    fn write(&mut self, start: u64, count: u64, zeroes: bool) {
        let durable = self.random.chance(self.plan.durable);
        let name = self.scene.history.borrow_mut().begin_write(start, count, zeroes);
        let ticket = self.scene.reservation.borrow().ticket();
        self.scene.writers.borrow_mut().insert(name, (self.host, simulation::now()));
        let blocks = count as u32;
        let io = Io::Write { start, count, name, durable, ticket };
        if zeroes {
            let deallocate = self.random.chance(500);
            let force_unit_access = durable;
            let command = IoCommand::WriteZeroes {
                start: self.block_offset(start),
                blocks,
                force_unit_access,
                deallocate,
            };
            self.submit(command, Data::None, io);
        } else {
            let mut buffer = self.buffer(count);
            crate::block::fill(&mut buffer, self.scene.plan.block_size, start, name);
            let command =
                IoCommand::Write { start: self.block_offset(start), blocks, force_unit_access: durable };
            self.submit(command, Data::Send(buffer), io);
        }
    }

    fn key(&self) -> u64 {
        0x100 + self.host as u64
    }

    fn register(&mut self) {
        let command = IoCommand::ReservationRegister {
            action: RegisterAction::Register,
            ignore_existing_key: true,
            persistence: PersistenceChange::NoChange,
        };
        let data = RegisterData { current_key: self.key().into(), new_key: self.key().into() };
        self.submit(command, send(data.as_bytes()), Io::Register);
    }

    fn acquire(&mut self, confirms: bool) {
        let (asked, holder) = self.scene.reservation.borrow_mut().ask(self.host, confirms);
        let action = match holder {
            Some(_) => AcquireAction::PreemptAndAbort,
            None => AcquireAction::Acquire,
        };
        let command = IoCommand::ReservationAcquire {
            action,
            ignore_existing_key: false,
            kind: ReservationType::WriteExclusive,
        };
        let preempt_key = 0x100 + holder.unwrap_or(self.host) as u64;
        let data = AcquireData { current_key: self.key().into(), preempt_key: preempt_key.into() };
        self.submit(command, send(data.as_bytes()), Io::Acquire { asked, confirms });
    }

    fn submit(&mut self, command: IoCommand, data: Data, io: Io) {
        self.last_user += 1;
        let user = self.last_user;
        simulation::say(|| format!("begins {user}: {io:?}"));
        let outstanding = Outstanding { job: self.number, user, io };
        self.scene.hosts[self.host].outstanding.borrow_mut().push(outstanding);
        let request = Request { entry: command.encode(self.nsid), data, user };
        if self.queues.submit(request).is_err() {
            simulation::fail("a free slot took no command");
        }
    }

    fn end(&mut self, completion: Completion) {
        let Completion { user, status, data, .. } = completion;
        let io = {
            let mut all = self.scene.hosts[self.host].outstanding.borrow_mut();
            let at = all.iter().position(|io| io.job == self.number && io.user == user);
            at.map(|at| all.swap_remove(at).io)
        };
        simulation::say(|| format!("ends {user}: {status}"));
        simulation::note(user << 16 | u64::from(status.bits()));
        let Some(io) = io else {
            return simulation::fail(format!("command {user} of host {} has ended twice", self.host));
        };
        self.scene.coverage.borrow_mut().status(&io, status);
        if !status.is_success() && !self.may_fail(&io, status) {
            return simulation::fail(format!("host {}: {io:?} failed: {status}", self.host));
        }
        let mut history = self.scene.history.borrow_mut();
        match io {
            Io::Read { start, count, look } if status.is_success() => match data {
                Some(data) if data.len() as u64 == count * self.scene.plan.block_size as u64 => {
                    history.end_read(start, &look, &data);
                }
                _ => simulation::fail("a read brought less than it should"),
            },
            Io::Write { start, count, name, durable, ticket } => {
                history.end_write((start, count), name, durable, WriteEnd::Answered(status));
                if status.is_success() {
                    if let Some((_, began)) = self.scene.writers.borrow().get(&name) {
                        self.scene.holds.borrow_mut().note(*began);
                    }
                    self.scene.reservation.borrow().check(self.host, &ticket, name);
                }
            }
            Io::Flush { name, era } if status.is_success() => history.end_flush(name, era),
            Io::Compare { start } if status.is_success() => {
                simulation::fail(format!("block {start} compares equal to what was never written"));
            }
            Io::Register if status.is_success() => {
                drop(history);
                self.acquire(false);
            }
            Io::Acquire { asked, .. } if !status.is_success() => {
                self.scene.reservation.borrow_mut().is_refused(asked);
            }
            Io::Acquire { asked, confirms } => {
                drop(history);
                let is_certain = self.scene.reservation.borrow_mut().is_taken(asked, self.host);
                if !is_certain && !confirms {
                    self.acquire(true);
                }
            }
            _ => {}
        }
    }

    fn may_fail(&self, io: &Io, status: Status) -> bool {
        let status = status.without_flags();
        match io {
            Io::Compare { .. } if status == Status::COMPARE_FAILURE => true,
            Io::Register | Io::Acquire { .. } => true,
            _ if self.scene.plan.is_reserved
                && (status == Status::RESERVATION_CONFLICT || status == Status::ABORTED_PREEMPT) =>
            {
                true
            }
            // Its cluster has been silent for longer than the host tries again.
            _ if status == Status::NAMESPACE_NOT_READY && self.scene.plan.has_cluster_trouble() => true,
            _ => self.scene.plan.lets_commands_fail(),
        }
    }
}

/// Data that a command sends.
pub(crate) fn send(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    Data::Send(buffer)
}
