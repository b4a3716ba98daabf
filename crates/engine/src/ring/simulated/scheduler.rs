//! Turns of fibers, and virtual time: the world of a simulation, its processes and machines, and
//! the queue of coming events. What the network and the disks do when a moment has come is theirs.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::disk::Disks;
use super::event_descriptor::EventState;
use super::fiber::{self, Fiber};
use super::network::Network;
use super::rados::{Rados, Step};
use super::random::Random;
use super::ring::RingState;
use super::trace::Trace;
use crate::observation::Observation;
use crate::ring::Moment;

/// A fiber that has more turns than this in so short a time burns a processor.
const SPIN_TURNS: u64 = 3_000;
const SPIN_TIME: Duration = Duration::from_millis(10);

/// A fiber, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FiberId(usize);

/// A process, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub(super) usize);

/// A machine, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub(super) usize);

struct FiberState {
    /// Absent while it runs and after its end.
    fiber: Option<Fiber>,
    name: String,
    process: ProcessId,
    is_parked: bool,
    /// Set if it was woken before it waited.
    is_woken: bool,
    /// Turns it had in all.
    turns_total: u64,
    /// Turns it had since this moment.
    turns: (Moment, u64),
    /// End of its wait, if it is not woken before.
    deadline: Option<Moment>,
    /// The moment for which it is in the queue of what will happen. What is there for a later one, from a wait that was
    /// over sooner, counts for nothing.
    timer: Option<Moment>,
}

struct Process {
    name: String,
    machine: MachineId,
    is_alive: bool,
    is_paused: bool,
    /// Set once its main thread has come to its end.
    has_exited: bool,
    /// Set while it gets nothing new of the system: no descriptor, no thread, no memory.
    is_starved: bool,
    /// A part of it has asked it to end.
    is_to_end: bool,
    /// Fibers whose turn would be while it is paused.
    held: Vec<FiberId>,
}

/// Event at its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A fiber's wait may be over.
    Wake(FiberId),
    /// Something of the network.
    Network(super::network::Arrival),
    /// A storage operation takes effect.
    Effect(usize),
    /// A storage operation ends.
    Stored(usize),
    /// Something of the Ceph cluster.
    Rados(Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Moment,
    sequence: u64,
    what: What,
}

pub(super) struct World {
    pub(super) now: Moment,
    pub(super) random: Random,
    pub(super) trace: Trace,
    pub(super) rings: Vec<RingState>,
    pub(super) events: Vec<EventState>,
    pub(super) network: Network,
    pub(super) disks: Disks,
    pub(super) rados: Rados,
    machines: Vec<bool>,
    processes: Vec<Process>,
    fibers: Vec<FiberState>,
    ready: Vec<FiberId>,
    timers: BinaryHeap<Reverse<Timer>>,
    sequence: u64,
    current: Option<FiberId>,
    failure: Option<String>,
    steps: u64,
    pub(super) judge: Option<Judge>,
}

/// Says what is wrong with something that the thread with this name found out, if anything is.
pub type Judge = fn(who: &str, Observation) -> Option<&'static str>;

thread_local! {
    static WORLD: RefCell<Option<Box<World>>> = const { RefCell::new(None) };
}

/// Parameters of a simulation, beyond the scene itself.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// From which all chance follows.
    pub seed: u64,
    /// Virtual time after which it has to have ended.
    pub limit: Duration,
    /// Set if events are kept as text.
    pub traces: bool,
    /// Judge of what ends of connections find out about each other.
    pub judge: Option<Judge>,
}

/// Result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// First failure.
    pub failure: Option<String>,
    /// Virtual time it took.
    pub time: Duration,
    /// Turns that fibers had.
    pub steps: u64,
    /// A number that differs when anything went otherwise.
    pub fingerprint: u64,
    /// All fibers and the turns they had, those with the most first.
    pub turns: Vec<(String, u64)>,
    /// Last events, if they were kept.
    pub trace: Vec<String>,
}

