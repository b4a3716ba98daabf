//! I/O commands: decoded once, checked against the namespace, answered at once or started in a slot.
//! How the storage's answers are taken is in `storage`; the bytes are moved by `connection`.

use std::rc::Rc;
use std::sync::Arc;

use nvme::command::{DataPointer, admin_opcode};
use nvme::fabrics::fabrics_type;
use nvme::io::{DatasetRange, Fused, IoCommand, asks_for_protection};
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};

use super::connection::{Connection, Environment, Payload, Session};
use super::end::End;
use super::namespace::{Namespace, special};
use super::namespace_table::{Attachment, NamespaceView};
use super::pair::Pair;
use super::peculiarity::Peculiarity;
use super::reservation::{Access, HostId};
use super::slot::{Stage, Work};
use crate::backend::{Backend, ZeroMethod};
use crate::limits::{
    BUFFER_LENGTH_MAX, COPY_RANGES_MAX, IN_CAPSULE_LENGTH_MAX, VERIFY_LENGTH_MAX, WRITE_ZEROES_LENGTH_MAX,
};

/// A command that has passed all checks.
struct Checked<'a> {
    entry: &'a SubmissionEntry,
    work: Work,
    /// Bytes of data that travel.
    length: u32,
    /// Where its data begins among that of its capsule, if it is there.
    in_capsule: Option<usize>,
    fused: Fused,
    /// Bytes of it that are done already.
    done: u64,
}

impl Connection {
    /// A command of an I/O queue, with `data_length` bytes in its capsule that begin `input` as far as they have come.
    pub(super) fn io_command(
        &mut self,
        entry: &SubmissionEntry,
        data_length: usize,
        input: &mut &[u8],
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        if data_length > IN_CAPSULE_LENGTH_MAX {
            return Err(DecodeError::new(FatalError::TransferLimitExceeded, 0).into());
        }
        if entry.opcode == admin_opcode::FABRICS {
            self.fabrics_on_io_queue(entry);
            return Ok(());
        }
        let Session::Io { controller, views, .. } = &self.session else {
            return Err(End::Gone);
        };
        if !controller.is_ready() {
            // The word to close this queue is on its way. An answer would tell the host that its command has failed, and
            // not that it has lost the controller and may send it elsewhere.
            if controller.has_ended() {
                return Err(End::Gone);
            }
            self.refuse(entry, Status::COMMAND_SEQUENCE_ERROR);
            return Ok(());
        }
        let (view, number) = (views.current().clone(), views.number());
        let checked = match view.attachment(entry.nsid.get()) {
            Some(attachment) => check(entry, data_length, attachment, &controller.host.id)
                .map(|checked| (checked, attachment)),
            None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
        };
        let (mut checked, attachment) = match checked {
            Ok(checked) => checked,
            Err(status) => {
                self.refuse(entry, status);
                if entry.fused() != 0 {
                    self.pair_refused(entry, env);
                }
                return Ok(());
            }
        };
        if asks_for_protection(entry) {
            self.note_peculiarity(Peculiarity::ProtectionInformation, env);
        }
        let namespace = &*attachment.namespace;
        if let (Work::Read { range } | Work::Write { range, .. }, Backend::Memory(memory)) =
            (checked.work, &*namespace.backend)
        {
            memory.prefetch_lock(range.offset);
        }
        // Memory answers at once, and needs neither slot nor buffer unless a digest has to hold still.
        let immediate = !self.digests.data
            && namespace.special() & special::SLOW == 0
            && checked.fused == Fused::No
            && !matches!(*namespace.backend, Backend::Device(_))
            // An identifier that a command in a slot has is refused where slots are taken. Without such a command, as on a
            // queue that uses memory alone, this is one comparison.
            && !self.slots.has_command(entry.command_id.get());
        if immediate && self.answer_at_once(&mut checked, namespace, number, (data_length, input)) {
            self.count_done(entry.nsid.get(), &checked.work, checked.length, 0);
            return Ok(());
        }
        self.start(&checked, data_length, &view, env)
    }

