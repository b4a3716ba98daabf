//! All paths' queues on one thread, as one queue: takes commands, sends each on a path of the policy's choice, and sends it
//! again elsewhere when that path is lost, as soon as this can do no harm. It does not wait, spawn or connect controllers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nvme::{Status, SubmissionEntry};

use super::candidate::{Access, Candidate};
use super::estimate::class_of;
use super::lane::{ConnectionReport, Lane};
use super::policy::Chooser;
use super::retry::{self, Verdict};
use super::set::{Paths, Shared};
use crate::initiator::{Completion, Data, InitiatorError, Request};
use crate::ring::{Buffer, Event, Moment, Ring, now};

/// While commands wait for a path, this often it is looked whether they still may.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);
/// A command that met a passing error is sent again after this.
const PASSING_DELAY: Duration = Duration::from_millis(100);

/// A command between `submit` and its completion.
#[derive(Debug, Default)]
struct Command {
    entry: SubmissionEntry,
    user: u64,
    /// Its data while no queue has it.
    data: Data,
    /// Which way its data goes.
    sends: bool,
    class: usize,
    length: u32,
    /// Times it has met a passing error.
    retries: u8,
    /// When it was last given to a path, and how many that then had.
    sent: Moment,
    ahead: u32,
}

/// What a command that rests waits for.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// Its answer was lost with this incarnation of a path, which has to come to rest.
    AtRest(usize, u64),
    /// This time.
    Moment(Moment),
}

/// One thread's queues on all paths. Its owner's loop is that of a [`Queue`](crate::initiator::Queue): wait until
/// `next_deadline` at most (not at all while `has_more`), `on_events`, `pop`, `submit`, `flush`; and `turn` once each time
/// round. `close` it before it is dropped: a lost controller does not come to rest while somebody has queues of it.
#[derive(Debug)]
pub struct PathQueues {
    shared: Arc<Shared>,
    /// Which of how many threads this is.
    worker: u16,
    workers: u16,
    generation: u64,
    lanes: Vec<Lane>,
    candidates: Vec<Candidate>,
    chooser: Chooser,
    commands: Vec<Command>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    /// Commands that are held, or sent again later.
    resting: Vec<(u32, Until)>,
    completions: VecDeque<Completion>,
    /// There is no path that commands may wait for.
    failed: Option<InitiatorError>,
    clock: Moment,
    /// Under this number others wake the thread.
    waker: u64,
}

/// What one thread did on one path.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LaneReport {
    /// Commands completed, and their bytes.
    pub commands: u64,
    /// Bytes of data of these commands.
    pub bytes: u64,
    /// Sum of the commands' times, in nanoseconds.
    pub latency_ns: u64,
    /// Commands that were sent again elsewhere.
    pub requeued: u64,
    /// Commands given to it and not completed.
    pub in_flight: u32,
    /// Its connections.
    pub connections: Vec<ConnectionReport>,
}

impl PathQueues {
    /// Queues for thread `worker` of `workers`, which has each `workers`th queue of every path, and never has more than
    /// `depth` commands outstanding. Events of the ring with tokens from `token_base` on are its own.
    pub fn open(
        paths: &Paths,
        ring: &mut Ring,
        token_base: u32,
        worker: u16,
        workers: u16,
        depth: usize,
    ) -> Self {
        let shared = paths.shared.clone();
        let waker = shared.add_waker(ring.waker());
        let count = shared.paths.len();
        let mut queues = Self {
            worker,
            workers: workers.max(1),
            generation: 0,
            lanes: (0..count).map(|index| Lane::new(index, token_base)).collect(),
            candidates: vec![Candidate::default(); count],
            chooser: Chooser::new(shared.options.policy),
            commands: (0..depth).map(|_| Command::default()).collect(),
            free: (0..depth as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth),
            resting: Vec::new(),
            completions: VecDeque::with_capacity(depth),
            failed: None,
            clock: ring.now(),
            waker,
            shared,
        };
        queues.turn(ring, now());
        queues
    }

    /// Whether a path takes commands.
    pub fn is_ready(&self) -> bool {
        self.lanes.iter().any(Lane::is_ready)
    }

