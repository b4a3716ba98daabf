//! Copy: the ranges a host names are read and written one after the other, without a byte of them on the network.
//! All of them were checked before the first byte moves.

use nvme::Status;

use super::commands::Commands;
use super::context::Context;
use super::request::Next;
use super::work::{Work, next_piece, piece_done};
use crate::ring::{Buffer, StorageOp};
use crate::target::served::ByteRange;

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