/// Runs `scene` as the first process of a new world until it ends or something fails.
pub fn run(options: Options, scene: impl FnOnce() + 'static) -> Outcome {
    let mut world = Box::new(World::new(options));
    world.machines.push(true);
    world.processes.push(Process::new("director", MachineId(0)));
    WORLD.set(Some(world));
    let first = spawn(Some(ProcessId(0)), "director".to_owned(), scene);
    while let Some(next) = with(|world| world.next(first, options.limit)) {
        turn(next);
    }
    for process in (0..with(|world| world.processes.len())).rev() {
        end_process(ProcessId(process));
    }
    let world = WORLD.take().expect("set above");
    Outcome {
        failure: world.failure.clone(),
        time: Duration::from_nanos(world.now.0),
        steps: world.steps,
        fingerprint: world.trace.fingerprint(),
        turns: world.turns(),
        trace: world.trace.lines(),
    }
}

fn turn(id: FiberId) {
    let Some(fiber) = with(|world| world.fibers[id.0].fiber.take()) else { return };
    let outcome = catch_unwind(AssertUnwindSafe(|| fiber.run()));
    with(|world| {
        world.current = None;
        match outcome {
            Ok(fiber) => world.fibers[id.0].fiber = fiber,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                let who = world.name_of(id);
                world.fail(format!("{who} panicked: {text}"));
            }
        }
    });
}

/// Does something with the world of this thread.
pub(super) fn with<T>(what: impl FnOnce(&mut World) -> T) -> T {
    with_if(what).expect("there is no simulation on this thread")
}

/// The same, where there is one still: things may be dropped after its end.
pub(super) fn with_if<T>(what: impl FnOnce(&mut World) -> T) -> Option<T> {
    WORLD.with_borrow_mut(|world| world.as_deref_mut().map(what))
}

/// Starts a fiber of a process, of the running one without.
pub(super) fn spawn(process: Option<ProcessId>, name: String, body: impl FnOnce() + 'static) -> FiberId {
    let fiber = Fiber::new(body);
    with(|world| {
        let process = process.or_else(|| world.running()).expect("a fiber belongs to a process");
        let id = FiberId(world.fibers.len());
        world.fibers.push(FiberState {
            fiber: Some(fiber),
            name,
            process,
            is_parked: false,
            is_woken: false,
            turns_total: 0,
            turns: (Moment(0), 0),
            deadline: None,
            timer: None,
        });
        world.make_ready(id);
        id
    })
}

/// The fiber that runs.
pub(super) fn current() -> Option<FiberId> {
    with(|world| world.current)
}

/// True if the process of the running fiber has ended: nothing can be waited for then.
pub(super) fn is_ending() -> bool {
    with_if(|world| world.running().is_none_or(|process| !world.processes[process.0].is_alive))
        .unwrap_or(true)
}

/// Waits until `unpark` or `deadline`. It may return for no reason.
pub(super) fn park(deadline: Option<Moment>) {
    let waits = with(|world| {
        let Some(id) = world.current else { return false };
        let (now, state) = (world.now, &mut world.fibers[id.0]);
        let is_alive = world.processes[state.process.0].is_alive;
        if !is_alive || std::mem::take(&mut state.is_woken) || deadline.is_some_and(|at| at <= now) {
            return false;
        }
        state.is_parked = true;
        state.deadline = deadline.filter(|at| at.0 != u64::MAX);
        world.set_timer(id);
        true
    });
    if waits {
        fiber::give_way();
    }
}

/// Yields to the other fibers that are ready, and waits for nothing.
pub(super) fn step_aside() {
    let may = with(|world| {
        let may = world.running().is_some_and(|process| world.processes[process.0].is_alive);
        if let Some(id) = world.current.filter(|_| may) {
            world.make_ready(id);
        }
        may
    });
    if may {
        fiber::give_way();
    }
}

/// Ends a fiber's wait, or its next one.
pub(super) fn unpark(id: FiberId) {
    with_if(|world| world.unpark(id));
}

/// Ends a process as SIGKILL does: what it has is taken from it, and nothing of it runs again.
pub(super) fn end_process(process: ProcessId) {
    let victims: Vec<FiberId> = with(|world| {
        world.processes[process.0].is_alive = false;
        let of = |id: &usize| world.fibers[*id].process == process;
        (0..world.fibers.len()).filter(of).map(FiberId).collect()
    });
    for id in victims {
        let before = with(|world| world.current.replace(id));
        if let Some(fiber) = with(|world| world.fibers[id.0].fiber.take()) {
            fiber.end();
        }
        with(|world| world.current = before);
    }
    super::disk::release(process);
    with(|world| {
        world.close_process(process);
        world.cancel_operations(process);
        world.leave_rados(process);
        for ring in world.rings.iter_mut().filter(|ring| ring.process == process) {
            ring.clear();
        }
    });
}

