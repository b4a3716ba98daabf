//! The admin queue: takes a command and its data, asks the module whose command it is, and sends the answer.
//! It starts no I/O and touches no namespace's blocks.

use nvme::command::{DataPointer, admin_opcode};
use nvme::fabrics::fabrics_type;
use nvme::features::{FeatureId, SetFeatures};
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};

use super::abort::Abort;
use super::connection::{Connection, Environment, Session};
use super::controller::Controller;
use super::end::End;
use super::peculiarity::Peculiarity;
use super::slot::Work;
use super::{cross_reset, discovery, features, identify, log_page, namespace_admin};
use crate::limits::{
    ABORTS_MAX, ADMIN_IN_CAPSULE_LENGTH_MAX, ASYNC_EVENTS_MAX, BUFFER_LENGTH_MAX, QUEUE_OVERRUN_FACTOR,
};

/// What an admin command comes to.
pub(super) enum Answer {
    /// A status and a result.
    Status(Status, u64),
    /// Success, with data for the host.
    Data(Vec<u8>),
    /// Nothing now: an Asynchronous Event Request waits for its event.
    Held,
}

/// A command that somebody else answers.
pub(super) struct Held {
    command_id: u16,
    opcode: u8,
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Answer::Status(status, 0)
    }
}

impl Connection {
    /// A command of the admin queue, or the first of any queue, with `data_length` bytes in its capsule.
    pub(super) fn admin_command(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        if data_length > ADMIN_IN_CAPSULE_LENGTH_MAX {
            return Err(DecodeError::new(FatalError::TransferLimitExceeded, 0).into());
        }
        if let Err(status) = self.check_admin(entry, env) {
            self.refuse(entry, status);
            return Ok(());
        }
        self.forget_event(entry.command_id.get(), env);
        if self.commands_held() >= usize::from(self.entries) * QUEUE_OVERRUN_FACTOR {
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        }
        if entry.data.is_empty_of_another_type() {
            self.note_peculiarity(Peculiarity::EmptyDescriptor, env);
        }
        if features::is_about_interrupts(entry) {
            self.note_peculiarity(Peculiarity::InterruptFeature, env);
        }
        let pointer = match entry.data_pointer() {
            Ok(pointer) => pointer,
            Err(status) => {
                self.refuse(entry, status);
                return Ok(());
            }
        };
        let takes_data = sends_data(entry);
        let place = match pointer.place_in_capsule(data_length) {
            Ok(Some(_)) if !takes_data => Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()),
            place => place,
        };
        match (place, pointer) {
            (Err(status), _) => {
                self.refuse(entry, status);
                Ok(())
            }
            (Ok(Some(offset)), _) => {
                let index = self.take_admin_slot(entry, pointer.length())?;
                self.take_in_capsule(index, (offset, data_length), env);
                Ok(())
            }
            (Ok(None), DataPointer::Transport { length }) if takes_data && length > 0 => {
                if length as usize > ADMIN_IN_CAPSULE_LENGTH_MAX {
                    self.refuse(entry, Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
                    return Ok(());
                }
                let index = self.take_admin_slot(entry, length)?;
                self.ask_for_data(index, env);
                Ok(())
            }
            _ => self.run_admin(entry, &[], env),
        }
    }

    /// What can be wrong with a command whatever its data is.
    fn check_admin(&self, entry: &SubmissionEntry, env: &Environment<'_>) -> Result<(), Status> {
        let opcode = entry.opcode;
        match &self.session {
            Session::New if !is_connect(entry) => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
            // Before its data is looked at, which may be in a form that only other commands have.
            Session::Admin { controller, .. } if !has_command(opcode, controller, env) => {
                return Err(Status::INVALID_OPCODE.do_not_retry());
            }
            _ => {}
        }
        // Only I/O commands come in pairs.
        if entry.fused() != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let command_id = entry.command_id.get();
        let is_held = match &self.session {
            Session::Admin { held, .. } => held.iter().any(|held| held.command_id == command_id),
            _ => false,
        };
        if is_held || self.slots.has_command(command_id) {
            return Err(Status::COMMAND_ID_CONFLICT);
        }
        Ok(())
    }

    /// An identifier that an event request has, and that its host uses again, is one that the host has forgotten: SPDK's does
    /// that before it shuts a controller down. The event request is forgotten, too, since its answer would be taken for the
    /// new command's.
    fn forget_event(&mut self, command_id: u16, env: &Environment<'_>) {
        if let Session::Admin { events, .. } = &mut self.session
            && let Some(at) = events.iter().position(|event| *event == command_id)
        {
            events.remove(at);
            self.note_peculiarity(Peculiarity::ForgottenEventRequest, env);
        }
    }

