//! What an I/O command comes to on its namespace: ranges of bytes, checked, and what is left to do of them. What can be wrong
//! with a command before anything of it is done is found here: with its fields, with its namespace as it is now, with its data.
//! Every block number from outside passes here.

use nvme::command::DataPointer;
use nvme::io::{CopyFormat, DatasetRange, Fused, IoCommand, copy_ranges};
use nvme::{Status, SubmissionEntry};
use zerocopy::FromBytes;

use crate::backend::{Backend, ZeroMethod};
use crate::limits::{
    BUFFER_LENGTH_MAX, COPY_LENGTH_MAX, COPY_RANGE_LENGTH_MAX, COPY_RANGES_MAX, VERIFY_LENGTH_MAX,
    WRITE_ZEROES_LENGTH_MAX,
};
use crate::target::reservation::{Access, HostDigest};
use crate::target::served::{Attachment, ByteRange, Namespace, flags};
use crate::target::telemetry::Operation;

/// Operation of a command on its namespace, or its remaining part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Data for the host.
    Read { range: ByteRange },
    /// The host's data, to be kept.
    Write { range: ByteRange, durable: bool },
    /// The host's data, to be compared.
    Compare { range: ByteRange },
    /// Blocks to be read for nothing but the errors that shows, in what is left of `range`.
    Verify { range: ByteRange },
    /// Make everything durable.
    Flush,
    /// Blocks that cannot be read from now on.
    MarkUncorrectable { range: ByteRange },
    /// Ranges to be copied, from `done` bytes of number `next` on, to the byte `to` and what follows.
    Copy { next: u16, ranges: u16, format: CopyFormat, durable: bool, done: u64, to: u64 },
    /// A reservation command, which is the reservation worker's to do.
    Reservation { command: IoCommand },
    /// Zeroes in what is left of `range`.
    Zero { range: ByteRange, method: ZeroMethod, deallocate: bool, durable: bool },
    /// Ranges the host no longer needs, from number `next` on.
    Deallocate { next: u16, ranges: u16 },
}

impl Work {
    /// True if the blocks that the command reaches are named in its data.
    pub(crate) const fn has_ranges_in_data(&self) -> bool {
        matches!(self, Self::Deallocate { .. } | Self::Copy { .. })
    }

    /// Access that reservations check; `None` if they do not concern the command.
    pub(super) const fn access(&self) -> Option<Access> {
        match self {
            Self::Read { .. } | Self::Compare { .. } | Self::Verify { .. } => Some(Access::Read),
            Self::Write { .. }
            | Self::Flush
            | Self::MarkUncorrectable { .. }
            | Self::Copy { .. }
            | Self::Zero { .. }
            | Self::Deallocate { .. } => Some(Access::Write),
            Self::Reservation { .. } => None,
        }
    }

    /// Operation that the command is counted as.
    pub(crate) const fn operation(&self) -> Operation {
        match self {
            Self::Read { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::Compare { .. } => Operation::Compare,
            Self::Zero { .. } => Operation::WriteZeroes,
            Self::Deallocate { .. } => Operation::DatasetManagement,
            Self::Flush => Operation::Flush,
            Self::Verify { .. } => Operation::Verify,
            Self::Copy { .. } => Operation::Copy,
            Self::MarkUncorrectable { .. } => Operation::WriteUncorrectable,
            Self::Reservation { .. } => Operation::Reservation,
        }
    }

    /// The range that its command names, where that is one and nothing of it is forgotten when it is done.
    pub(crate) const fn whole_range(&self) -> Option<ByteRange> {
        match self {
            Self::Read { range }
            | Self::Write { range, .. }
            | Self::Compare { range }
            | Self::MarkUncorrectable { range } => Some(*range),
            _ => None,
        }
    }

    /// Short name of the command.
    pub(crate) const fn name(&self) -> &'static str {
        self.operation().name()
    }

    /// True if a device needs a buffer of its own for the command, beside the host's data.
    pub(super) const fn needs_buffer_beside(&self) -> bool {
        match self {
            Self::Verify { .. } | Self::Copy { .. } => true,
            Self::Zero { range, method: ZeroMethod::Write, .. } => range.length > 0,
            _ => false,
        }
    }