impl Process {
    fn new(name: &str, machine: MachineId) -> Self {
        Self {
            name: name.to_owned(),
            machine,
            is_alive: true,
            is_paused: false,
            has_exited: false,
            is_starved: false,
            is_to_end: false,
            held: Vec::new(),
        }
    }
}

impl World {
    fn new(options: Options) -> Self {
        let mut random = Random::new(options.seed);
        Self {
            now: Moment(1_000_000),
            trace: Trace::new(options.traces),
            rings: Vec::new(),
            events: Vec::new(),
            network: Network::default(),
            disks: Disks::default(),
            rados: Rados::default(),
            machines: Vec::new(),
            processes: Vec::new(),
            fibers: Vec::new(),
            ready: Vec::new(),
            timers: BinaryHeap::new(),
            sequence: 0,
            current: None,
            failure: None,
            steps: 0,
            judge: options.judge,
            random: random.fork(),
        }
    }

    /// Fiber of the next turn; `None` when the simulation is over.
    fn next(&mut self, first: FiberId, limit: Duration) -> Option<FiberId> {
        loop {
            if self.failure.is_some() || self.fibers[first.0].fiber.is_none() {
                return None;
            }
            if self.now.0 > limit.as_nanos() as u64 {
                self.fail(format!("it has not ended after {limit:?} of its time"));
                return None;
            }
            while self.timers.peek().is_some_and(|Reverse(timer)| timer.at <= self.now) {
                self.fire();
            }
            if self.ready.is_empty() {
                let Some(Reverse(timer)) = self.timers.peek() else {
                    self.fail("everybody waits, and for nothing".to_owned());
                    return None;
                };
                self.now = self.now.max(timer.at);
                continue;
            }
            let at = self.random.below(self.ready.len() as u64) as usize;
            let id = self.ready.swap_remove(at);
            let process = self.fibers[id.0].process;
            if self.processes[process.0].is_paused {
                self.processes[process.0].held.push(id);
                continue;
            }
            if self.fibers[id.0].fiber.is_none() {
                continue;
            }
            // What runs takes time.
            self.now = Moment(self.now.0 + self.random.between(100, 2000));
            self.steps += 1;
            self.trace.note(self.now, id.0 as u64);
            if self.spins(id) {
                let who = self.name_of(id);
                self.fail(format!("{who} spins: it has had {SPIN_TURNS} turns in {SPIN_TIME:?}"));
                return None;
            }
            self.current = Some(id);
            return Some(id);
        }
    }

    /// True if a fiber only looks, over and over, whether there is something to do.
    fn spins(&mut self, id: FiberId) -> bool {
        let now = self.now;
        let (since, turns) = &mut self.fibers[id.0].turns;
        if now.since(*since) > SPIN_TIME {
            (*since, *turns) = (now, 0);
        }
        *turns += 1;
        self.fibers[id.0].turns_total += 1;
        let (_, turns) = &self.fibers[id.0].turns;
        *turns > SPIN_TURNS
    }

    fn fire(&mut self) {
        let Some(Reverse(timer)) = self.timers.pop() else { return };
        match timer.what {
            What::Wake(fiber) => self.wake(fiber, timer.at),
            What::Network(arrival) => self.arrive(arrival),
            What::Effect(operation) => self.take_effect(operation),
            What::Stored(operation) => self.end_operation(operation),
            What::Rados(step) => self.step_rados(step),
        }
    }

    /// A moment has come for which a fiber was in the queue.
    fn wake(&mut self, id: FiberId, at: Moment) {
        let state = &mut self.fibers[id.0];
        if state.timer != Some(at) {
            return;
        }
        state.timer = None;
        match state.deadline {
            Some(deadline) if state.is_parked && deadline <= at => self.unpark(id),
            Some(_) if state.is_parked => self.set_timer(id),
            _ => {}
        }
    }

    /// Puts a fiber into the queue for its deadline, unless it is there for an earlier moment and can see to it then.
    fn set_timer(&mut self, id: FiberId) {
        let state = &mut self.fibers[id.0];
        let Some(deadline) = state.deadline else { return };
        if state.timer.is_none_or(|timer| deadline < timer) {
            state.timer = Some(deadline);
            self.at(deadline, What::Wake(id));
        }
    }