    /// Whether all paths that are live take commands: the moment to begin.
    pub fn is_settled(&self) -> bool {
        self.shared.paths.iter().zip(&self.lanes).all(|(path, lane)| path.live() == 0 || lane.is_ready())
    }

    /// Why there is no path that commands may wait for. They fail for as long as it is so.
    pub const fn error(&self) -> Option<&InitiatorError> {
        self.failed.as_ref()
    }

    /// Commands that `submit` takes now.
    pub const fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Commands that are outstanding, wherever they are.
    pub const fn outstanding(&self) -> usize {
        self.commands.len() - self.free.len()
    }

    /// Commands that wait: for a path, or for a lost controller to come to rest.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.resting.len()
    }

    /// Whether a socket may have more to read.
    pub fn has_more(&self) -> bool {
        self.lanes.iter().any(Lane::has_more)
    }

    /// Takes a command; `flush` sends it, unless it has to wait for a path.
    ///
    /// # Errors
    /// Gives the request back when `depth` commands are outstanding.
    pub fn submit(&mut self, request: Request) -> Result<(), Request> {
        let Some(place) = self.free.pop() else { return Err(request) };
        let Request { entry, data, user } = request;
        let (sends, length) = match &data {
            Data::None => (false, 0),
            Data::Send(buffer) => (true, buffer.len()),
            Data::Receive(buffer) => (false, buffer.len()),
        };
        self.commands[place as usize] = Command {
            entry,
            user,
            data,
            sends,
            class: class_of(sends, length),
            length: length as u32,
            ..Command::default()
        };
        if self.waiting.is_empty() {
            self.dispatch_or_wait(place);
        } else {
            self.waiting.push_back(place);
        }
        Ok(())
    }

    /// The next completion. `Status::HOST_PATH_ERROR` says that there was no path for it.
    pub fn pop(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Passes on what the ring has seen, and takes in what the queues bring.
    pub fn on_events(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        self.clock = now;
        for lane in &mut self.lanes {
            lane.on_more(ring, scratch);
        }
        for event in events {
            let Event::Ready { token, readiness } = event else { continue };
            for lane in &mut self.lanes {
                if let Some(at) = lane.owns(*token) {
                    lane.on_ready(ring, scratch, at, *readiness);
                    break;
                }
            }
        }
        for lane in 0..self.lanes.len() {
            self.gather(lane, now);
        }
    }

    /// Sends all that is queued.
    pub fn flush(&mut self, ring: &mut Ring) {
        for lane in &mut self.lanes {
            lane.flush(ring);
        }
    }

    /// Minds time-outs, follows the paths' changes, and finds ways for commands that wait.
    pub fn turn(&mut self, ring: &mut Ring, now: Moment) {
        self.clock = now;
        for at in 0..self.lanes.len() {
            if let Some(error) = self.lanes[at].mind(ring, now) {
                self.shared.lose(at, self.lanes[at].incarnation(), error);
            }
        }
        let generation = self.shared.generation();
        if generation != self.generation {
            self.generation = generation;
            self.follow(ring, now);
        }
        if !self.resting.is_empty() {
            self.wake_up(now);
        }
        self.drain_backlogs();
        while let Some(place) = self.waiting.pop_front() {
            if !self.dispatch_or_wait(place) {
                break;
            }
        }
        let stuck = !self.waiting.is_empty() || !self.resting.is_empty();
        if (stuck || !self.is_ready()) && !self.shared.may_come_back(now) {
            self.fail();
        } else if self.is_ready() {
            self.failed = None;
        }
    }

    /// When `turn` wants to be called, at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let queues = self.lanes.iter().filter_map(Lane::next_deadline).min();
        let waits = !self.waiting.is_empty() || !self.resting.is_empty();
        let look = waits.then(|| self.clock.after(WAIT_INTERVAL));
        queues.into_iter().chain(look).min()
    }

    /// Closes all queues. What is outstanding comes back failed.
    pub fn close(&mut self, ring: &mut Ring) {
        for at in 0..self.lanes.len() {
            self.lanes[at].close(ring, false);
            self.gather(at, self.clock);
            self.let_go(at);
        }
        self.fail_all();
        self.shared.remove_waker(self.waker);
    }

    /// What was done on each path, in their order, with what the system says of the connections.
    pub fn report(&self) -> Vec<LaneReport> {
        let report = |lane: &Lane| LaneReport {
            commands: lane.tally.commands,
            bytes: lane.tally.bytes,
            latency_ns: lane.tally.latency_ns,
            requeued: lane.tally.requeued,
            in_flight: lane.in_flight,
            connections: lane.connections(),
        };
        self.lanes.iter().map(report).collect()
    }

    /// Opens queues of paths that have come, and closes those of paths that have gone.
    fn follow(&mut self, ring: &mut Ring, now: Moment) {
        for at in 0..self.lanes.len() {
            let live = self.shared.paths[at].live();
            if self.lanes[at].incarnation() != 0 && self.lanes[at].incarnation() != live {
                self.lanes[at].close(ring, true);
                self.gather(at, now);
                self.let_go(at);
            }
            if self.lanes[at].incarnation() == 0 && live != 0 && !self.shared.is_stopping() {
                let ids = (self.worker + 1..=crate::limits::IO_QUEUES_MAX).step_by(self.workers.into());
                if let Err((incarnation, error)) = self.lanes[at].open(ring, &self.shared.paths[at], ids) {
                    self.shared.lose(at, incarnation, error);
                }
            }
        }
    }

    /// Ends a lane's incarnation here; what had chosen it chooses anew.
    fn let_go(&mut self, at: usize) {
        while let Some(place) = self.lanes[at].backlog.pop_front() {
            self.lanes[at].in_flight -= 1;
            self.lanes[at].tally.requeued += 1;
            self.waiting.push_back(place);
        }
        if self.lanes[at].incarnation() != 0 && self.lanes[at].leave(&self.shared.paths[at]) {
            self.shared.bell.ring();
        }
    }

    /// Takes in a lane's completions.
    fn gather(&mut self, at: usize, now: Moment) {
        while let Some((completion, closed)) = self.lanes[at].pop() {
            let place = completion.user as u32;
            let incarnation = self.lanes[at].incarnation();
            self.lanes[at].in_flight -= 1;
            let is_lost = closed && completion.status == Status::HOST_PATH_ERROR;
            if is_lost {
                self.lost(place, at, incarnation, completion.data);
            } else {
                self.answered(place, at, completion, now);
            }
        }
    }

    /// A command's answer was lost.
    fn lost(&mut self, place: u32, at: usize, incarnation: u64, data: Option<Buffer>) {
        self.lanes[at].tally.requeued += 1;
        let command = &mut self.commands[place as usize];
        command.take_back(data);
        if retry::is_harmless_twice(command.entry.opcode) || self.shared.paths[at].is_at_rest(incarnation) {
            self.waiting.push_back(place);
        } else {
            self.resting.push((place, Until::AtRest(at, incarnation)));
        }
    }

    fn answered(&mut self, place: u32, at: usize, completion: Completion, now: Moment) {
        let command = &mut self.commands[place as usize];
        let lane = &mut self.lanes[at];
        match retry::verdict(completion.status) {
            Verdict::Deliver => {
                if completion.status.without_flags() == Status::RESERVATION_CONFLICT && !lane.told_of_conflict
                {
                    lane.told_of_conflict = true;
                    let address = self.shared.paths[at].options.address;
                    tracing::warn!(path = %address, "the namespace is reserved by another host");
                }
                lane.tally.commands += 1;
                lane.tally.bytes += u64::from(command.length);
                lane.tally.latency_ns += now.since(command.sent).as_nanos() as u64;
                lane.estimate.done(now, command.class, command.sent, command.ahead);
                self.finish(place, completion);
            }
            Verdict::Elsewhere => {
                lane.tally.requeued += 1;
                command.take_back(completion.data);
                if retry::is_about_access(completion.status) {
                    self.shared.paths[at].doubt_ana();
                    self.shared.bell.ring();
                    self.waiting.push_back(place);
                } else {
                    // The path may be the only one, and say the same at once.
                    self.resting.push((place, Until::Moment(now.after(PASSING_DELAY))));
                }
            }
            Verdict::Again if command.retries < retry::PASSING_MAX => {
                command.retries += 1;
                command.take_back(completion.data);
                self.resting.push((place, Until::Moment(now.after(PASSING_DELAY))));
            }
            Verdict::Again => self.finish(place, completion),
        }
    }

    fn finish(&mut self, place: u32, completion: Completion) {
        let user = self.commands[place as usize].user;
        self.free.push(place);
        self.completions.push_back(Completion { user, ..completion });
    }

    /// Lets commands go on whose time has come.
    fn wake_up(&mut self, now: Moment) {
        let Self { resting, waiting, shared, .. } = self;
        resting.retain(|(place, until)| {
            let goes_on = match *until {
                Until::AtRest(path, incarnation) => shared.paths[path].is_at_rest(incarnation),
                Until::Moment(moment) => now >= moment,
            };
            if goes_on {
                waiting.push_back(*place);
            }
            !goes_on
        });
    }

    /// Sends the command on a path; when there is none, it is the first to wait, and the answer is false.
    fn dispatch_or_wait(&mut self, place: u32) -> bool {
        let class = self.commands[place as usize].class;
        self.look_at_paths(class);
        let Some(at) = self.chooser.choose(&self.candidates) else {
            self.waiting.push_front(place);
            return false;
        };
        let lane = &mut self.lanes[at];
        lane.in_flight += 1;
        lane.estimate.sent(self.clock, lane.in_flight);
        let command = &mut self.commands[place as usize];
        command.sent = self.clock;
        command.ahead = lane.in_flight;
        if lane.backlog.is_empty() && lane.has_room() {
            self.send(at, place);
        } else {
            lane.backlog.push_back(place);
        }
        true
    }

    /// Brings what the policies see up to date.
    fn look_at_paths(&mut self, class: usize) {
        let looks_at_time = self.chooser.looks_at_time() && self.lanes.len() > 1;
        for ((candidate, lane), path) in self.candidates.iter_mut().zip(&self.lanes).zip(&self.shared.paths) {
            *candidate = lane.candidate(path);
            if looks_at_time && candidate.access != Access::None {
                candidate.service_ns = lane.estimate.service_ns(class);
                candidate.silent_ns = lane.estimate.silent_ns(self.clock, lane.in_flight);
                candidate.idle_ns = lane.estimate.idle_ns(self.clock);
            }
        }
    }

    fn drain_backlogs(&mut self) {
        for at in 0..self.lanes.len() {
            while self.lanes[at].has_room() {
                let Some(place) = self.lanes[at].backlog.pop_front() else { break };
                self.send(at, place);
            }
        }
    }

    fn send(&mut self, at: usize, place: u32) {
        let command = &mut self.commands[place as usize];
        let data = std::mem::take(&mut command.data);
        let request = Request { entry: command.entry, data, user: u64::from(place) };
        if let Err(request) = self.lanes[at].submit(request) {
            // A queue had room a moment ago; it is gone, and so will the lane be.
            self.commands[place as usize].data = request.data;
            self.lanes[at].backlog.push_front(place);
        }
    }

    /// There is no path, and none will come: everything fails.
    fn fail(&mut self) {
        if self.failed.is_none() {
            self.failed = Some(self.shared.error());
        }
        self.fail_all();
    }

    fn fail_all(&mut self) {
        let places: Vec<u32> =
            self.waiting.drain(..).chain(self.resting.drain(..).map(|(place, _)| place)).collect();
        for place in places {
            let data = std::mem::take(&mut self.commands[place as usize].data).into_buffer();
            let completion = Completion { user: 0, status: Status::HOST_PATH_ERROR, result: 0, data };
            self.finish(place, completion);
        }
    }
}

impl Command {
    /// Takes its buffer back, to be sent with again.
    fn take_back(&mut self, buffer: Option<Buffer>) {
        self.data = match buffer {
            None => Data::None,
            Some(buffer) if self.sends => Data::Send(buffer),
            Some(buffer) => Data::Receive(buffer),
        };
    }
}
