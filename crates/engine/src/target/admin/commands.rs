//! The commands of one admin queue: takes a command and its data, asks the module whose command it is, and gives back what it
//! wants next. It knows no socket, starts no I/O and touches no namespace's blocks.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nvme::command::admin_opcode;
use nvme::{Status, SubmissionEntry};

use super::answer::Answer;
use super::intake::{Intake, Taken, check_capsule};
use super::{cross_reset, discovery, features, identify, lba_status, log_page, namespace_admin, property};
use crate::limits::{ABORTS_MAX, ASYNC_EVENTS_MAX, BUFFER_LENGTH_MAX, WORK_BYTES_PER_TURN, WORK_PIECE};
use crate::ring::{Buffer, BufferPool};
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::messaging::{Address, Asker, Owner};
use crate::target::queue::{Disconnect, Next, Payload, Reply};
use crate::target::telemetry::{Peculiarity, Seen};

/// Resources that admin commands use during one turn of the queue.
pub(crate) struct AdminContext<'a> {
    pub(crate) pool: &'a mut BufferPool,
    pub(crate) fabric: &'a Arc<Fabric>,
    pub(crate) seen: &'a mut Seen,
}

/// A command that another thread answers.
#[derive(Debug)]
struct Held {
    command_id: u16,
    opcode: u8,
}

/// The commands of one admin queue.
#[derive(Debug)]
pub(crate) struct AdminCommands {
    pub(crate) controller: Arc<Controller>,
    intake: Intake,
    /// Event requests that wait for an event.
    events: Vec<u16>,
    /// Commands that other threads answer.
    held: Vec<Held>,
    /// Commands that later turns answer: the last one has answered enough, or the host has yet to read what it has asked for.
    deferred: VecDeque<SubmissionEntry>,
    /// Bytes that may still be answered in this turn.
    work_left: u64,
    address: Address,
    peer: SocketAddr,
    /// The address of this machine that the host has reached.
    reached: Option<IpAddr>,
}

impl AdminCommands {
    /// Creates the state of a newly connected admin queue with `entries` entries.
    pub(crate) fn new(
        controller: Arc<Controller>,
        entries: u16,
        (address, peer): (Address, SocketAddr),
        reached: Option<IpAddr>,
    ) -> Self {
        let (intake, work_left) = (Intake::new(entries), WORK_BYTES_PER_TURN);
        let (events, held, deferred) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { controller, intake, events, held, deferred, work_left, address, peer, reached }
    }

    /// Host and controller that these commands belong to.
    pub(crate) fn owner(&self) -> Owner {
        Owner { host: self.controller.host.digest, controller: self.controller.instance }
    }

    /// True while a command waits for its data, or for a turn.
    pub(crate) fn is_busy(&self) -> bool {
        self.intake.busy() > 0 || self.has_deferred()
    }

    /// True while a command waits for a turn.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// A turn begins, in which at most so much may be done of what the last one has left.
    pub(crate) fn begin_turn(&mut self, work_share: u64) {
        self.work_left = if self.has_deferred() { work_share.max(WORK_PIECE) } else { WORK_BYTES_PER_TURN };
    }

    /// Leaves what comes from now on to later turns.
    pub(crate) const fn end_turn(&mut self) {
        self.work_left = 0;
    }

    /// Answers the next command that an earlier turn has left, if this one may.
    pub(crate) fn advance<H>(&mut self, ctx: &mut AdminContext<'_>) -> Option<Vec<Next<H>>> {
        if self.work_left == 0 {
            return None;
        }
        let entry = self.deferred.pop_front()?;
        Some(self.run(&entry, &[], ctx))
    }

    /// Answers nothing further: the connection is closed, or about to be.
    pub(crate) fn stop(&mut self) {
        self.deferred.clear();
    }

    /// The event requests that wait.
    pub(crate) fn event_requests(&self) -> &[u16] {
        &self.events
    }

