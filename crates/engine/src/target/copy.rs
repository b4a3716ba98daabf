//! Copy: the ranges a host names are read and written one after the other, without a byte of them on the network.
//! All of them are checked before the first byte moves.

use nvme::Status;
use nvme::io::copy_ranges;

use super::connection::{Connection, Environment};
use super::memory_work::Pause;
use super::namespace::{ByteRange, Namespace};
use super::slot::{Stage, Work};
use crate::backend::{Backend, Device, Memory};
use crate::limits::{BUFFER_LENGTH_MAX, COPY_LENGTH_MAX, COPY_RANGE_LENGTH_MAX};
use crate::ring::{Buffer, StorageOp};

/// One step of a copy.
struct Piece {
    from: u64,
    to: u64,
    length: usize,
}

/// What is left of the source ranges and the destination of a copy, checked.
fn check(work: &Work, data: &[u8], namespace: &Namespace) -> Result<ByteRange, Status> {
    let Work::Copy { next, ranges, format, done, to, .. } = *work else { return Err(Status::INTERNAL_ERROR) };
    let mut sources = Vec::with_capacity(usize::from(ranges));
    let mut length = 0;
    for (start, blocks) in copy_ranges(format, ranges, data)?.skip(usize::from(next)) {
        let mut source = namespace.range(start, blocks)?;
        if sources.is_empty() {
            // What was copied in a turn before does not count any more.
            source.offset += done;
            source.length = source.length.saturating_sub(done);
        }
        if source.length > COPY_RANGE_LENGTH_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
        }
        if namespace.is_spoiled(source) {
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

/// The next piece of a copy, or `None` at its end. Ranges were checked, but the namespace may have become smaller since: a
/// copy that leaves something out has failed.
fn next_piece(work: &Work, data: &[u8], namespace: &Namespace) -> Result<Option<Piece>, Status> {
    let Work::Copy { next, ranges, format, done, to, .. } = *work else { return Err(Status::INTERNAL_ERROR) };
    let Some((start, blocks)) = copy_ranges(format, ranges, data)?.nth(usize::from(next)) else {
        return Ok(None);
    };
    let source = namespace.range(start, blocks)?;
    let length = (source.length - done).min(BUFFER_LENGTH_MAX as u64);
    namespace.check_end(ByteRange { offset: to, length })?;
    Ok(Some(Piece { from: source.offset + done, to, length: length as usize }))
}

impl Connection {
    /// Checks a copy whose ranges have come; the destination.
    pub(super) fn check_copy(&mut self, index: u16, namespace: &Namespace) -> Result<ByteRange, Status> {
        let work = self.slots.at(index).work;
        check(&work, self.slots.data(index), namespace)
    }

    /// Takes note that a piece of `length` bytes is where it belongs.
    fn piece_done(&mut self, index: u16, length: u64, namespace: &Namespace) {
        let work = self.slots.at(index).work;
        let Work::Copy { next, ranges, format, durable, done, to } = work else { return };
        let whole = copy_ranges(format, ranges, self.slots.data(index)).ok();
        let range = whole.and_then(|mut ranges| ranges.nth(usize::from(next)));
        let source_length = range.map_or(0, |(_, blocks)| u64::from(blocks) << namespace.block_shift());
        let (next, done) = if done + length >= source_length { (next + 1, 0) } else { (next, done + length) };
        self.slots.at(index).work = Work::Copy { next, ranges, format, durable, done, to: to + length };
    }

    /// Copies within memory, as much as this turn has time for, up to a page that somebody else uses.
    pub(super) fn copy_in_memory(
        &mut self,
        index: u16,
        memory: &Memory,
        namespace: &Namespace,
        env: &mut Environment<'_>,
    ) -> Result<Status, Pause> {
        let insists = self.contention.insists(env.now);
        loop {
            let work = self.slots.at(index).work;
            let piece = match next_piece(&work, self.slots.data(index), namespace) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(Status::SUCCESS),
                Err(status) => return Ok(status),
            };
            let length = self.work_now(piece.length as u64).ok_or(Pause::Turn)?;
            let mut buffer = env.pool.take(length as usize);
            let read = memory.read(piece.from, &mut buffer, insists);
            let written = memory.write(piece.to, &buffer[..read]) as u64;
            env.pool.give(buffer);
            self.piece_done(index, written, namespace);
            if written < length {
                return Err(Pause::Page);
            }
        }
    }

    /// Starts to read the next piece; `false` when there is none, and an error when it is no longer in the namespace.
    pub(super) fn copy_on_storage(
        &mut self,
        index: u16,
        device: &Device,
        namespace: &Namespace,
        env: &mut Environment<'_>,
    ) -> Result<bool, Status> {
        let work = self.slots.at(index).work;
        let Some(piece) = next_piece(&work, self.slots.data(index), namespace)? else { return Ok(false) };
        let buffer = env.pool.take(piece.length);
        self.slots.at(index).stage = Stage::Storage;
        self.slots.at(index).copying = true;
        self.start_beside(index, device, StorageOp::Read { buffer, offset: piece.from }, env);
        Ok(true)
    }

    /// A step of a copy has ended: what was read is written, and after what was written comes the next piece.
    pub(super) fn copy_stepped(
        &mut self,
        index: u16,
        moved: usize,
        buffer: Option<Buffer>,
        env: &mut Environment<'_>,
    ) {
        let Some(namespace) = self.slots.at(index).attachment().map(|a| a.namespace.clone()) else { return };
        let Backend::Device(device) = &*namespace.backend else { return };
        let work = self.slots.at(index).work;
        let piece = next_piece(&work, self.slots.data(index), &namespace);
        let was_reading = std::mem::replace(&mut self.slots.at(index).copying, false);
        let (piece, buffer) = match (piece, buffer) {
            (Ok(Some(piece)), Some(buffer)) => (piece, buffer),
            // Nothing was left but to make it durable.
            (Ok(_), _) => return self.finish(index, Status::SUCCESS, env),
            (Err(status), buffer) => {
                buffer.into_iter().for_each(|buffer| env.pool.give(buffer));
                return self.finish(index, status, env);
            }
        };
        if moved != piece.length {
            env.pool.give(buffer);
            let status = if was_reading { Status::UNRECOVERED_READ_ERROR } else { Status::WRITE_FAULT };
            return self.media_failure(index, status, env);
        }
        if was_reading {
            let operation = StorageOp::Write { buffer, offset: piece.to, durable: false };
            return self.start_beside(index, device, operation, env);
        }
        env.pool.give(buffer);
        let length = piece.length as u64;
        self.piece_done(index, length, &namespace);
        let more = namespace.mend(ByteRange { offset: piece.to, length });
        match (
            more.and_then(|()| self.copy_on_storage(index, device, &namespace, env)),
            self.slots.at(index).work,
        ) {
            (Ok(true), _) => {}
            (Ok(false), Work::Copy { durable: true, .. }) => {
                self.start_beside(index, device, StorageOp::Sync, env);
            }
            (Ok(false), _) => self.finish(index, Status::SUCCESS, env),
            (Err(status), _) => self.finish(index, status, env),
        }
    }
}