    /// Commands of this admin queue that wait for their answers.
    fn commands_held(&self) -> usize {
        let held = match &self.session {
            Session::Admin { events, held, .. } => events.len() + held.len(),
            _ => 0,
        };
        held + self.slots.busy()
    }

    fn take_admin_slot(&mut self, entry: &SubmissionEntry, length: u32) -> Result<u16, End> {
        let taken = self.slots.take(
            entry.command_id.get(),
            entry.opcode,
            (entry.nsid.get(), None),
            Work::Admin,
            length,
        );
        let Some(index) = taken else {
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        };
        let at = usize::from(index);
        if self.admin_entries.len() <= at {
            self.admin_entries.resize(at + 1, SubmissionEntry::default());
        }
        self.admin_entries[at] = *entry;
        Ok(index)
    }

    /// The data of an admin command has come.
    pub(super) fn admin_data_came(&mut self, index: u16, env: &mut Environment<'_>) -> Result<(), End> {
        let entry = self.admin_entries[usize::from(index)];
        let data = self.slots.data(index).to_vec();
        self.slots.give(index, env.pool);
        self.run_admin(&entry, &data, env)
    }

    fn run_admin(
        &mut self,
        entry: &SubmissionEntry,
        data: &[u8],
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        let answer = match &mut self.session {
            Session::New => return self.first_command(entry, data, env),
            Session::Admin { .. } if entry.opcode == admin_opcode::FABRICS => {
                self.fabrics_command(entry, env)
            }
            Session::Admin { controller, .. } if entry.opcode == admin_opcode::SET_FEATURES => {
                let controller = controller.clone();
                let asker = self.asker(entry.command_id.get(), env);
                features::set(entry, &controller, data, env.fabric, asker)
            }
            Session::Admin { controller, .. } if is_namespace_command(entry) => {
                let controller = controller.clone();
                let asker = self.asker(entry.command_id.get(), env);
                namespace_admin::answer(entry, &controller, data, env.fabric, asker)
            }
            Session::Admin { controller, .. }
                if entry.opcode == admin_opcode::CROSS_CONTROLLER_RESET
                    && !controller.subsystem.is_discovery =>
            {
                let controller = controller.clone();
                let asker = self.asker(entry.command_id.get(), env);
                cross_reset::answer(entry, &controller, env.fabric, asker)
            }
            Session::Admin { controller, events, .. } => match entry.opcode {
                admin_opcode::ASYNC_EVENT_REQUEST if events.len() < ASYNC_EVENTS_MAX => {
                    events.push(entry.command_id.get());
                    self.tell_events();
                    Answer::Held
                }
                admin_opcode::ASYNC_EVENT_REQUEST => Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry().into(),
                // Commands other than this one are taken while the controller is being enabled, as nvmet does too;
                // what needs a ready controller says so itself.
                admin_opcode::KEEP_ALIVE => Status::SUCCESS.into(),
                admin_opcode::IDENTIFY => identify::answer(entry, controller, env.fabric),
                admin_opcode::GET_LOG_PAGE if controller.subsystem.is_discovery => {
                    discovery::answer(entry, controller, env.fabric, &self.socket)
                }
                admin_opcode::GET_LOG_PAGE => log_page::answer(entry, controller, env.fabric),
                admin_opcode::GET_FEATURES => features::get(entry, controller, env.fabric),
                admin_opcode::ABORT if !controller.subsystem.is_discovery => self.abort_command(entry, env),
                _ => Status::INVALID_OPCODE.do_not_retry().into(),
            },
            Session::Io { .. } => return Err(End::Gone),
        };
        self.send_answer(entry, answer, env)?;
        if entry.opcode == admin_opcode::GET_LOG_PAGE {
            // Behind the page there may be another one, which is told of now.
            self.tell_events();
        }
        Ok(())
    }

    /// Abort of a command of any queue of this controller.
    fn abort_command(&mut self, entry: &SubmissionEntry, env: &Environment<'_>) -> Answer {
        let (queue_id, command_id) = (entry.cdw10.get() as u16, (entry.cdw10.get() >> 16) as u16);
        let Session::Admin { controller, events, held } = &mut self.session else {
            return Status::INVALID_FIELD.do_not_retry().into();
        };
        if held.iter().filter(|held| held.opcode == admin_opcode::ABORT).count() >= usize::from(ABORTS_MAX) {
            return Status::ABORT_LIMIT_EXCEEDED.do_not_retry().into();
        }
        if queue_id == 0 {
            // Of the admin queue's commands only event requests last.
            let Some(at) = events.iter().position(|held| *held == command_id) else {
                return Answer::Status(Status::SUCCESS, 1);
            };
            events.remove(at);
            self.respond(command_id, Status::ABORT_REQUESTED, 0);
            return Answer::Status(Status::SUCCESS, 0);
        }
        let controller_id = controller.id;
        let asker = self.asker(entry.command_id.get(), env);
        Abort::ask(env.fabric, (controller_id, queue_id, command_id), asker);
        Answer::Held
    }

