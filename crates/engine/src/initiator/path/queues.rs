//! All paths' queues on one thread, as one queue: takes commands, sends each on a path of the policy's choice, and sends it
//! again elsewhere when that path is lost, as soon as this can do no harm. It does not wait, spawn or connect controllers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nvme::Status;

use super::command::{Command, Until};
use super::distance::current_cpu;
use super::options::PathOptions;
use super::path_connections::PathConnections;
use super::path_share::PathShare;
use super::paths::Paths;
use super::policy::{Access, Candidate, Chooser, class_of};
use super::retry::{self, Verdict};
use super::shared::Shared;
use super::stage::StageLatencies;
use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::driver::CommandQueues;
use crate::initiator::{Completion, Data, Ended, InitiatorError, Lost, Request};
use crate::ring::{Buffer, Event, Moment, Ring, now};

/// While commands wait for a path, this often it is looked whether they still may.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which a thread publishes the stages of its commands.
const STAGES_INTERVAL: Duration = Duration::from_secs(1);
/// A command that met a passing error is sent again after this.
const PASSING_DELAY: Duration = Duration::from_millis(100);

/// Queues of one thread on all paths. Its owner's loop is that of a
/// [`Queue`](crate::initiator::Queue): wait until `next_deadline` at most (not at all while
/// `has_more`), `on_events`, `pop`, `submit`, `flush`; and `turn` once each time round. `close` it
/// before it is dropped: a lost controller is not quiesced while a thread has queues of it.
#[derive(Debug)]
pub struct PathQueues {
    shared: Arc<Shared>,
    /// Index of this thread, and number of threads.
    worker: u16,
    workers: u16,
    generation: u64,
    connections: Vec<PathConnections>,
    candidates: Vec<Candidate>,
    chooser: Chooser,
    commands: Vec<Command>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    /// Commands that are held, or sent again later.
    resting: Vec<(u32, Until)>,
    ended: VecDeque<Ended>,
    /// Set while commands that change the namespace wait for controllers of an earlier process, or for lost ones.
    is_held: bool,
    /// Set once a cancelled command waits: those that do are ended at the next turn.
    ends_cancelled: bool,
    /// There is no path that commands may wait for.
    failed: Option<Arc<InitiatorError>>,
    clock: Moment,
    /// Time at which the stages of commands were published last.
    published_at: Moment,
    /// The most bytes of one command that all paths take.
    transfer_length_min: usize,
    /// The processor that the thread was on when it last came round, for the policy that asks how far a path is from it.
    cpu: usize,
    /// Under this number others wake the thread.
    waker: u64,
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
        // One for all paths: a thread's queues take no more of the processor to authenticate than one thread has.
        let authentication = AuthenticationWorker::new(ring.waker());
        let connections = |index| PathConnections::new(index, token_base, authentication.clone());
        let mut queues = Self {
            worker,
            workers: workers.max(1),
            generation: 0,
            connections: (0..count).map(connections).collect(),
            candidates: vec![Candidate::default(); count],
            chooser: Chooser::new(shared.options.policy),
            commands: (0..depth).map(|_| Command::default()).collect(),
            free: (0..depth as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth),
            resting: Vec::new(),
            ended: VecDeque::with_capacity(depth),
            is_held: shared.waits_for_left_controllers(),
            ends_cancelled: false,
            failed: None,
            clock: ring.now(),
            published_at: ring.now(),
            transfer_length_min: usize::MAX,
            cpu: 0,
            waker,
            shared,
        };
        queues.turn(ring, now());
        queues
    }

    /// True if a path takes commands.
    pub fn is_ready(&self) -> bool {
        self.connections.iter().any(PathConnections::is_ready)
    }

    /// True if all paths that are live take commands: the moment to begin.
    pub fn is_settled(&self) -> bool {
        self.shared
            .paths
            .iter()
            .zip(&self.connections)
            .all(|(path, connections)| path.live() == 0 || connections.is_ready())
    }

    /// Commands that are outstanding, wherever they are.
    pub const fn outstanding(&self) -> usize {
        self.commands.len() - self.free.len()
    }

    /// Commands that wait: for a path, or for a lost controller to come to rest.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.resting.len()
    }

    /// Work done on each path, in their order, with the system's statistics of the connections.
    pub fn report(&self) -> Vec<PathShare> {
        let report = |share: &PathConnections| PathShare {
            commands: share.tally.commands,
            bytes: share.tally.bytes,
            latency_ns: share.tally.latency_ns,
            stages: share.tally.stages,
            requeued: share.tally.requeued,
            in_flight: share.in_flight,
            connections: share.reports(),
        };
        self.connections.iter().map(report).collect()
    }

    /// Stages on which the time of the commands on each path was spent.
    pub fn stages(&self) -> Vec<StageLatencies> {
        self.connections.iter().map(|connections| connections.tally.stages).collect()
    }

    /// Opens queues of paths that have come, and closes those of paths that have gone.
    fn follow(&mut self, ring: &mut Ring, now: Moment) {
        for at in 0..self.connections.len() {
            let live = self.shared.paths[at].live();
            if self.connections[at].association() != 0 && self.connections[at].association() != live {
                self.connections[at].close(ring, true);
                self.gather(at, now);
                self.let_go(at);
            }
            if self.connections[at].association() == 0 && live != 0 && !self.shared.is_stopping() {
                let ids = (self.worker + 1..=crate::limits::IO_QUEUES_MAX).step_by(self.workers.into());
                if let Err((association, error)) =
                    self.connections[at].open(ring, &self.shared.paths[at], ids)
                {
                    self.shared.lose(at, association, error);
                }
            }
        }
    }

    /// The thread is on this processor: another than before, or with other paths.
    fn see_from(&mut self, cpu: usize) {
        self.cpu = cpu;
        self.connections.iter_mut().for_each(|connections| connections.see_from(cpu));
    }

    /// Ends an association here; commands that had chosen it choose again.
    fn let_go(&mut self, at: usize) {
        while let Some(place) = self.connections[at].backlog.pop_front() {
            self.connections[at].in_flight -= 1;
            self.connections[at].tally.requeued += 1;
            self.ends_cancelled |= self.commands[place as usize].is_cancelled;
            self.waiting.push_back(place);
        }
        if self.connections[at].association() != 0 && self.connections[at].leave(&self.shared.paths[at]) {
            self.shared.event_count.notify_all();
        }
    }

    /// Takes in what ended on a path.
    fn gather(&mut self, at: usize, now: Moment) {
        while let Some(ended) = self.connections[at].pop() {
            let place = ended.user() as u32;
            let association = self.connections[at].association();
            self.connections[at].in_flight -= 1;
            match ended {
                Ended::Answered(completion) => self.answered(place, at, completion, now),
                Ended::Lost(lost) => self.lost(place, at, association, lost.data),
            }
        }
    }

    /// A command's answer was lost.
    fn lost(&mut self, place: u32, at: usize, association: u64, data: Option<Buffer>) {
        self.connections[at].tally.requeued += 1;
        let command = &mut self.commands[place as usize];
        command.take_back(data);
        self.ends_cancelled |= command.is_cancelled;
        if retry::is_harmless_twice(command.entry.opcode) || self.shared.paths[at].is_at_rest(association) {
            self.waiting.push_back(place);
        } else {
            self.resting.push((place, Until::AtRest(at, association)));
        }
    }

    fn answered(&mut self, place: u32, at: usize, completion: Completion, now: Moment) {
        let command = &mut self.commands[place as usize];
        let connections = &mut self.connections[at];
        match retry::verdict(completion.status) {
            Verdict::Deliver => {
                if completion.status.without_flags() == Status::RESERVATION_CONFLICT
                    && !connections.has_logged_conflict
                {
                    connections.has_logged_conflict = true;
                    let address = self.shared.paths[at].options.address;
                    tracing::warn!(path = %address, "the namespace is reserved by another host");
                }
                connections.tally.commands += 1;
                connections.tally.bytes += u64::from(command.length);
                connections.tally.latency_ns += now.since(command.sent).as_nanos() as u64;
                connections.tally.stages.add(command.taken, command.queued, completion.timing, now);
                connections.estimate.done(now, command.class, command.sent, command.ahead);
                #[cfg(any(test, feature = "simulation"))]
                self.chooser.done(at, command.sends, now.since(command.sent));
                self.finish(place, Ended::Answered(completion));
            }
            Verdict::Elsewhere => {
                connections.tally.requeued += 1;
                command.take_back(completion.data);
                self.ends_cancelled |= command.is_cancelled;
                if retry::is_about_access(completion.status) {
                    self.shared.paths[at].doubt_ana();
                    self.shared.event_count.notify_all();
                    self.waiting.push_back(place);
                } else {
                    // The path may be the only one, and say the same at once.
                    self.resting.push((place, Until::Moment(now.after(PASSING_DELAY))));
                }
            }
            Verdict::Again if command.retries < retry::PASSING_MAX => {
                command.retries += 1;
                command.take_back(completion.data);
                self.ends_cancelled |= command.is_cancelled;
                self.resting.push((place, Until::Moment(now.after(PASSING_DELAY))));
            }
            Verdict::Again => self.finish(place, Ended::Answered(completion)),
        }
    }

    fn finish(&mut self, place: u32, ended: Ended) {
        let user = self.commands[place as usize].user;
        self.free.push(place);
        self.ended.push_back(ended.with_user(user));
    }

    /// Lets commands go on whose time has come.
    fn wake_up(&mut self, now: Moment) {
        let Self { resting, waiting, shared, .. } = self;
        resting.retain(|(place, until)| {
            let goes_on = match *until {
                Until::AtRest(path, association) => shared.paths[path].is_at_rest(association),
                Until::LeftControllersAtRest => !shared.waits_for_left_controllers(),
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
        let (class, length) = (self.commands[place as usize].class, self.commands[place as usize].length);
        self.look_at_paths(class);
        if length as usize > self.transfer_length_min {
            self.pass_over_narrow_paths(length as usize);
        }
        #[cfg(any(test, feature = "simulation"))]
        self.chooser.see(self.clock, self.commands[place as usize].sends);
        let Some(at) = self.chooser.choose(&self.candidates) else {
            self.waiting.push_front(place);
            return false;
        };
        let connections = &mut self.connections[at];
        connections.in_flight += 1;
        connections.estimate.sent(self.clock, connections.in_flight);
        let command = &mut self.commands[place as usize];
        command.sent = self.clock;
        command.ahead = connections.in_flight;
        if connections.backlog.is_empty() && connections.has_room() {
            self.send(at, place);
        } else {
            connections.backlog.push_back(place);
        }
        true
    }

    /// Brings what the policies see up to date.
    fn look_at_paths(&mut self, class: usize) {
        let looks_at_time = self.chooser.looks_at_time() && self.connections.len() > 1;
        for ((candidate, connections), path) in
            self.candidates.iter_mut().zip(&self.connections).zip(&self.shared.paths)
        {
            *candidate = connections.candidate(path);
            if looks_at_time && candidate.access != Access::None {
                candidate.service_ns = connections.estimate.service_ns(class);
                candidate.silent_ns = connections.estimate.silent_ns(self.clock, connections.in_flight);
                candidate.idle_ns = connections.estimate.idle_ns(self.clock);
            }
        }
    }

    /// A command was made for the paths that were there. One that has joined since, and takes less at a time, is for others,
    /// as long as there is another.
    #[cold]
    fn pass_over_narrow_paths(&mut self, length: usize) {
        let is_wide = |connections: &PathConnections| connections.transfer_length_max() >= length;
        let mut both = self.candidates.iter().zip(&self.connections);
        if both.any(|(candidate, path)| candidate.access != Access::None && is_wide(path)) {
            for (candidate, path) in self.candidates.iter_mut().zip(&self.connections) {
                if !is_wide(path) {
                    candidate.access = Access::None;
                }
            }
        }
    }

    fn drain_backlogs(&mut self) {
        for at in 0..self.connections.len() {
            while self.connections[at].has_room() {
                let Some(place) = self.connections[at].backlog.pop_front() else { break };
                self.send(at, place);
            }
        }
    }

    fn send(&mut self, at: usize, place: u32) {
        let command = &mut self.commands[place as usize];
        command.queued = self.clock;
        let data = std::mem::take(&mut command.data);
        let request = Request { entry: command.entry, data, user: u64::from(place) };
        if let Err(request) = self.connections[at].submit(request) {
            // A queue had room a moment ago; it is gone, and so will its path be.
            self.commands[place as usize].data = request.data;
            self.connections[at].backlog.push_front(place);
        }
    }

    /// There is no path, and none will come: everything fails.
    fn fail(&mut self) {
        if self.failed.is_none() {
            self.failed = Some(Arc::new(self.shared.error()));
        }
        // Users may write the same blocks next, which a lost controller could undo.
        self.hold_writes_for(self.resting.iter().filter_map(|(_, until)| until.association()).collect());
        if let Some(error) = self.failed.clone() {
            self.fail_all(&error);
        }
    }

    /// Holds writes until these associations have come to rest, each of which has a write that ends without its answer.
    fn hold_writes_for(&mut self, unanswered: Vec<(usize, u64)>) {
        if !unanswered.is_empty() {
            self.shared.hold_writes_for(unanswered);
            self.is_held = self.shared.waits_for_left_controllers();
        }
    }

    fn fail_all(&mut self, error: &Arc<InitiatorError>) {
        let places: Vec<u32> =
            self.waiting.drain(..).chain(self.resting.drain(..).map(|(place, _)| place)).collect();
        self.fail_these(places, error);
    }

    /// Fails commands that have waited for as long as they may: all that wait, and sooner writes that are held since others have
    /// failed, which wait as long as a command without a path.
    fn fail_late(&mut self, now: Moment) {
        let PathOptions { fast_io_fail, wait_limit, .. } = self.shared.options;
        let held_limit = fast_io_fail.filter(|_| self.shared.waits_for_failed_writes());
        if wait_limit.is_none() && held_limit.is_none() {
            return;
        }
        self.fail_waiting(|command, until| {
            let is_past = |limit: Duration| now.since(command.taken) >= limit;
            let is_held = matches!(until, Some(Until::LeftControllersAtRest));
            wait_limit.is_some_and(is_past) || is_held && held_limit.is_some_and(is_past)
        });
    }

    /// Cancels the commands of a user that is gone: those that no controller has end as lost, and others are not sent again. Sent
    /// later, they could undo what that user writes over another connection meanwhile.
    pub fn cancel(&mut self, is_gone: impl Fn(u64) -> bool) {
        for command in &mut self.commands {
            command.is_cancelled |= is_gone(command.user);
        }
        self.end_cancelled();
    }

    /// Ends cancelled commands that no controller has, or of which the answer was lost.
    fn end_cancelled(&mut self) {
        self.fail_waiting(|command, _| command.is_cancelled);
    }

    /// Ends those of the waiting commands as lost that are asked for.
    fn fail_waiting(&mut self, is_asked: impl Fn(&Command, Option<Until>) -> bool) {
        let Self { commands, waiting, resting, .. } = self;
        let is_asked = |place: u32, until: Option<Until>| is_asked(&commands[place as usize], until);
        let held: Vec<_> = resting.extract_if(.., |(place, until)| is_asked(*place, Some(*until))).collect();
        let mut places: Vec<u32> = waiting.iter().copied().filter(|place| is_asked(*place, None)).collect();
        if held.is_empty() && places.is_empty() {
            return;
        }
        waiting.retain(|place| !is_asked(*place, None));
        places.extend(held.iter().map(|(place, _)| *place));
        self.hold_writes_for(held.iter().filter_map(|(_, until)| until.association()).collect());
        let error = Arc::new(self.shared.error());
        self.fail_these(places, &error);
    }

    fn fail_these(&mut self, places: Vec<u32>, error: &Arc<InitiatorError>) {
        for place in places {
            let data = std::mem::take(&mut self.commands[place as usize].data).into_buffer();
            self.finish(place, Ended::Lost(Lost { user: 0, data, error: error.clone() }));
        }
    }
}

impl CommandQueues for PathQueues {
    /// Why there is no path that commands may wait for. They fail for as long as it is so.
    fn error(&self) -> Option<&InitiatorError> {
        self.failed.as_deref()
    }

    /// Commands that `submit` takes now.
    fn free_slots(&self) -> usize {
        self.free.len()
    }

    fn see(&mut self, now: Moment) {
        self.clock = now;
    }

    /// Takes a command; `flush` sends it, unless it has to wait for a path.
    ///
    /// # Errors
    /// Gives the request back when `depth` commands are outstanding.
    fn submit(&mut self, request: Request) -> Result<(), Request> {
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
            taken: self.clock,
            ..Command::default()
        };
        if self.is_held && !retry::is_harmless_twice(entry.opcode) {
            self.resting.push((place, Until::LeftControllersAtRest));
        } else if self.waiting.is_empty() {
            self.dispatch_or_wait(place);
        } else {
            self.waiting.push_back(place);
        }
        Ok(())
    }

    /// The next command that has ended. It is lost where no path is left for it.
    fn pop(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// True if there is something to take in that no event reports.
    fn has_more(&self) -> bool {
        !self.ended.is_empty() || self.connections.iter().any(PathConnections::has_more)
    }

    /// Passes on what the ring has seen, and takes in what the queues bring.
    fn on_events(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment) {
        self.clock = now;
        for connections in &mut self.connections {
            connections.on_more(ring, scratch, now);
        }
        for event in events {
            let Event::Ready { token, readiness } = event else { continue };
            for connections in &mut self.connections {
                if connections.on_ready(ring, scratch, *token, *readiness, now) {
                    break;
                }
            }
        }
        if self.connections.iter().any(PathConnections::has_ended) {
            // Receiving took its time, which is the commands' own.
            self.clock = ring.now();
        }
        for at in 0..self.connections.len() {
            self.gather(at, self.clock);
        }
    }

    /// Minds time-outs, follows the paths' changes, and finds ways for commands that wait.
    fn turn(&mut self, ring: &mut Ring, now: Moment) {
        // What was received meanwhile is not from later.
        let now = now.max(self.clock);
        self.clock = now;
        if now.since(self.published_at) >= STAGES_INTERVAL {
            self.published_at = now;
            self.shared.publish_stages(self.worker, self.stages());
        }
        for at in 0..self.connections.len() {
            if let Some(error) = self.connections[at].mind(ring, now) {
                self.shared.lose(at, self.connections[at].association(), error);
            }
        }
        let cpu = if self.chooser.looks_at_distance() { current_cpu() } else { 0 };
        let generation = self.shared.generation();
        if generation != self.generation {
            self.generation = generation;
            self.is_held = self.shared.waits_for_left_controllers();
            self.follow(ring, now);
            let widths = self.connections.iter().map(PathConnections::transfer_length_max);
            self.transfer_length_min = widths.min().unwrap_or(usize::MAX);
            self.see_from(cpu);
        } else if cpu != self.cpu {
            self.see_from(cpu);
        }
        if !self.resting.is_empty() {
            self.wake_up(now);
        }
        if std::mem::take(&mut self.ends_cancelled) {
            self.end_cancelled();
        }
        self.fail_late(now);
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

    /// Sends all that is queued.
    fn flush(&mut self, ring: &mut Ring) {
        for connections in &mut self.connections {
            connections.flush(ring);
        }
    }

    /// Latest time of the next call of `turn`.
    fn next_deadline(&self) -> Option<Moment> {
        let queues = self.connections.iter().filter_map(PathConnections::next_deadline).min();
        let waits = !self.waiting.is_empty() || !self.resting.is_empty();
        let look = waits.then(|| self.clock.after(WAIT_INTERVAL));
        queues.into_iter().chain(look).min()
    }

    /// Closes all queues. What is outstanding comes back failed.
    fn close(&mut self, ring: &mut Ring) {
        for at in 0..self.connections.len() {
            self.connections[at].close(ring, false);
            self.gather(at, self.clock);
            self.let_go(at);
        }
        let address = self.shared.paths[0].options.address;
        let error = Arc::new(InitiatorError::Disconnected { address });
        self.fail_all(&error);
        self.failed = Some(error);
        self.shared.publish_stages(self.worker, self.stages());
        self.shared.remove_waker(self.waker);
    }
}
