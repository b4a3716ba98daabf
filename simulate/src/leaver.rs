//! A leaver: a host that resets its controller, shuts it down, disconnects a queue or just hangs up in the middle of
//! its writes, over and over. What the target reports as done must be done: none of these writes may land after that.

use std::rc::Rc;
use std::time::Duration;

use engine::initiator::{Controller, Data, InitiatorError, Queue, QueueState, Request};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Event, Ring, RingOptions};
use engine::simulation::{self, Random, sleep};
use nvme::Status;
use nvme::fabrics::{PropertyAccess, configuration, controller_status, disconnect, property};
use nvme::io::IoCommand;

use crate::block;
use crate::history::WriteEnd;
use crate::host;
use crate::scene::Scene;
use crate::visitor::come;

/// The name of its process.
pub(crate) const PROCESS: &str = "leaver";
/// Number of the host it is; the others have smaller ones.
const IDENTITY: u128 = 0x200;
/// Time between two sessions, in milliseconds.
const PAUSE_MS_MAX: u64 = 400;
/// Time between two looks at the controller's status.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// The longest that a reset, a shutdown or a Disconnect may take when all is well.
const PATIENCE: Duration = Duration::from_secs(60);
/// Mark of a Disconnect, which no write has.
const LEAVING: u64 = u64::MAX;
/// Mark of the Compare of a fused pair, which was never written.
const COMPARING: u64 = u64::MAX - 1;

/// Plan of a leaver.
#[derive(Clone, Debug)]
pub(crate) struct LeaverPlan {
    pub(crate) target: usize,
    pub(crate) port: usize,
    pub(crate) io_queues: u16,
    pub(crate) writes: usize,
    pub(crate) keep_alive_ms: u32,
    /// The number of writes in a thousand that are one half of a fused Compare and Write.
    pub(crate) pairs: u64,
}

/// Way of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Reset,
    ShutDown,
    Disconnect,
    HangUp,
}

/// A write that has no answer.
#[derive(Debug)]
struct Begun {
    start: u64,
    count: u64,
    name: u64,
    durable: bool,
}

/// The life of a leaver: it comes, begins to write, and leaves, for as long as the scene lasts.
pub(crate) fn live(scene: &Rc<Scene>, plan: &LeaverPlan) {
    let mut random = simulation::fork_random();
    while !scene.ends.get() {
        let outcome = run_session(scene, plan, &mut random);
        if let Err(error) = outcome {
            simulation::say(|| format!("the leaver's visit is over: {error}"));
            if !scene.may_lose_connections() {
                simulation::fail(format!("a leaver was sent away: {error}"));
            }
        }
        sleep(Duration::from_millis(random.between(1, PAUSE_MS_MAX)));
    }
    scene.visitors_left.set(scene.visitors_left.get() - 1);
}

fn run_session(scene: &Scene, plan: &LeaverPlan, random: &mut Random) -> Result<(), InitiatorError> {
    let Some(mut session) = Session::begin(scene, plan)? else { return Ok(()) };
    let outcome = session.run(random);
    session.forget();
    outcome
}

struct Session<'a> {
    scene: &'a Scene,
    plan: &'a LeaverPlan,
    controller: Controller,
    ring: Ring,
    queues: Vec<Queue>,
    events: Vec<Event>,
    scratch: Vec<u8>,
    begun: Vec<Begun>,
    /// The last write that went well: where it is, and its name.
    known: Option<(u64, u64, u64)>,
    /// Writes that must not happen, since what they are fused with cannot be equal.
    forbidden: Vec<u64>,
    /// Queues that have answered a Disconnect, by their tokens.
    disconnected: Vec<u32>,
}

impl<'a> Session<'a> {
    fn begin(scene: &'a Scene, plan: &'a LeaverPlan) -> Result<Option<Self>, InitiatorError> {
        let Some(controller) = come(IDENTITY, (plan.target, plan.port), plan.io_queues, plan.keep_alive_ms)
        else {
            return Ok(None);
        };
        let Ok(mut ring) = Ring::new(RingOptions::default()) else { return Ok(None) };
        let queues = (1..=controller.io_queues().min(plan.io_queues))
            .map(|queue_id| Queue::open(&mut ring, u32::from(queue_id), &controller.queue_options(queue_id)))
            .collect::<Result<_, _>>()?;
        Ok(Some(Self {
            scene,
            plan,
            controller,
            ring,
            queues,
            events: Vec::new(),
            scratch: vec![0; RECEIVE_LENGTH],
            begun: Vec::new(),
            known: None,
            forbidden: Vec::new(),
            disconnected: Vec::new(),
        }))
    }

