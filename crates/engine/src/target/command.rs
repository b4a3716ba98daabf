//! I/O commands: decoded once, checked against the namespace, answered at once or started in a slot.
//! How the storage's answers are taken is in `storage`; the bytes are moved by `connection`.

use std::rc::Rc;

use nvme::command::{DataPointer, admin_opcode};
use nvme::fabrics::fabrics_type;
use nvme::io::{DATASET_RANGES_MAX, DatasetRange, IoCommand};
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};

use super::connection::{Connection, Environment, Payload, Session};
use super::counters::QueueCounters;
use super::end::End;
use super::namespace::Namespace;
use super::slot::{Stage, Work};
use super::subsystem::NamespaceView;
use crate::backend::Backend;
use crate::limits::{BUFFER_LENGTH_MAX, IN_CAPSULE_LENGTH_MAX, WRITE_ZEROES_LENGTH_MAX};

/// Bytes of the longest list of ranges.
const DATASET_LENGTH_MAX: u32 = (DATASET_RANGES_MAX * size_of::<DatasetRange>()) as u32;

/// A command that has passed all checks.
struct Checked<'a> {
    entry: &'a SubmissionEntry,
    work: Work,
    /// Bytes of data that travel.
    length: u32,
    in_capsule: bool,
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
        let Session::Io { controller, namespaces, counters, .. } = &self.session else {
            return Err(End::Gone);
        };
        if !controller.is_ready() {
            self.refuse(entry, Status::COMMAND_SEQUENCE_ERROR);
            return Ok(());
        }
        let checked = match namespaces.get(entry.nsid.get()) {
            Some(namespace) => check(entry, data_length, namespace).map(|checked| (checked, namespace)),
            None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
        };
        let (checked, namespace) = match checked {
            Ok(checked) => checked,
            Err(status) => {
                self.refuse(entry, status);
                return Ok(());
            }
        };
        count(counters, &checked);
        // Memory answers at once, and needs neither slot nor buffer unless a digest has to hold still.
        let immediate = !self.digests.data && !matches!(namespace.backend, Backend::File(_));
        if immediate && self.answer_at_once(&checked, data_length, input) {
            return Ok(());
        }
        self.start(&checked, env)
    }

    /// Answers commands on memory and null namespaces straight away; whether it could.
    fn answer_at_once(&mut self, checked: &Checked<'_>, data_length: usize, input: &mut &[u8]) -> bool {
        let Some(namespaces) = self.namespaces() else { return false };
        let nsid = checked.entry.nsid.get();
        let Some(namespace) = namespaces.get(nsid) else { return false };
        let command_id = checked.entry.command_id.get();
        match (checked.work, &namespace.backend) {
            (Work::Read { range }, Backend::Memory(_)) => {
                let payload = Payload::Memory { nsid, offset: range.offset };
                self.send_data(command_id, payload, checked.length, 0);
            }
            (Work::Read { .. }, Backend::Null(_)) => {
                self.send_data(command_id, Payload::Zeroes, checked.length, 0);
            }
            (Work::Write { range, .. }, Backend::Memory(memory)) if checked.in_capsule => {
                let Some(data) = self.take_whole(data_length, input) else { return false };
                memory.write(range.offset, data);
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Work::Write { .. }, Backend::Null(_)) if checked.in_capsule => {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Work::Zero { range, .. }, Backend::Memory(memory)) => {
                memory.zero(range.offset, range.length);
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Work::Flush, Backend::Memory(_) | Backend::Null(_)) | (Work::Zero { .. }, Backend::Null(_)) => {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            _ => return false,
        }
        true
    }

    /// Starts a command in a slot.
    fn start(&mut self, checked: &Checked<'_>, env: &mut Environment<'_>) -> Result<(), End> {
        let entry = checked.entry;
        if self.slots.has_command(entry.command_id.get()) {
            self.refuse(entry, Status::COMMAND_ID_CONFLICT);
            return Ok(());
        }
        let nsid = entry.nsid.get();
        let taken = self.slots.take(entry.command_id.get(), entry.opcode, nsid, checked.work, checked.length);
        let Some(index) = taken else {
            tracing::info!("a host has more commands outstanding than its queue has entries");
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        };
        if checked.in_capsule {
            self.take_in_capsule(index, env);
        } else if checked.length > 0
            && (!self.waiting.is_empty() || !self.slots.may_hold(checked.length as usize))
        {
            // In turn: small commands would else overtake a large one without end.
            self.waiting.push_back(index);
        } else {
            self.start_waiting(index, env);
        }
        Ok(())
    }

    /// Goes on with a command that has everything but its buffer, which it may have now.
    pub(super) fn start_waiting(&mut self, index: u16, env: &mut Environment<'_>) {
        match self.slots.at(index).work {
            Work::Write { .. } | Work::Compare { .. } | Work::Deallocate { .. } | Work::Admin => {
                self.ask_for_data(index, env);
            }
            Work::Read { range } => {
                self.slots.hold(index, env.pool);
                self.begin_read(index, range, env);
            }
            Work::Flush | Work::Zero { .. } => {
                self.slots.at(index).stage = Stage::Storage;
                self.data_came(index, env);
            }
            Work::Free => {}
        }
    }

    /// A Fabrics command on an I/O queue: only Disconnect belongs there.
    fn fabrics_on_io_queue(&mut self, entry: &SubmissionEntry) {
        if entry.fabrics_type() == fabrics_type::DISCONNECT {
            self.respond(entry.command_id.get(), Status::SUCCESS, 0);
            self.drain();
        } else {
            self.refuse(entry, Status::INVALID_QUEUE_TYPE.do_not_retry());
        }
    }

    /// The table of namespaces this queue works with. The handle is counted by this reactor alone.
    pub(super) fn namespaces(&self) -> Option<Rc<NamespaceView>> {
        match &self.session {
            Session::Io { namespaces, .. } => Some(namespaces.clone()),
            _ => None,
        }
    }
}

