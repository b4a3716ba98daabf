//! Copy: the ranges a host names are read and written one after the other, without a byte of them on the network.
//! All of them were checked before the first byte moves.

use nvme::Status;
use nvme::io::copy_ranges;

use super::commands::Commands;
use super::context::Context;
use super::request::Next;
use super::work::Work;
use crate::limits::BUFFER_LENGTH_MAX;
use crate::ring::{Buffer, StorageOp};
use crate::target::served::{ByteRange, Namespace};

/// One step of a copy.
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

/// What is left of a copy when a piece of `length` bytes is where it belongs.
pub(super) fn piece_done(work: &Work, length: u64, data: &[u8], namespace: &Namespace) -> Work {
    let Work::Copy { next, ranges, format, durable, done, to } = *work else { return *work };
    let whole = copy_ranges(format, ranges, data).ok();
    let range = whole.and_then(|mut ranges| ranges.nth(usize::from(next)));
    let source_length = range.map_or(0, |(_, blocks)| u64::from(blocks) << namespace.block_shift());
    let (next, done) = if done + length >= source_length { (next + 1, 0) } else { (next, done + length) };
    Work::Copy { next, ranges, format, durable, done, to: to + length }
}

impl Commands {
    /// A step of a copy has ended, which read or wrote: what was read is written, and after what was written comes the next
    /// piece.
    pub(super) fn copy_stepped(
        &mut self,
        index: u16,
        (moved, was_reading): (usize, bool),
        (data, buffer): (Option<Buffer>, Option<Buffer>),
        ctx: &mut Context<'_>,
    ) -> Next {
        let request = self.slots.at(index);
        let (view, nsid, work) = (request.view.clone(), request.nsid, request.work);
        let Some(namespace) = view.get(nsid) else {
            return self.finish(index, Status::INVALID_NAMESPACE.do_not_retry(), data, ctx);
        };
        let list = data.as_deref().unwrap_or_default();
        let (piece, buffer) = match (next_piece(&work, list, namespace), buffer) {
            (Ok(Some(piece)), Some(buffer)) => (piece, buffer),
            // Nothing was left but to make it durable.
            (Ok(_), _) => return self.finish(index, Status::SUCCESS, data, ctx),
            (Err(status), buffer) => {
                buffer.into_iter().for_each(|buffer| ctx.pool.give(buffer));
                return self.finish(index, status, data, ctx);
            }
        };
        if moved != piece.length {
            ctx.pool.give(buffer);
            let status = if was_reading { Status::UNRECOVERED_READ_ERROR } else { Status::WRITE_FAULT };
            return self.media_failure(index, status, data, ctx);
        }
        if was_reading {
            let operation = StorageOp::Write { buffer, offset: piece.to, durable: false };
            return self.store(index, namespace, operation, (data, false), ctx);
        }
        ctx.pool.give(buffer);
        let length = piece.length as u64;
        let work = piece_done(&work, length, list, namespace);
        self.slots.at(index).work = work;
        let more = namespace
            .clear_uncorrectable(ByteRange { offset: piece.to, length })
            .and_then(|()| next_piece(&work, list, namespace));
        match (more, work) {
            (Ok(Some(piece)), _) => {
                let operation = StorageOp::Read { buffer: ctx.pool.take(piece.length), offset: piece.from };
                self.store(index, namespace, operation, (data, true), ctx)
            }
            (Ok(None), Work::Copy { durable: true, .. }) => {
                self.store(index, namespace, StorageOp::Sync, (data, false), ctx)
            }
            (Ok(None), _) => self.finish(index, Status::SUCCESS, data, ctx),
            (Err(status), _) => self.finish(index, status, data, ctx),
        }
    }
}