    /// True if the command changes blocks, or promises that they are durable.
    pub(crate) const fn is_refused_after_failure(&self) -> bool {
        match self {
            Self::Write { .. }
            | Self::Flush
            | Self::MarkUncorrectable { .. }
            | Self::Copy { .. }
            | Self::Zero { .. }
            | Self::Deallocate { .. } => true,
            Self::Read { .. } | Self::Compare { .. } | Self::Verify { .. } | Self::Reservation { .. } => {
                false
            }
        }
    }

    /// True if the command makes more zeroes than the controller tells hosts that one should (WZSL): it is done all the same, in
    /// pieces.
    pub(super) const fn is_long_zeroing(&self) -> bool {
        matches!(self, Self::Zero { range, .. } if range.length > WRITE_ZEROES_LENGTH_MAX)
    }

    /// True if the command may change blocks in `range`.
    pub(crate) const fn may_write(&self, range: &ByteRange) -> bool {
        match self {
            Self::Write { range: own, .. }
            | Self::Zero { range: own, .. }
            | Self::MarkUncorrectable { range: own } => own.overlaps(range),
            // The ranges of these are in their data, which is not searched here.
            Self::Deallocate { .. } | Self::Copy { .. } => true,
            _ => false,
        }
    }
}

/// Bytes of the next operation that zeroes a range without sending zeroes. Storage that writes them all the same needs no longer for
/// it than for a command that keeps to WZSL: what a lost host has asked for ends within the Command Quiesce Time.
pub(super) fn allocated_at_once(range: ByteRange) -> u64 {
    range.length.min(WRITE_ZEROES_LENGTH_MAX)
}

/// A command that has passed all checks.
pub(super) struct Checked<'a> {
    pub(super) entry: &'a SubmissionEntry,
    pub(super) work: Work,
    /// Bytes of data that travel.
    pub(super) length: u32,
    /// Offset of the data in the capsule, if it is there.
    pub(super) in_capsule: Option<usize>,
    pub(super) fused: Fused,
}

/// Decodes an I/O command and checks it against its namespace and its data.
pub(super) fn check<'a>(
    entry: &'a SubmissionEntry,
    data_length: usize,
    attachment: &Attachment,
    host: HostDigest,
) -> Result<Checked<'a>, Status> {
    let (command, fused) = IoCommand::decode_fused(entry)?;
    let namespace = &*attachment.namespace;
    if let Some(status) = attachment.access.refusal() {
        return Err(status);
    }
    // Another target could write between the two.
    if fused != Fused::No && namespace.is_shared() {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    let flags = namespace.flags();
    if flags & (flags::PROTECTED | flags::RESERVED | flags::FAILED) != 0 {
        check_flagged(entry, &command, namespace, host)?;
    }
    let (work, length) = work_of(&command, namespace)?;
    if length > BUFFER_LENGTH_MAX as u64 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    let (length, in_capsule) = check_data(entry, &command, length as u32, data_length)?;
    Ok(Checked { entry, work, length, in_capsule, fused })
}

/// Checks a command against write protection, the reservation, and whether the storage has failed.
#[cold]
fn check_flagged(
    entry: &SubmissionEntry,
    command: &IoCommand,
    namespace: &Namespace,
    host: HostDigest,
) -> Result<(), Status> {
    if command.writes() && namespace.is_write_protected() {
        return Err(Status::WRITE_PROTECTED.do_not_retry());
    }
    match Access::of_io(entry.opcode) {
        Some(access) if namespace.reservation_forbids(host, access) => Err(Status::RESERVATION_CONFLICT),
        _ if namespace.has_failed() && (command.writes() || *command == IoCommand::Flush) => {
            Err(Status::WRITE_FAULT.do_not_retry())
        }
        _ => Ok(()),
    }
}