    fn run(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        self.turn_until(|session| session.queues.iter().all(|queue| queue.state() == QueueState::Live))?;
        if self.plan.pairs > 0 {
            // What it has written it can compare.
            self.write(0, random);
            self.turn_until(|session| session.begun.is_empty())?;
        }
        for number in 0..self.plan.writes {
            if self.plan.pairs > 0 && random.chance(self.plan.pairs) {
                self.compare_and_write(number, random);
            } else {
                self.write(number, random);
            }
        }
        self.queues.iter_mut().for_each(|queue| queue.flush(&mut self.ring));
        // Some are answered meanwhile, some wait for their data to be asked for, some are at the storage.
        let until = self.ring.now().after(Duration::from_micros(random.between(0, 3_000)));
        self.turn_until(|session| session.ring.now() >= until)?;
        let leave = *random.pick(&[Leave::Reset, Leave::ShutDown, Leave::Disconnect, Leave::HangUp]);
        simulation::say(|| format!("{leave:?} with {} writes under way", self.begun.len()));
        let ready = configuration::ENABLE
            | configuration::SUBMISSION_ENTRY_SIZE
            | configuration::COMPLETION_ENTRY_SIZE;
        match leave {
            Leave::Reset => {
                self.configure(0, controller_status::READY, 0)?;
            }
            Leave::ShutDown => {
                let (mask, complete) =
                    (controller_status::SHUTDOWN_MASK, controller_status::SHUTDOWN_COMPLETE);
                // A controller to which the namespace is not attached has nothing of it to flush.
                let node = &self.scene.targets[self.plan.target];
                let generation = node.generation.get();
                let serves = node.applied.get() >= generation && self.controller.namespace(1).is_ok();
                let (flush, era) = {
                    let mut history = self.scene.history.borrow_mut();
                    (history.begin_flush(), history.era())
                };
                let status = self.configure(ready | configuration::SHUTDOWN_NORMAL, mask, complete)?;
                // A shutdown flushes the volatile cache, or says that it could not.
                if serves && node.generation.get() == generation && status & controller_status::FATAL == 0 {
                    self.scene.history.borrow_mut().end_flush(flush, era);
                }
            }
            Leave::Disconnect => self.disconnect()?,
            Leave::HangUp => return Ok(()),
        }
        self.settled();
        Ok(())
    }

    /// Begins a write, if no other write is under way there.
    fn write(&mut self, number: usize, random: &mut Random) {
        let blocks = self.scene.history.borrow().block_count();
        let count = random.between(1, blocks.min(8));
        let start = random.below(blocks - count + 1);
        if !self.scene.history.borrow().is_free(start, count, simulation::now()) {
            return;
        }
        let durable = random.chance(200);
        let name = self.scene.history.borrow_mut().begin_write(start, count, false);
        let block_size = self.scene.plan.block_size;
        let mut buffer = Buffer::zeroed(count as usize * block_size);
        block::fill(&mut buffer, block_size, start, name);
        let command = IoCommand::Write { start, blocks: count as u32, force_unit_access: durable };
        let request = Request { entry: command.encode(1), data: Data::Send(buffer), user: name };
        let at = number % self.queues.len();
        self.begun.push(Begun { start, count, name, durable });
        if self.queues[at].submit(request).is_err() {
            self.end(name, WriteEnd::NotSent);
        }
    }

    /// Begins a Compare and a Write as one: of its own data, which others may have overwritten, or
    /// of data that was never written.
    fn compare_and_write(&mut self, number: usize, random: &mut Random) {
        let at = number % self.queues.len();
        let known = self.known.take().filter(|_| random.chance(700));
        let (start, count, mark) = known.unwrap_or((0, 1, COMPARING));
        let is_free = self.scene.history.borrow().is_free(start, count, simulation::now());
        if !is_free || self.queues[at].free_slots() < 2 {
            return;
        }
        let block_size = self.scene.plan.block_size;
        let filled = |mark| {
            let mut buffer = Buffer::zeroed(count as usize * block_size);
            block::fill(&mut buffer, block_size, start, mark);
            Data::Send(buffer)
        };
        let name = if known.is_some() {
            let name = self.scene.history.borrow_mut().begin_write(start, count, false);
            self.begun.push(Begun { start, count, name, durable: false });
            name
        } else {
            // The history does not know of it: who reads it finds what should not be there.
            let name = self.scene.history.borrow_mut().name();
            self.forbidden.push(name);
            name
        };
        let blocks = count as u32;
        let pair = [
            (IoCommand::Compare { start, blocks }, mark, COMPARING),
            (IoCommand::Write { start, blocks, force_unit_access: false }, name, name),
        ];
        for (half, (command, mark, user)) in pair.into_iter().enumerate() {
            let mut entry = command.encode(1);
            entry.flags |= half as u8 + 1;
            if self.queues[at].submit(Request { entry, data: filled(mark), user }).is_err() {
                simulation::fail("a queue with two free slots does not take a pair");
            }
        }
    }

