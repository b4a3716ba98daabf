//! What a connection has of the authentication of its host: the exchange that is under way, and the two commands that carry
//! it. It computes nothing; the authentication worker does.

use std::sync::Arc;
use std::time::Duration;

use authentication::{Concatenation, ControllerSide, ControllerTerms, Fault, GeneratedPsk, Progress};
use nvme::authentication::Transfer;
use nvme::fabrics::fabrics_type;
use nvme::{Status, SubmissionEntry};

use super::connect::WantsProof;
use crate::limits::{AUTHENTICATION_RECEIVE_BYTES_MAX, QUEUE_OVERRUN_FACTOR};
use crate::ring::{Buffer, BufferPool};
use crate::target::admin::{Intake, Taken};
use crate::target::controller::Network;
use crate::target::fabric::Fabric;
use crate::target::io::{Next, Reply};
use crate::target::messaging::{Asker, AuthenticationDone, AuthenticationJob, Step, Work};
use crate::target::queue::{Disconnect, Payload};
use crate::target::served::Subsystem;

/// The authentication of a queue's host.
pub(super) struct HostAuthentication {
    subsystem: Arc<Subsystem>,
    host_nqn: String,
    network: Network,
    /// Kind of TLS key that the authentication generates, if any.
    concatenation: Concatenation,
    /// Time that the host has to prove its name.
    time: Duration,
    intake: Intake,
    stage: Stage,
    /// Shared with the worker's jobs, which are skipped once it has been dropped.
    waits: Arc<()>,
}

enum Stage {
    /// None is under way.
    Idle,
    /// The host's next command goes on with it.
    Awaits(Box<ControllerSide>),
    /// The worker has it, for a command that takes this number of bytes.
    Working(u32),
}

/// Result of a step.
pub(super) enum Outcome {
    /// The exchange continues.
    Continues,
    /// The host has authenticated. A TLS key has been generated if one was wanted.
    Authenticated(authentication::Authenticated, Option<GeneratedPsk>),
    /// The exchange has failed; the host may still fetch the reason.
    Failed(Fault),
    /// The host knows that it has failed.
    Over,
}

impl HostAuthentication {
    /// Of a queue with this number of entries, whose host comes from this network and has this time.
    pub(super) fn new(
        WantsProof { subsystem, host_nqn, concatenation }: WantsProof,
        (network, time): (Network, Duration),
        entries: u16,
    ) -> Self {
        // The numbers behind those that the queue's other commands have.
        let first = entries * QUEUE_OVERRUN_FACTOR as u16;
        let intake = Intake::beginning_at(first, 1);
        let (stage, waits) = (Stage::Idle, Arc::default());
        Self { subsystem, host_nqn, network, concatenation, time, intake, stage, waits }
    }

    /// The host's name.
    pub(super) fn host_nqn(&self) -> &str {
        &self.host_nqn
    }

    /// Kind of TLS key that the authentication generates, if any.
    pub(super) const fn concatenation(&self) -> Concatenation {
        self.concatenation
    }

    pub(super) fn subsystem_nqn(&self) -> &str {
        &self.subsystem.nqn
    }