/// Decodes a command to its work on the namespace and its number of data bytes.
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
        IoCommand::WriteUncorrectable { start, blocks } => {
            (Work::MarkUncorrectable { range: range(start, blocks)? }, 0)
        }
        IoCommand::Flush => (Work::Flush, 0),
        IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate } => {
            let range = range(start, blocks)?;
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

/// Checks that the blocks that a command writes are still there: where the namespace became smaller while it waited, its file
/// would grow again.
pub(super) fn check_end(work: &Work, namespace: &Namespace) -> Result<(), Status> {
    match *work {
        Work::Write { range, .. } | Work::Zero { range, .. } => namespace.check_end(range),
        _ => Ok(()),
    }
}

/// Range `number` of a Dataset Management command's data, checked.
pub(super) fn dataset_range(data: &[u8], number: u16, namespace: &Namespace) -> Result<ByteRange, Status> {
    let at = usize::from(number) * size_of::<DatasetRange>();
    let range = data.get(at..).and_then(|rest| DatasetRange::read_from_prefix(rest).ok());
    let (range, _) = range.ok_or(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
    namespace.range(range.start.get(), range.blocks.get())
}

/// The ranges that a command writes, or makes unreadable; a list of them stands in its data.
///
/// # Errors
/// What is wrong with the list.
pub(super) fn written(work: &Work, data: &[u8], namespace: &Namespace) -> Result<Vec<ByteRange>, Status> {
    match *work {
        Work::Write { range, .. } | Work::Zero { range, .. } | Work::MarkUncorrectable { range } => {
            Ok(vec![range])
        }
        Work::Copy { .. } => Ok(vec![check_copy(work, data, namespace)?]),
        Work::Deallocate { next, ranges } => {
            (next..ranges).map(|number| dataset_range(data, number, namespace)).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// Checks the rest of a copy. Returns the range of its destination.
pub(super) fn check_copy(work: &Work, data: &[u8], namespace: &Namespace) -> Result<ByteRange, Status> {
    let Work::Copy { next, ranges, format, done, to, .. } = *work else { return Err(Status::INTERNAL_ERROR) };
    let mut sources = Vec::with_capacity(usize::from(ranges));
    let mut length = 0;
    for (start, blocks) in copy_ranges(format, ranges, data)?.skip(usize::from(next)) {
        let mut source = namespace.range(start, blocks)?;
        if sources.is_empty() {
            // What was copied in a turn before no longer counts.
            source.offset += done;
            source.length = source.length.saturating_sub(done);
        }
        if source.length > COPY_RANGE_LENGTH_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
        }
        if namespace.is_uncorrectable(source) {
            return Err(Status::UNRECOVERED_READ_ERROR);
        }
        length += source.length;
        sources.push(source);
    }
    if length > COPY_LENGTH_MAX {
        return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
    }
    let shift = namespace.block_shift();
    let destination = namespace.bytes(to >> shift, length >> shift);
    let destination = destination.ok_or(Status::LBA_OUT_OF_RANGE.do_not_retry())?;
    if sources.iter().any(|source| source.overlaps(&destination)) {
        return Err(Status::OVERLAPPING_IO_RANGE.do_not_retry());
    }
    Ok(destination)
}

/// A single step of a copy.
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) length: usize,
}

/// The next piece of a copy, or `None` at its end. Ranges were checked, but the namespace may have become smaller since: a
/// copy that leaves something out has failed.
pub(super) fn next_piece(work: &Work, data: &[u8], namespace: &Namespace) -> Result<Option<Piece>, Status> {
    let Work::Copy { next, ranges, format, done, to, .. } = *work else { return Err(Status::INTERNAL_ERROR) };
    let Some((start, blocks)) = copy_ranges(format, ranges, data)?.nth(usize::from(next)) else {
        return Ok(None);
    };
    let source = namespace.range(start, blocks)?;
    let length = (source.length - done).min(BUFFER_LENGTH_MAX as u64);
    namespace.check_end(ByteRange { offset: to, length })?;
    Ok(Some(Piece { from: source.offset + done, to, length: length as usize }))
}

/// Rest of a copy after a piece of `length` bytes has been copied.
pub(super) fn piece_done(work: &Work, length: u64, data: &[u8], namespace: &Namespace) -> Work {
    let Work::Copy { next, ranges, format, durable, done, to } = *work else { return *work };
    let whole = copy_ranges(format, ranges, data).ok();
    let range = whole.and_then(|mut ranges| ranges.nth(usize::from(next)));
    let source_length = range.map_or(0, |(_, blocks)| u64::from(blocks) << namespace.block_shift());
    let (next, done) = if done + length >= source_length { (next + 1, 0) } else { (next, done + length) };
    Work::Copy { next, ranges, format, durable, done, to: to + length }
}
