//! One step of a command on its namespace, whatever is behind that: memory is always ready, and does it at once unless others
//! use the same page or the turn is over; a device gets an operation, whose end comes later.

use nvme::Status;

use super::work::{Work, allocated_at_once, check_copy, check_end, dataset_range, next_piece, piece_done};
use crate::backend::{Backend, Device, Memory, ZeroMethod};
use crate::limits::{BUFFER_LENGTH_MAX, DEALLOCATE_LENGTH_MAX, WORK_PIECE, ZEROED_BYTES_PER_WORK_BYTE};
use crate::ring::{Buffer, BufferPool, StorageOp};
use crate::target::served::{ByteRange, Namespace};

/// The data of a command.
#[derive(Debug)]
pub(super) enum Data<'a> {
    /// There is none.
    None,
    /// The host's, in its capsule as it was received.
    Capsule(&'a [u8]),
    /// The host's, or where the host's is put together.
    Buffer(Buffer),
    /// Data of a fused pair: bytes to compare, and bytes to write afterwards.
    Pair { compared: Buffer, written: &'a [u8] },
}

impl Data<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Capsule(bytes) => bytes,
            Self::Buffer(buffer) | Self::Pair { compared: buffer, .. } => buffer,
        }
    }

    /// Buffer with the data, `None` if the data is in the capsule or there is none.
    pub(super) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Buffer(buffer) | Self::Pair { compared: buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    fn take_buffer(&mut self) -> Option<Buffer> {
        std::mem::replace(self, Self::None).into_buffer()
    }
}

/// Result of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// The command is done.
    Done(Status),
    /// This turn has no time left.
    AwaitsTurn,
    /// A page that the command needs is in use.
    AwaitsPage,
    /// The storage is to do this; of a copy, whether it reads.
    Store { operation: StorageOp, reads: bool },
}

/// Resources of steps during one turn of a queue.
pub(super) struct StepContext<'a> {
    /// Bytes that may still be worked on.
    pub(super) work_left: &'a mut u64,
    /// True once other users of a page have had precedence for long enough.
    pub(super) insists: bool,
    pub(super) pool: &'a mut BufferPool,
}