    /// These event requests wait since the old process.
    pub(crate) fn go_on(&mut self, event_requests: &[u16]) {
        self.events = event_requests.iter().copied().take(ASYNC_EVENTS_MAX).collect();
    }

    /// True if only event requests are outstanding.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.is_busy() && self.held.is_empty()
    }

    /// A command, with `data_length` bytes in its capsule.
    ///
    /// # Errors
    /// When no conforming host sends it.
    pub(crate) fn begin<H>(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        ctx: &mut AdminContext<'_>,
    ) -> Result<Vec<Next<H>>, Disconnect> {
        check_capsule(data_length)?;
        if let Err(status) = self.check(entry, ctx) {
            return Ok(vec![Next::Reply(self.refuse(entry, status, 0))]);
        }
        self.forget_event(entry.command_id.get(), ctx);
        let held = self.events.len() + self.held.len() + self.deferred.len();
        if entry.data.is_empty_of_another_type() {
            ctx.seen.note(Peculiarity::EmptyDescriptor);
        }
        if features::is_about_interrupts(entry) {
            ctx.seen.note(Peculiarity::InterruptFeature);
        }
        Ok(match self.intake.take(entry, data_length, held, ctx.pool)? {
            Err(status) => vec![Next::Reply(self.refuse(entry, status, 0))],
            Ok(Taken::Awaits(next)) => vec![next],
            Ok(Taken::Ready) if self.has_to_wait(entry) => {
                self.deferred.push_back(*entry);
                Vec::new()
            }
            Ok(Taken::Ready) => self.run(entry, &[], ctx),
        })
    }

    /// The data of a command has come.
    pub(crate) fn data_came<H>(
        &mut self,
        slot: u16,
        buffer: Buffer,
        is_intact: bool,
        ctx: &mut AdminContext<'_>,
    ) -> Vec<Next<H>> {
        let Some(entry) = self.intake.came(slot) else { return Vec::new() };
        let data = buffer.to_vec();
        ctx.pool.give(buffer);
        if !is_intact {
            return vec![Next::Reply(self.refuse(&entry, Status::TRANSIENT_TRANSPORT_ERROR, 0))];
        }
        self.run(&entry, &data, ctx)
    }

    /// Checks of a command that do not depend on its data.
    fn check(&self, entry: &SubmissionEntry, ctx: &AdminContext<'_>) -> Result<(), Status> {
        // Before its data is looked at, which may be in a form that only other commands have.
        if !has_command(entry.opcode, &self.controller, ctx.fabric) {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        // Only I/O commands come in pairs.
        if entry.fused() != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let command_id = entry.command_id.get();
        let is_held = self.held.iter().any(|held| held.command_id == command_id);
        let is_deferred = self.deferred.iter().any(|deferred| deferred.command_id.get() == command_id);
        if is_held || is_deferred || self.intake.has(command_id) {
            return Err(Status::COMMAND_ID_CONFLICT);
        }
        Ok(())
    }

    /// An identifier that an event request has, and that its host uses again, is one that the host has forgotten: SPDK's does
    /// that before it shuts a controller down. The event request is forgotten, too, since its answer would be taken for the
    /// new command's.
    fn forget_event(&mut self, command_id: u16, ctx: &mut AdminContext<'_>) {
        if let Some(at) = self.events.iter().position(|event| *event == command_id) {
            self.events.remove(at);
            ctx.seen.note(Peculiarity::ForgottenEventRequest);
        }
    }

    /// Answers a command that failed, and writes it into the error log.
    fn refuse<H>(&self, entry: &SubmissionEntry, status: Status, result: u64) -> Reply<H> {
        self.controller.log_error(0, entry, status);
        Reply::new(entry.command_id.get(), status, result)
    }

    /// True if a later turn answers this command. A burst of some thousand, in one receive, would otherwise be answered in one
    /// turn, with a megabyte each, while all other hosts of the reactor wait and all answers wait for their host.
    fn has_to_wait(&self, entry: &SubmissionEntry) -> bool {
        self.work_of(entry) > 0 && (self.work_left == 0 || self.has_deferred())
    }

    /// Bytes of work that the answer to a command counts as: what its host asks for, and no less than a page takes to make. A
    /// discovery log is looked for among all subsystems and ports.
    fn work_of(&self, entry: &SubmissionEntry) -> u64 {
        match entry.opcode {
            admin_opcode::GET_LOG_PAGE if self.controller.subsystem.is_discovery => WORK_BYTES_PER_TURN,
            admin_opcode::GET_LOG_PAGE => log_page::decode(entry).length_bytes().max(WORK_PIECE),
            admin_opcode::IDENTIFY => WORK_PIECE,
            _ => 0,
        }
    }

    fn run<H>(&mut self, entry: &SubmissionEntry, data: &[u8], ctx: &mut AdminContext<'_>) -> Vec<Next<H>> {
        self.work_left = self.work_left.saturating_sub(self.work_of(entry));
        if entry.opcode == admin_opcode::ASYNC_EVENT_REQUEST {
            return self.request_event(entry);
        }
        let command_id = entry.command_id.get();
        let (controller, fabric) = (self.controller.clone(), ctx.fabric);
        let mailboxes = fabric.mailboxes().clone();
        let asker = Asker { mailboxes, address: self.address, command_id, peer: self.peer };
        let mut aborted = None;
        let answer = match entry.opcode {
            admin_opcode::FABRICS => {
                let (answer, is_reset) = property::answer(entry, &controller, fabric);
                if is_reset {
                    // They end with the reset, without completions (Base 5.1.2): the host requests events again.
                    self.events.clear();
                }
                answer
            }
            admin_opcode::SET_FEATURES => features::set(entry, &controller, data, fabric, asker),
            admin_opcode::NAMESPACE_MANAGEMENT | admin_opcode::NAMESPACE_ATTACHMENT => {
                namespace_admin::answer(entry, &controller, data, fabric, asker)
            }
            admin_opcode::GET_LBA_STATUS => lba_status::answer(entry, &controller, fabric, asker),
            admin_opcode::CROSS_CONTROLLER_RESET => cross_reset::answer(entry, &controller, fabric, &asker),
            // Commands other than this one are taken while the controller is being enabled, as nvmet does too;
            // what needs a ready controller says so itself.
            admin_opcode::KEEP_ALIVE => Status::SUCCESS.into(),
            admin_opcode::IDENTIFY => identify::answer(entry, &controller, fabric),
            admin_opcode::GET_LOG_PAGE if controller.subsystem.is_discovery => {
                discovery::answer(entry, &controller, fabric, self.reached)
            }
            admin_opcode::GET_LOG_PAGE => log_page::answer(entry, &controller, fabric),
            admin_opcode::GET_FEATURES => features::get(entry, &controller, fabric),
            admin_opcode::ABORT => {
                let answer;
                (answer, aborted) = self.abort(entry, asker.address(), fabric);
                answer
            }
            _ => Status::INVALID_OPCODE.do_not_retry().into(),
        };
        let mut wanted: Vec<Next<H>> = Vec::new();
        wanted.extend(aborted.map(Next::Reply));
        wanted.extend(self.answer(entry, answer, ctx));
        if entry.opcode == admin_opcode::GET_LOG_PAGE {
            // Behind the page there may be another one, which is announced now.
            wanted.extend(self.tell_events());
        }
        wanted
    }

    fn request_event<H>(&mut self, entry: &SubmissionEntry) -> Vec<Next<H>> {
        if self.events.len() >= ASYNC_EVENTS_MAX {
            let status = Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry();
            return vec![Next::Reply(self.refuse(entry, status, 0))];
        }
        self.events.push(entry.command_id.get());
        self.tell_events()
    }

    /// Abort of a command of any queue of this controller: its answer, and that of a command of this queue.
    fn abort<H>(
        &mut self,
        entry: &SubmissionEntry,
        address: Address,
        fabric: &Fabric,
    ) -> (Answer, Option<Reply<H>>) {
        let (queue_id, command_id) = (entry.cdw10.get() as u16, (entry.cdw10.get() >> 16) as u16);
        let aborts = self.held.iter().filter(|held| held.opcode == admin_opcode::ABORT).count();
        if aborts >= usize::from(ABORTS_MAX) {
            return (Status::ABORT_LIMIT_EXCEEDED.do_not_retry().into(), None);
        }
        if queue_id == 0 {
            // Of the admin queue's commands only event requests last.
            let Some(at) = self.events.iter().position(|event| *event == command_id) else {
                return (Answer::Status(Status::SUCCESS, 1), None);
            };
            self.events.remove(at);
            let aborted = Reply::new(command_id, Status::ABORT_REQUESTED, 0);
            return (Answer::Status(Status::SUCCESS, 0), Some(aborted));
        }
        let asker = (address, entry.command_id.get());
        fabric.mailboxes().abort((self.controller.id, queue_id, command_id), asker);
        (Answer::Held, None)
    }

    /// Answers event requests, as far as there are events.
    pub(crate) fn tell_events<H>(&mut self) -> Vec<Next<H>> {
        let mut replies = Vec::new();
        while !self.events.is_empty()
            && let Some(event) = self.controller.next_event()
        {
            let command_id = self.events.remove(0);
            replies.push(Next::Reply(Reply::new(command_id, Status::SUCCESS, u64::from(event))));
        }
        replies
    }

    /// Answers a held command whose work another thread has finished.
    pub(crate) fn answer_held<H>(&mut self, command_id: u16, status: Status, result: u64) -> Reply<H> {
        self.release_held(command_id);
        Reply::new(command_id, status, result)
    }

    /// A command that was held is answered.
    pub(crate) fn release_held(&mut self, command_id: u16) {
        self.held.retain(|held| held.command_id != command_id);
    }

    fn answer<H>(
        &mut self,
        entry: &SubmissionEntry,
        answer: Answer,
        ctx: &mut AdminContext<'_>,
    ) -> Option<Next<H>> {
        let command_id = entry.command_id.get();
        Some(Next::Reply(match answer {
            Answer::Held => {
                self.held.push(Held { command_id, opcode: entry.opcode });
                return None;
            }
            Answer::Status(status, result) if status.is_success() => Reply::new(command_id, status, result),
            Answer::Status(status, result) => self.refuse(entry, status, result),
            Answer::Data(bytes) => {
                let room = entry.data_pointer().map_or(0, |pointer| pointer.length() as usize);
                let length = bytes.len();
                if length == 0 || length > room.min(BUFFER_LENGTH_MAX) {
                    self.refuse(entry, Status::DATA_SGL_LENGTH_INVALID.do_not_retry(), 0)
                } else {
                    let mut buffer = ctx.pool.take(length);
                    buffer.copy_from_slice(&bytes);
                    Reply::with_data(command_id, Payload::Buffer(buffer), length as u32)
                }
            }
        }))
    }
}

/// True if the controller supports this opcode.
fn has_command(opcode: u8, controller: &Controller, fabric: &Fabric) -> bool {
    let is_discovery = controller.subsystem.is_discovery;
    match opcode {
        admin_opcode::FABRICS
        | admin_opcode::IDENTIFY
        | admin_opcode::GET_LOG_PAGE
        | admin_opcode::GET_FEATURES
        | admin_opcode::SET_FEATURES
        | admin_opcode::ASYNC_EVENT_REQUEST
        | admin_opcode::KEEP_ALIVE => true,
        admin_opcode::ABORT | admin_opcode::CROSS_CONTROLLER_RESET | admin_opcode::GET_LBA_STATUS => {
            !is_discovery
        }
        admin_opcode::NAMESPACE_MANAGEMENT | admin_opcode::NAMESPACE_ATTACHMENT => {
            !is_discovery && namespace_admin::is_offered(&controller.subsystem, fabric)
        }
        _ => false,
    }
}