    /// Serves the queues until `holds`.
    fn turn_until(&mut self, holds: impl Fn(&Self) -> bool) -> Result<(), InitiatorError> {
        let deadline = self.ring.now().after(PATIENCE);
        while !holds(self) {
            let now = self.ring.now();
            let mut others = self.queues.iter().filter(|queue| !self.disconnected.contains(&queue.token()));
            if let Some(error) = others.find_map(Queue::error) {
                return Err(error.clone());
            }
            if now >= deadline && !self.scene.may_lose_connections() {
                simulation::fail("a target does not answer a leaver");
                return Ok(());
            }
            let Self { queues, ring, events, scratch, .. } = self;
            for queue in queues.iter_mut() {
                queue.flush(ring);
                queue.on_time(ring, now);
            }
            events.clear();
            if ring.wait(Some(Duration::from_micros(100)), events).is_err() {
                return Ok(());
            }
            for event in events.iter() {
                if let Event::Ready { token, readiness } = event
                    && let Some(queue) = queues.iter_mut().find(|queue| queue.token() == *token)
                {
                    queue.on_ready(ring, scratch, *readiness);
                }
            }
            for queue in queues.iter_mut().filter(|queue| queue.has_more()) {
                let readable = engine::ring::Readiness { readable: true, ..Default::default() };
                queue.on_ready(ring, scratch, readable);
            }
            self.take_completions();
        }
        Ok(())
    }

    fn take_completions(&mut self) {
        for at in 0..self.queues.len() {
            while let Some(ended) = self.queues[at].pop() {
                // A lost connection does not mean that the command has ended.
                let Ok(completion) = ended.answer() else { continue };
                if completion.user == COMPARING {
                    // How its Write ends says it, too.
                } else if self.forbidden.contains(&completion.user) {
                    if completion.status.is_success() {
                        simulation::fail("the Write of a pair went well whose Compare cannot have");
                    }
                } else if completion.user == LEAVING {
                    self.disconnected.push(self.queues[at].token());
                } else {
                    self.end(completion.user, WriteEnd::Answered(completion.status));
                }
            }
        }
    }

    /// Writes Controller Configuration, and waits until these bits of the controller's status, which it gives, are `wanted`.
    fn configure(&mut self, value: u32, mask: u32, wanted: u32) -> Result<u32, InitiatorError> {
        let set = PropertyAccess { offset: property::CONFIGURATION, wide: false, value: value.into() };
        self.controller.admin(set.encode_set(), None, 0)?.success("Property Set")?;
        let get = PropertyAccess { offset: property::STATUS, wide: false, value: 0 };
        let deadline = simulation::now().after(PATIENCE);
        loop {
            let status = self.controller.admin(get.encode_get(), None, 0)?.result as u32;
            if status & mask == wanted {
                return Ok(status);
            }
            if simulation::now() >= deadline && !self.scene.may_lose_connections() {
                simulation::fail(format!("a controller does not come to rest after CC {value:#x}"));
                return Ok(controller_status::FATAL);
            }
            sleep(LOOK_INTERVAL);
        }
    }

    /// Disconnects all queues, and waits for the answers.
    fn disconnect(&mut self) -> Result<(), InitiatorError> {
        let deadline = self.ring.now().after(PATIENCE);
        for at in 0..self.queues.len() {
            // A queue may be full.
            self.turn_until(|session| session.queues[at].free_slots() > 0 || session.ring.now() >= deadline)?;
            let request = Request { entry: disconnect(), data: Data::None, user: LEAVING };
            if self.queues[at].submit(request).is_err() {
                simulation::fail("a queue stays full");
            }
        }
        self.turn_until(|session| session.disconnected.len() == session.queues.len())
    }

    /// The target has said that it is done: what had no answer has happened by now, or never does.
    fn settled(&mut self) {
        for name in self.begun.iter().map(|begun| begun.name).collect::<Vec<_>>() {
            self.end(name, WriteEnd::Answered(Status::ABORT_REQUESTED));
        }
    }

    /// Marks its outstanding commands as of unknown outcome, until all that could be under way has
    /// ended.
    fn forget(mut self) {
        let rest = host::rest(self.scene, self.plan.keep_alive_ms);
        for name in self.begun.iter().map(|begun| begun.name).collect::<Vec<_>>() {
            self.end(name, WriteEnd::Lost { rest });
        }
        let Self { queues, ring, .. } = &mut self;
        queues.iter_mut().for_each(|queue| queue.close(ring));
    }

    fn end(&mut self, name: u64, end: WriteEnd) {
        let Some(at) = self.begun.iter().position(|begun| begun.name == name) else { return };
        let Begun { start, count, durable, .. } = self.begun.swap_remove(at);
        if matches!(end, WriteEnd::Answered(status) if status.is_success()) {
            self.known = Some((start, count, name));
        }
        self.scene.history.borrow_mut().end_write((start, count), name, durable, end);
    }
}