impl StepContext<'_> {
    /// Does the next step. What is left of the command then stands in `work`, and of its present range in `done`.
    pub(super) fn execute(
        &mut self,
        namespace: &Namespace,
        work: &mut Work,
        done: &mut u64,
        data: &mut Data<'_>,
    ) -> Step {
        let outcome = match (&*namespace.backend, *work) {
            // Marked blocks concern the namespace alone, not its backend.
            (_, Work::MarkUncorrectable { range }) => {
                namespace.mark_uncorrectable(range).map(|()| Step::Done(Status::SUCCESS))
            }
            // These are the reservation worker's.
            (_, Work::Reservation { .. }) => Err(Status::INTERNAL_ERROR),
            (Backend::Memory(memory), Work::Copy { .. }) => {
                self.copy_in_memory(memory, namespace, work, data)
            }
            (Backend::Memory(memory), Work::Deallocate { .. }) => {
                self.deallocate_in_memory(memory, namespace, (work, done), data)
            }
            (Backend::Memory(memory), _) => Ok(self.in_memory(memory, *work, done, data)),
            (Backend::Null(_), _) => in_nothing(namespace, work, data),
            (Backend::Device(device), _) => self.on_device(device, namespace, (work, done), data),
        };
        outcome.unwrap_or_else(Step::Done)
    }

    fn in_memory(&mut self, memory: &Memory, work: Work, done: &mut u64, data: &mut Data<'_>) -> Step {
        match (work, data) {
            (Work::Read { range }, Data::Buffer(buffer)) => {
                self.spend(range.length);
                done_or_page(memory.read(range.offset, buffer, self.insists) == buffer.len())
            }
            // All or nothing: the rest of a capsule is not kept.
            (Work::Write { range, .. }, Data::Capsule(bytes)) => {
                let writer = memory.writer(range.offset, bytes.len());
                done_or_page(writer.map(|writer| writer.write(bytes)).is_some())
            }
            (Work::Write { range, .. }, Data::Buffer(buffer)) => {
                let left = &buffer[*done as usize..];
                let written = memory.write(range.offset + *done, left);
                *done += written as u64;
                done_or_page(written == left.len())
            }
            (Work::Compare { range }, Data::Pair { compared, written }) => {
                let Some(writer) = memory.writer(range.offset, range.length as usize) else {
                    return Step::AwaitsPage;
                };
                let are_equal = writer.equals(compared);
                if are_equal {
                    writer.write(written);
                }
                compared_to_be(are_equal)
            }
            (Work::Compare { range }, data) => {
                match memory.equals(range.offset, data.bytes(), self.insists) {
                    Some(are_equal) => compared_to_be(are_equal),
                    None => Step::AwaitsPage,
                }
            }
            (Work::Zero { range, .. }, _) => self.zero_in_memory(memory, range, done),
            // A flush or a check of memory has nothing to do.
            _ => Step::Done(Status::SUCCESS),
        }
    }

    /// Makes what is left of a range zeroes.
    fn zero_in_memory(&mut self, memory: &Memory, range: ByteRange, done: &mut u64) -> Step {
        loop {
            let left = range.length.saturating_sub(*done);
            if left == 0 {
                return Step::Done(Status::SUCCESS);
            }
            let Some(work) = self.work_now(left.div_ceil(ZEROED_BYTES_PER_WORK_BYTE)) else {
                return Step::AwaitsTurn;
            };
            let piece = left.min(work * ZEROED_BYTES_PER_WORK_BYTE);
            let zeroed = memory.zero(range.offset + *done, piece);
            *done += zeroed;
            if zeroed < piece {
                return Step::AwaitsPage;
            }
        }
    }

    fn deallocate_in_memory(
        &mut self,
        memory: &Memory,
        namespace: &Namespace,
        (work, done): (&mut Work, &mut u64),
        data: &Data<'_>,
    ) -> Result<Step, Status> {
        while let Work::Deallocate { next, ranges } = *work
            && next < ranges
        {
            let range = dataset_range(data.bytes(), next, namespace)?;
            match self.zero_in_memory(memory, range, done) {
                Step::Done(_) => {}
                paused => return Ok(paused),
            }
            *done = 0;
            *work = Work::Deallocate { next: next + 1, ranges };
        }
        Ok(Step::Done(Status::SUCCESS))
    }

    /// Copies within memory, up to the work limit of this turn or a page that is in use.
    fn copy_in_memory(
        &mut self,
        memory: &Memory,
        namespace: &Namespace,
        work: &mut Work,
        data: &Data<'_>,
    ) -> Result<Step, Status> {
        check_copy(work, data.bytes(), namespace)?;
        while let Some(piece) = next_piece(work, data.bytes(), namespace)? {
            let Some(length) = self.work_now(piece.length as u64) else { return Ok(Step::AwaitsTurn) };
            let mut buffer = self.pool.take(length as usize);
            let read = memory.read(piece.from, &mut buffer, self.insists);
            let written = memory.write(piece.to, &buffer[..read]) as u64;
            self.pool.give(buffer);
            *work = piece_done(work, written, data.bytes(), namespace);
            if written < length {
                return Ok(Step::AwaitsPage);
            }
        }
        Ok(Step::Done(Status::SUCCESS))
    }

    /// The operation of the next step on a device.
    fn on_device(
        &mut self,
        device: &Device,
        namespace: &Namespace,
        (work, done): (&mut Work, &mut u64),
        data: &mut Data<'_>,
    ) -> Result<Step, Status> {
        check_end(work, namespace)?;
        let mut reads = false;
        let operation = match *work {
            Work::Read { range } => {
                let buffer = data.take_buffer().ok_or(Status::INTERNAL_ERROR)?;
                StorageOp::Read { buffer, offset: range.offset }
            }
            Work::Write { range, durable } => {
                let buffer = data.take_buffer().ok_or(Status::INTERNAL_ERROR)?;
                StorageOp::Write { buffer, offset: range.offset, durable }
            }
            // The host's data stays where it is; what is stored is read beside it.
            Work::Compare { range } | Work::Verify { range } => {
                let buffer = self.pool.take(range.length.min(BUFFER_LENGTH_MAX as u64) as usize);
                StorageOp::Read { buffer, offset: range.offset }
            }
            Work::Flush => StorageOp::Sync,
            Work::Copy { .. } => {
                check_copy(work, data.bytes(), namespace)?;
                let Some(piece) = next_piece(work, data.bytes(), namespace)? else {
                    return Ok(Step::Done(Status::SUCCESS));
                };
                reads = true;
                StorageOp::Read { buffer: self.pool.take(piece.length), offset: piece.from }
            }
            // Durability was asked for: the zeroes are there, and are made to stay.
            Work::Zero { range, .. } if range.length == 0 => StorageOp::Sync,
            Work::Zero { range, method: ZeroMethod::Allocate(mode), .. } => {
                StorageOp::Allocate { mode, offset: range.offset, length: allocated_at_once(range) }
            }
            Work::Zero { range, method: ZeroMethod::Write, durable, .. } => {
                let mut buffer = self.pool.take(range.length.min(BUFFER_LENGTH_MAX as u64) as usize);
                buffer.fill(0);
                StorageOp::Write { buffer, offset: range.offset, durable }
            }
            Work::Deallocate { mut next, ranges } => {
                let range = loop {
                    if next >= ranges {
                        return Ok(Step::Done(Status::SUCCESS));
                    }
                    let ByteRange { offset, length } = dataset_range(data.bytes(), next, namespace)?;
                    if length > *done && device.deallocates() {
                        break ByteRange { offset: offset + *done, length: length - *done };
                    }
                    (next, *done) = (next + 1, 0);
                };
                *work = Work::Deallocate { next, ranges };
                // What a lost host has asked for ends within the Command Quiesce Time.
                let (mode, length) = (device.deallocate_mode(), range.length.min(DEALLOCATE_LENGTH_MAX));
                *done += length;
                StorageOp::Allocate { mode, offset: range.offset, length }
            }
            Work::MarkUncorrectable { .. } | Work::Reservation { .. } => return Err(Status::INTERNAL_ERROR),
        };
        Ok(Step::Store { operation, reads })
    }

    /// Number of bytes, at most `wanted`, to process now; `None` when this turn's work limit is
    /// reached.
    fn work_now(&mut self, wanted: u64) -> Option<u64> {
        if *self.work_left == 0 {
            return None;
        }
        let now = wanted.min(self.work_left.next_multiple_of(WORK_PIECE));
        self.spend(now);
        Some(now)
    }

    /// Takes so much work off what this turn has left.
    const fn spend(&mut self, bytes: u64) {
        *self.work_left = self.work_left.saturating_sub(bytes);
    }
}

/// A step on a namespace that holds nothing but zeroes.
fn in_nothing(namespace: &Namespace, work: &Work, data: &mut Data<'_>) -> Result<Step, Status> {
    match *work {
        Work::Read { .. } => {
            if let Data::Buffer(buffer) = data {
                buffer.fill(0);
            }
        }
        Work::Compare { .. } if data.bytes().iter().any(|byte| *byte != 0) => {
            return Err(Status::COMPARE_FAILURE);
        }
        Work::Copy { .. } => drop(check_copy(work, data.bytes(), namespace)?),
        Work::Deallocate { next, ranges } => {
            (next..ranges).try_for_each(|number| dataset_range(data.bytes(), number, namespace).map(drop))?;
        }
        _ => {}
    }
    Ok(Step::Done(Status::SUCCESS))
}

const fn compared_to_be(are_equal: bool) -> Step {
    Step::Done(if are_equal { Status::SUCCESS } else { Status::COMPARE_FAILURE })
}

const fn done_or_page(is_done: bool) -> Step {
    if is_done { Step::Done(Status::SUCCESS) } else { Step::AwaitsPage }
}