fn count(counters: &QueueCounters, checked: &Checked<'_>) {
    match checked.work {
        Work::Read { range } | Work::Compare { range } => counters.read(range.length),
        Work::Write { range, .. } => counters.wrote(range.length),
        _ => {}
    }
}

/// Decodes an I/O command and checks it against its namespace and its data.
fn check<'a>(
    entry: &'a SubmissionEntry,
    data_length: usize,
    namespace: &Namespace,
) -> Result<Checked<'a>, Status> {
    let command = IoCommand::decode(entry)?;
    let range = |start, blocks: u32| {
        namespace.bytes(start, u64::from(blocks)).ok_or(Status::LBA_OUT_OF_RANGE.do_not_retry())
    };
    let (work, length) = match command {
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
        IoCommand::Flush => (Work::Flush, 0),
        IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate } => {
            let range = range(start, blocks)?;
            if range.length > WRITE_ZEROES_LENGTH_MAX {
                return Err(Status::INVALID_FIELD.do_not_retry());
            }
            let method = match &namespace.backend {
                Backend::File(file) => file.zero_method(deallocate),
                _ => crate::backend::ZeroMethod::Write,
            };
            (Work::Zero { range, method, deallocate, durable: force_unit_access }, 0)
        }
        IoCommand::DatasetManagement { ranges, .. } => {
            (Work::Deallocate { next: 0, ranges }, u64::from(ranges) * size_of::<DatasetRange>() as u64)
        }
        // What hosts are not told of is not done.
        _ => return Err(Status::INVALID_OPCODE.do_not_retry()),
    };
    if length > BUFFER_LENGTH_MAX as u64 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    let length = length as u32;
    let (length, in_capsule) = check_data(entry, &command, length, data_length)?;
    // A hint without "deallocate" asks for nothing, but its data has to be taken all the same.
    let work = match command {
        IoCommand::DatasetManagement { deallocate: false, ranges } => {
            Work::Deallocate { next: ranges, ranges }
        }
        _ => work,
    };
    Ok(Checked { entry, work, length, in_capsule })
}

/// Checks where the data is against how much there has to be: how many bytes travel, and whether within the capsule.
fn check_data(
    entry: &SubmissionEntry,
    command: &IoCommand,
    length: u32,
    data_length: usize,
) -> Result<(u32, bool), Status> {
    if length == 0 {
        return if data_length == 0 { Ok((0, false)) } else { Err(Status::INVALID_FIELD.do_not_retry()) };
    }
    let pointer = entry.data_pointer()?;
    let described = pointer.length();
    let fits = match command {
        // Linux always sends the largest list there can be, whatever the number of ranges.
        IoCommand::DatasetManagement { .. } => (length..=DATASET_LENGTH_MAX).contains(&described),
        _ => described == length,
    };
    let in_capsule = matches!(pointer, DataPointer::InCapsule { .. });
    if in_capsule && !command.sends_data() {
        return Err(Status::SGL_TYPE_INVALID.do_not_retry());
    }
    if !fits || data_length != if in_capsule { described as usize } else { 0 } {
        return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    }
    Ok((described, in_capsule))
}