    /// True while a command is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.intake.busy() > 0 || matches!(self.stage, Stage::Working(..))
    }

    /// True while an exchange is under way.
    pub(super) fn is_amid_exchange(&self) -> bool {
        self.intake.busy() > 0 || !matches!(self.stage, Stage::Idle)
    }

    /// True if this slot belongs to the authentication.
    pub(super) fn has_slot(&self, slot: u16) -> bool {
        self.intake.has_slot(slot)
    }

    /// True for authentication commands.
    #[inline]
    pub(super) fn is_meant(entry: &SubmissionEntry) -> bool {
        entry.opcode == nvme::command::admin_opcode::FABRICS
            && matches!(
                entry.fabrics_type(),
                fabrics_type::AUTHENTICATION_SEND | fabrics_type::AUTHENTICATION_RECEIVE
            )
    }

    /// Begins an authentication command with `data_length` bytes in its capsule.
    ///
    /// # Errors
    /// When no conforming host sends it.
    pub(super) fn begin(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        asker: Asker,
        (fabric, pool): (&Fabric, &mut BufferPool),
    ) -> Result<Next, Disconnect> {
        let refused = |status: Status| Ok(Next::Reply(Reply::new(entry.command_id.get(), status, 0)));
        let transfer = match Transfer::decode(entry) {
            Ok(transfer) => transfer,
            Err(status) => return refused(status),
        };
        if self.is_busy() || entry.fused() != 0 {
            // An exchange is one command after the other.
            return refused(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
        }
        if entry.fabrics_type() == fabrics_type::AUTHENTICATION_RECEIVE {
            return Ok(self.receive(entry, transfer, asker, fabric));
        }
        Ok(match self.intake.take(entry, data_length, 0, pool)? {
            Err(status) => return refused(status),
            Ok(Taken::Awaits(next)) => next,
            // A message of no bytes.
            Ok(Taken::Ready) => return refused(Status::INVALID_FIELD.do_not_retry()),
        })
    }

    fn receive(
        &mut self,
        entry: &SubmissionEntry,
        transfer: Transfer,
        asker: Asker,
        fabric: &Fabric,
    ) -> Next {
        let command_id = entry.command_id.get();
        let refused = |status: Status| Next::Reply(Reply::new(command_id, status.do_not_retry(), 0));
        let given = entry.data_pointer().map(|pointer| pointer.length());
        let has_room = given.is_ok_and(|length| length >= transfer.length);
        if !has_room || !(1..=AUTHENTICATION_RECEIVE_BYTES_MAX).contains(&transfer.length) {
            return refused(Status::DATA_SGL_LENGTH_INVALID);
        }
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Awaits(side) => {
                self.hand_over(side, Step::Give, (command_id, transfer.length), asker, fabric)
            }
            other => {
                self.stage = other;
                refused(Status::COMMAND_SEQUENCE_ERROR)
            }
        }
    }

    /// A message of the host has come.
    pub(super) fn data_came(
        &mut self,
        slot: u16,
        (buffer, is_intact): (Buffer, bool),
        asker: impl FnOnce(u16) -> Asker,
        (fabric, pool): (&Fabric, &mut BufferPool),
    ) -> Next {
        let message = buffer.to_vec();
        pool.give(buffer);
        let Some(entry) = self.intake.came(slot) else { return Next::Nothing };
        let command_id = entry.command_id.get();
        if !is_intact {
            return Next::Reply(Reply::new(command_id, Status::TRANSIENT_TRANSPORT_ERROR, 0));
        }
        let side = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Awaits(side) if !side.has_ended() => side,
            // The first message of an exchange, by what is asked of the host now.
            _ => match self.subsystem.terms(&self.host_nqn) {
                Some(terms) => {
                    let terms = ControllerTerms { concatenation: self.concatenation, ..terms };
                    Box::new(ControllerSide::new(terms))
                }
                None => {
                    let status = Status::INVALID_FIELD.do_not_retry();
                    return Next::Reply(Reply::new(command_id, status, 0));
                }
            },
        };
        self.hand_over(side, Step::Take(message), (command_id, 0), asker(command_id), fabric)
    }

    fn hand_over(
        &mut self,
        side: Box<ControllerSide>,
        step: Step,
        (command_id, length): (u16, u32),
        asker: Asker,
        fabric: &Fabric,
    ) -> Next {
        let (network, is_wanted) = (self.network, Arc::downgrade(&self.waits));
        // A host that has made a mistake learns of it while it waits.
        let (work, delay_max) = (Work::Exchange(side, step), self.time / 2);
        let job = AuthenticationJob { asker, network, work, delay_max, is_wanted };
        match fabric.authentication_jobs.hand(job) {
            Ok(()) => {
                self.stage = Stage::Working(length);
                Next::Nothing
            }
            Err(status) => Next::Reply(Reply::new(command_id, status, 0)),
        }
    }

    /// The worker has done a step: its command's answer, the bytes of the buffer that this has, and what has come of the step.
    pub(super) fn step_done(
        &mut self,
        done: AuthenticationDone,
        pool: &mut BufferPool,
    ) -> (Next, usize, Outcome) {
        let AuthenticationDone { command_id, mut side, progress, message } = done;
        let Stage::Working(length) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return (Next::Nothing, 0, Outcome::Continues);
        };
        let has_ended = side.has_ended();
        let psk = side.take_psk();
        if !has_ended {
            self.stage = Stage::Awaits(side);
        }
        let outcome = match progress {
            Progress::Continues if has_ended => Outcome::Over,
            Progress::Continues => Outcome::Continues,
            Progress::Authenticated(how) => Outcome::Authenticated(how, psk),
            Progress::Failed(fault) => Outcome::Failed(fault),
        };
        let Some(message) = message else {
            return (Next::Reply(Reply::new(command_id, Status::SUCCESS, 0)), 0, outcome);
        };
        let length = length as usize;
        if message.len() > length {
            let status = Status::DATA_SGL_LENGTH_INVALID.do_not_retry();
            return (Next::Reply(Reply::new(command_id, status, 0)), 0, Outcome::Over);
        }
        // As much as was asked for, as Linux' target sends it.
        let mut buffer = pool.take(length);
        buffer[..message.len()].copy_from_slice(&message);
        buffer[message.len()..length].fill(0);
        let bytes = buffer.capacity();
        (Next::Reply(Reply::with_data(command_id, Payload::Buffer(buffer), length as u32)), bytes, outcome)
    }
}