    /// Answers commands on memory and null namespaces straight away; whether it could. It cannot where somebody else uses
    /// a page of memory.
    fn answer_at_once(
        &mut self,
        checked: &mut Checked<'_>,
        namespace: &Namespace,
        view: u32,
        (data_length, input): (usize, &mut &[u8]),
    ) -> bool {
        let nsid = namespace.nsid;
        let command_id = checked.entry.command_id.get();
        match (checked.work, &*namespace.backend) {
            (Work::Read { range }, Backend::Memory(_)) => {
                let payload = Payload::Memory { nsid, view, offset: range.offset };
                self.send_data(command_id, payload, checked.length, 0);
            }
            (Work::Read { .. }, Backend::Null(_)) => {
                self.send_data(command_id, Payload::Zeroes, checked.length, 0);
            }
            (Work::Write { range, .. }, Backend::Memory(memory)) => {
                let Some(at) = checked.in_capsule else { return false };
                if !self.has_whole(data_length, input) {
                    return false;
                }
                let Some(writer) = memory.writer(range.offset, checked.length as usize) else { return false };
                let Some(data) = self.take_whole(data_length, input) else { return false };
                writer.write(&data[at..at + checked.length as usize]);
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Work::Write { .. }, Backend::Null(_)) if checked.in_capsule.is_some() => {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Work::Zero { range, .. }, Backend::Memory(memory)) if self.zeroes_at_once(range.length) => {
                checked.done = memory.zero(range.offset, range.length);
                if checked.done < range.length {
                    return false;
                }
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Work::Flush | Work::Verify { .. }, Backend::Memory(_) | Backend::Null(_))
            | (Work::Zero { .. }, Backend::Null(_)) => {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            _ => return false,
        }
        true
    }

    /// Starts a command in a slot.
    fn start(
        &mut self,
        checked: &Checked<'_>,
        data_length: usize,
        view: &Rc<NamespaceView>,
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        let entry = checked.entry;
        let nsid = entry.nsid.get();
        let refused = if self.slots.has_command(entry.command_id.get()) {
            Err(Status::COMMAND_ID_CONFLICT)
        } else if checked.fused == Fused::Second {
            self.find_first(nsid, &checked.work).map(Some)
        } else {
            Ok(None)
        };
        let partner = match refused {
            Ok(partner) => partner,
            Err(status) => {
                self.refuse(entry, status);
                if checked.fused != Fused::No {
                    self.pair_refused(entry, env);
                }
                return Ok(());
            }
        };
        if let (Fused::First, Pair::First(former)) = (checked.fused, self.pair) {
            self.end_partner(former, Status::ABORTED_MISSING_FUSED, env);
        }
        let namespace = (nsid, Some(view.clone()));
        let taken =
            self.slots.take(entry.command_id.get(), entry.opcode, namespace, checked.work, checked.length);
        let Some(index) = taken else {
            tracing::info!(
                peer = %self.peer,
                entries = self.entries,
                "more than twice as many commands outstanding as the queue has entries; closing the connection"
            );
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        };
        let shaped = view.get(nsid).is_some_and(|namespace| namespace.special() & special::SHAPED != 0);
        if self.slots.are_overrun() {
            self.note_peculiarity(Peculiarity::QueueOverrun, env);
        }
        let slot = self.slots.at(index);
        slot.began = env.now;
        slot.admitted = !shaped;
        slot.done = checked.done;
        slot.fused = checked.fused;
        slot.partner = partner;
        match (checked.fused, partner) {
            (Fused::First, _) => self.pair = Pair::First(index),
            (Fused::Second, Some(first)) => {
                self.slots.at(first).partner = Some(index);
                self.pair = Pair::None;
            }
            _ => {}
        }
        if let Some(offset) = checked.in_capsule {
            // Its data is behind it in the stream; everything else comes when it is there.
            self.take_in_capsule(index, (offset, data_length), env);
        } else {
            self.begin(index, env);
        }
        Ok(())
    }

    /// Begins a command without data in its capsule: the namespace's limits first, then a buffer.
    fn begin(&mut self, index: u16, env: &mut Environment<'_>) {
        if !self.slots.at(index).admitted && self.waits_for_limits(index, env) {
            return;
        }
        let length = self.slots.at(index).length as usize;
        let has_time = self.work_left > 0;
        if length > 0 && (!self.waiting.is_empty() || !self.slots.may_hold(length) || !has_time) {
            // In turn: small commands would else overtake a large one without end.
            self.slots.at(index).stage = Stage::Buffer;
            self.waiting.push_back(index);
        } else {
            self.start_waiting(index, env);
        }
    }

    /// Whether a command has to wait for its namespace's limits; if not, it need not be asked again.
    pub(super) fn waits_for_limits(&mut self, index: u16, env: &mut Environment<'_>) -> bool {
        let slot = self.slots.at(index);
        if slot.work.is_told_by_data() && slot.data.is_none() {
            // It is asked again when its data has come.
            return false;
        }
        let namespace: Option<Arc<Namespace>> =
            self.slots.at(index).attachment().map(|attachment| attachment.namespace.clone());
        let waits = namespace.is_some_and(|namespace| self.wait_for_limits(index, &namespace, env));
        if !waits {
            self.slots.at(index).admitted = true;
        }
        waits
    }

    /// Goes on with a command that the limits let through.
    pub(super) fn go_on(&mut self, index: u16, env: &mut Environment<'_>) {
        let slot = self.slots.at(index);
        if slot.data.is_some() { self.data_came(index, env) } else { self.begin(index, env) }
    }

    /// Goes on with a command that has everything but its buffer, which it may have now.
    pub(super) fn start_waiting(&mut self, index: u16, env: &mut Environment<'_>) {
        match self.slots.at(index).work {
            Work::Read { range } => {
                self.slots.hold(index, env.pool);
                self.begin_read(index, range, env);
            }
            Work::Reservation { command: IoCommand::ReservationReport { .. } } => {
                self.reservation_data_came(index, env);
            }
            Work::Write { .. }
            | Work::Compare { .. }
            | Work::Deallocate { .. }
            | Work::Copy { .. }
            | Work::Reservation { .. }
            | Work::Admin => self.ask_for_data(index, env),
            Work::Flush | Work::Zero { .. } | Work::Verify { .. } | Work::Spoil { .. } => {
                self.data_came(index, env);
            }
            Work::Free => {}
        }
    }

    /// A Fabrics command on an I/O queue: only Disconnect belongs there.
    fn fabrics_on_io_queue(&mut self, entry: &SubmissionEntry) {
        if entry.fabrics_type() == fabrics_type::DISCONNECT {
            // The queue's other commands end first: what the host does next must not meet one of them.
            self.disconnect = Some(entry.command_id.get());
            self.drain();
        } else {
            // As nvmet and SPDK's target say, whatever its type: SPDK's tests of its host expect no other answer.
            self.refuse(entry, Status::INVALID_OPCODE.do_not_retry());
        }
    }
}

/// Decodes an I/O command and checks it against its namespace and its data.
fn check<'a>(
    entry: &'a SubmissionEntry,
    data_length: usize,
    attachment: &Attachment,
    host_id: &HostId,
) -> Result<Checked<'a>, Status> {
    let (command, fused) = IoCommand::decode_fused(entry)?;
    let namespace = &*attachment.namespace;
    if let Some(status) = attachment.access.refusal() {
        return Err(status);
    }
    let special = namespace.special();
    if special & (special::PROTECTED | special::RESERVED | special::FAILED) != 0 {
        check_special(entry, &command, namespace, host_id)?;
    }
    let (work, length) = work_of(&command, namespace)?;
    if length > BUFFER_LENGTH_MAX as u64 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    let (length, in_capsule) = check_data(entry, &command, length as u32, data_length)?;
    Ok(Checked { entry, work, length, in_capsule, fused, done: 0 })
}