    /// Lets something happen at a moment.
    pub(super) fn at(&mut self, at: Moment, what: What) {
        self.sequence += 1;
        self.timers.push(Reverse(Timer { at, sequence: self.sequence, what }));
    }

    pub(super) fn after(&mut self, nanoseconds: u64, what: What) {
        self.at(Moment(self.now.0 + nanoseconds), what);
    }

    pub(super) fn unpark(&mut self, id: FiberId) {
        let state = &mut self.fibers[id.0];
        if std::mem::take(&mut state.is_parked) {
            self.make_ready(id);
        } else {
            state.is_woken = true;
        }
    }

    fn make_ready(&mut self, id: FiberId) {
        self.ready.push(id);
    }

    /// The process that runs.
    pub(super) fn running(&self) -> Option<ProcessId> {
        self.current.map(|id| self.fibers[id.0].process)
    }

    fn name_of(&self, id: FiberId) -> String {
        let state = &self.fibers[id.0];
        format!("{}/{}", self.processes[state.process.0].name, state.name)
    }

    /// The fiber that runs.
    pub(super) const fn current(&self) -> Option<FiberId> {
        self.current
    }

    fn turns(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = (0..self.fibers.len())
            .map(|at| (self.name_of(FiberId(at)), self.fibers[at].turns_total))
            .collect();
        all.sort_by_key(|(_, turns)| std::cmp::Reverse(*turns));
        all
    }

    /// Name of the running fiber, for the trace.
    pub(super) fn who(&self) -> String {
        self.current.map_or_else(|| "-".to_owned(), |id| self.name_of(id))
    }

    /// The simulation is over, for this reason.
    pub(super) fn fail(&mut self, reason: String) {
        if self.failure.is_none() {
            self.trace.say(self.now, || format!("FAILURE: {reason}"));
            self.failure = Some(reason);
        }
    }

    pub(super) fn is_alive(&self, process: ProcessId) -> bool {
        self.processes[process.0].is_alive
    }

    /// Checks that the running process gets something new of the system.
    pub(super) fn spare(&self) -> std::io::Result<()> {
        match self.running() {
            Some(process) if self.processes[process.0].is_starved => {
                Err(std::io::Error::from_raw_os_error(libc::EMFILE))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn has_died(&self, process: ProcessId) -> bool {
        let process = &self.processes[process.0];
        !process.is_alive || process.has_exited
    }

    pub(super) fn exit(&mut self, process: ProcessId) {
        self.processes[process.0].has_exited = true;
    }

    pub(super) fn starve(&mut self, process: ProcessId, is_starved: bool) {
        self.processes[process.0].is_starved = is_starved;
    }

    pub(super) fn is_paused(&self, process: ProcessId) -> bool {
        self.processes[process.0].is_paused
    }

    pub(super) fn ask_to_end(&mut self, process: ProcessId) {
        self.processes[process.0].is_to_end = true;
    }

    pub(super) fn is_to_end(&self, process: ProcessId) -> bool {
        self.processes[process.0].is_to_end
    }

    pub(super) fn machine_of(&self, process: ProcessId) -> MachineId {
        self.processes[process.0].machine
    }

    pub(super) fn is_up(&self, machine: MachineId) -> bool {
        self.machines[machine.0]
    }

    pub(super) fn set_up(&mut self, machine: MachineId, is_up: bool) {
        self.machines[machine.0] = is_up;
    }

    pub(super) fn add_machine(&mut self) -> MachineId {
        self.machines.push(true);
        MachineId(self.machines.len() - 1)
    }

    pub(super) fn add_process(&mut self, name: &str, machine: MachineId) -> ProcessId {
        self.processes.push(Process::new(name, machine));
        ProcessId(self.processes.len() - 1)
    }

    pub(super) fn processes_on(&self, machine: MachineId) -> Vec<ProcessId> {
        let on = |id: &ProcessId| self.processes[id.0].machine == machine && self.processes[id.0].is_alive;
        (0..self.processes.len()).map(ProcessId).filter(on).collect()
    }

    pub(super) fn pause(&mut self, process: ProcessId, is_paused: bool) {
        self.processes[process.0].is_paused = is_paused;
        if !is_paused {
            let held = std::mem::take(&mut self.processes[process.0].held);
            self.ready.extend(held);
        }
    }
}