    /// Answers event requests, as far as there are events.
    pub(super) fn tell_events(&mut self) {
        loop {
            let Session::Admin { controller, events, .. } = &mut self.session else { return };
            if events.is_empty() {
                return;
            }
            let Some(event) = controller.next_event() else { return };
            let command_id = events.remove(0);
            self.respond(command_id, Status::SUCCESS, u64::from(event));
        }
    }

    /// Answers a command that was held until somebody else had done it.
    pub(super) fn answer_held(&mut self, command_id: u16, status: Status, result: u64) {
        if let Session::Admin { held, .. } = &mut self.session {
            held.retain(|held| held.command_id != command_id);
        }
        if !self.terminated {
            self.respond(command_id, status, result);
        }
    }

    fn send_answer(
        &mut self,
        entry: &SubmissionEntry,
        answer: Answer,
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        match answer {
            Answer::Held => {
                // An event request stands among the events already.
                if let Session::Admin { held, .. } = &mut self.session
                    && entry.opcode != admin_opcode::ASYNC_EVENT_REQUEST
                {
                    held.push(Held { command_id: entry.command_id.get(), opcode: entry.opcode });
                }
            }
            Answer::Status(status, result) if status.is_success() => {
                self.respond(entry.command_id.get(), status, result);
            }
            Answer::Status(status, result) => self.refuse_with(entry, status, result),
            Answer::Data(bytes) => {
                let room = entry.data_pointer().map_or(0, |pointer| pointer.length() as usize);
                let length = bytes.len();
                if length == 0 || length > room.min(BUFFER_LENGTH_MAX) {
                    self.refuse(entry, Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
                    return Ok(());
                }
                let index = self.take_admin_slot(entry, length as u32)?;
                self.slots.hold(index, env.pool);
                if let Some(buffer) = self.slots.at(index).data.as_mut() {
                    buffer.copy_from_slice(&bytes);
                }
                self.send_slot(index, length as u32, env.now);
            }
        }
        Ok(())
    }
}

/// Whether the controller has a command with this opcode.
fn has_command(opcode: u8, controller: &Controller, env: &Environment<'_>) -> bool {
    let is_discovery = controller.subsystem.is_discovery;
    match opcode {
        admin_opcode::FABRICS
        | admin_opcode::IDENTIFY
        | admin_opcode::GET_LOG_PAGE
        | admin_opcode::GET_FEATURES
        | admin_opcode::SET_FEATURES
        | admin_opcode::ASYNC_EVENT_REQUEST
        | admin_opcode::KEEP_ALIVE => true,
        admin_opcode::ABORT | admin_opcode::CROSS_CONTROLLER_RESET => !is_discovery,
        admin_opcode::NAMESPACE_MANAGEMENT | admin_opcode::NAMESPACE_ATTACHMENT => {
            !is_discovery && namespace_admin::is_offered(&controller.subsystem, env.fabric)
        }
        _ => false,
    }
}

fn is_connect(entry: &SubmissionEntry) -> bool {
    entry.opcode == admin_opcode::FABRICS && entry.fabrics_type() == fabrics_type::CONNECT
}

fn is_namespace_command(entry: &SubmissionEntry) -> bool {
    matches!(entry.opcode, admin_opcode::NAMESPACE_MANAGEMENT | admin_opcode::NAMESPACE_ATTACHMENT)
}

/// Whether the host sends data with this command.
fn sends_data(entry: &SubmissionEntry) -> bool {
    match entry.opcode {
        admin_opcode::FABRICS => {
            matches!(entry.fabrics_type(), fabrics_type::CONNECT | fabrics_type::AUTHENTICATION_SEND)
        }
        admin_opcode::SET_FEATURES => {
            let set = SetFeatures::decode(entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get());
            matches!(set.id, FeatureId::TIMESTAMP | FeatureId::HOST_BEHAVIOR | FeatureId::HOST_IDENTIFIER)
        }
        _ => namespace_admin::sends_data(entry),
    }
}