/// Checks a command against write protection, the reservation, and whether the storage has failed.
#[cold]
fn check_special(
    entry: &SubmissionEntry,
    command: &IoCommand,
    namespace: &Namespace,
    host_id: &HostId,
) -> Result<(), Status> {
    if command.writes() && namespace.is_write_protected() {
        return Err(Status::WRITE_PROTECTED.do_not_retry());
    }
    match Access::of_io(entry.opcode) {
        Some(access) if namespace.reservation_forbids(host_id, access) => Err(Status::RESERVATION_CONFLICT),
        _ if namespace.has_failed() && (command.writes() || *command == IoCommand::Flush) => {
            Err(Status::WRITE_FAULT.do_not_retry())
        }
        _ => Ok(()),
    }
}

/// What a command comes to on its namespace, and how many bytes of data go with it.
fn work_of(command: &IoCommand, namespace: &Namespace) -> Result<(Work, u64), Status> {
    let range = |start, blocks: u32| namespace.range(start, blocks);
    let invalid = Status::INVALID_FIELD.do_not_retry();
    Ok(match *command {
        IoCommand::Read { start, blocks, .. } => {
            let range = range(start, blocks)?;
            (Work::Read { range }, range.length)
        }
        IoCommand::Write { start, blocks, force_unit_access } => {
            let range = range(start, blocks)?;
            (Work::Write { range, durable: force_unit_access }, range.length)
        }
        IoCommand::Compare { start, blocks } => {
            let range = range(start, blocks)?;
            (Work::Compare { range }, range.length)
        }
        IoCommand::Verify { start, blocks } => {
            let range = range(start, blocks)?;
            if range.length > VERIFY_LENGTH_MAX {
                return Err(invalid);
            }
            (Work::Verify { range }, 0)
        }
        IoCommand::WriteUncorrectable { start, blocks } => (Work::Spoil { range: range(start, blocks)? }, 0),
        IoCommand::Flush => (Work::Flush, 0),
        IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate } => {
            let range = range(start, blocks)?;
            if range.length > WRITE_ZEROES_LENGTH_MAX {
                return Err(invalid);
            }
            let method = match &*namespace.backend {
                Backend::Device(device) => device.zero_method(deallocate),
                _ => ZeroMethod::Write,
            };
            (Work::Zero { range, method, deallocate, durable: force_unit_access }, 0)
        }
        IoCommand::DatasetManagement { ranges, deallocate } => {
            // A hint without "deallocate" asks for nothing, but its data has to be taken all the same.
            let next = if deallocate { 0 } else { ranges };
            (Work::Deallocate { next, ranges }, u64::from(ranges) * size_of::<DatasetRange>() as u64)
        }
        IoCommand::Copy { start, ranges, format, force_unit_access } => {
            if ranges > COPY_RANGES_MAX {
                return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
            }
            let to = range(start, 1)?.offset;
            let work = Work::Copy { next: 0, ranges, format, durable: force_unit_access, done: 0, to };
            (work, u64::from(ranges) * format.range_bytes() as u64)
        }
        IoCommand::ReservationReport { dwords, .. } => {
            (Work::Reservation { command: *command }, u64::from(dwords) * 4)
        }
        IoCommand::ReservationRegister { .. } | IoCommand::ReservationAcquire { .. } => {
            (Work::Reservation { command: *command }, 16)
        }
        IoCommand::ReservationRelease { .. } => (Work::Reservation { command: *command }, 8),
    })
}

/// Checks where the data is against how much there has to be: how many bytes travel, and where they begin within the capsule
/// if they are there. A descriptor may be of more than the command needs (SGLS): as much as it needs travels.
fn check_data(
    entry: &SubmissionEntry,
    command: &IoCommand,
    length: u32,
    data_length: usize,
) -> Result<(u32, Option<usize>), Status> {
    if length == 0 {
        return if data_length == 0 { Ok((0, None)) } else { Err(Status::INVALID_FIELD.do_not_retry()) };
    }
    let pointer = entry.data_pointer()?;
    if matches!(pointer, DataPointer::InCapsule { .. }) && !command.sends_data() {
        return Err(Status::SGL_TYPE_INVALID.do_not_retry());
    }
    let in_capsule = pointer.place_in_capsule(data_length)?;
    if pointer.length() < length {
        return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    }
    Ok((length, in_capsule))
}
