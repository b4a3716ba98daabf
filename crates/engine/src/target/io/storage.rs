//! Operations of commands at the storage: how they are started, and what their ends mean. An error of the storage becomes a
//! status here, and costs only the command it belongs to.

use std::io;

use nvme::Status;

use super::commands::Commands;
use super::context::Context;
use super::request::{Next, Operation, Request, State};
use super::sync_verdict::{SyncVerdict, end_sync};
use super::work::{Work, allocated_at_once};
use crate::backend::{Backend, Device, ZeroMethod};
use crate::limits::BUFFER_LENGTH_MAX;
use crate::ring::{Buffer, StorageOp};
use crate::target::served::{ByteRange, Namespace};

/// Names the operation of a command in a slot, which comes back with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorageToken {
    pub(crate) connection: u32,
    pub(crate) slot: u16,
}

impl StorageToken {
    /// As a number.
    pub(crate) const fn to_bits(self) -> u64 {
        (self.connection as u64) << 32 | self.slot as u64
    }

    /// The same back.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self { connection: (bits >> 32) as u32, slot: bits as u16 }
    }
}

impl Commands {
    /// Starts an operation for a command, whose data stays with it unless the operation has it.
    pub(super) fn store(
        &mut self,
        index: u16,
        namespace: &Namespace,
        operation: StorageOp,
        (data, reads): (Option<Buffer>, bool),
        ctx: &mut Context<'_>,
    ) -> Next {
        let beside_bytes = self.slots.get(index).map_or(0, |request| beside(&request.work, &operation));
        let Backend::Device(device) = &*namespace.backend else {
            return self.finish(index, Status::INTERNAL_ERROR, data, ctx);
        };
        // Counted as under way before it starts: it may take the error of another write, whose own sync has to wait for it.
        let sync = device.begin_sync(&operation);
        // Before it starts: by this state its end is known for one that is awaited.
        self.slots.set(
            index,
            State::AtStorage(Operation {
                data,
                began: ctx.now,
                sync,
                reads,
                beside_bytes,
                is_late: false,
                is_given_up: false,
                is_uncounted: false,
            }),
        );
        self.slots.count_beside(beside_bytes);
        let token = StorageToken { connection: self.of.address.connection, slot: index };
        ctx.storage.start(device, operation, token.to_bits());
        Next::Nothing
    }

    /// The storage has answered for the command in a slot.
    pub(crate) fn stored(
        &mut self,
        index: u16,
        result: io::Result<usize>,
        buffer: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        let Some(mut operation) = self.end_operation(index, ctx) else { return Next::Nothing };
        self.slots.uncount_beside(operation.beside_bytes);
        let request = self.slots.at(index);
        let (work, attachment) = (request.work, request.attachment().cloned());
        let (data, beside) =
            if moves_its_data(&work) { (buffer, None) } else { (operation.data.take(), buffer) };
        // Also for a command without a recipient: a failed sync is a failure of the namespace, even
        // if its own command was given up or its connection is closed.
        let sync = end_sync(&mut operation, attachment.as_ref(), &result, ctx.fabric);
        // Before the result is looked at: its host has its answer already, and its command identifier may be in use again.
        if operation.is_given_up || self.is_stopped {
            self.discard(index, operation.is_uncounted, (data, beside), ctx);
            return Next::Nothing;
        }
        let mut beside = beside;
        // The sync before the step: an operation that went well proves nothing while another sync may have taken its error.
        let next = match result {
            Ok(moved) if matches!(sync, SyncVerdict::Awaits(_)) => {
                self.await_syncs(index, sync, (data, moved))
            }
            Ok(_) if sync == SyncVerdict::Failed => self.refuse_after_failure(index, data, ctx),
            Ok(moved) if matches!(work, Work::Copy { .. }) => {
                self.copy_stepped(index, (moved, operation.reads), (data, beside.take()), ctx)
            }
            Ok(moved) => self.step_done(index, moved, (data, beside.as_deref()), ctx),
            Err(error) => self.step_failed(index, &error, data, ctx),
        };
        // After the step, which may compare with it.
        if let Some(buffer) = beside {
            ctx.pool.give(buffer);
        }
        next
    }

    /// Returns the buffers of a command that will not be answered to the pool.
    fn discard(
        &mut self,
        index: u16,
        is_uncounted: bool,
        (data, beside): (Option<Buffer>, Option<Buffer>),
        ctx: &mut Context<'_>,
    ) {
        self.slots.discard(index, ctx.pool);
        beside.into_iter().for_each(|buffer| ctx.pool.give(buffer));
        match data {
            Some(buffer) if is_uncounted => ctx.pool.give(buffer),
            Some(buffer) => self.slots.release(buffer, ctx.pool),
            None => {}
        }
    }

    /// An operation has gone well, and moved this number of bytes; what was read beside the command's data.
    pub(super) fn step_done(
        &mut self,
        index: u16,
        moved: usize,
        (data, beside): (Option<Buffer>, Option<&[u8]>),
        ctx: &mut Context<'_>,
    ) -> Next {
        let Request { work, length, .. } = *self.slots.at(index);
        match work {
            Work::Read { .. } if moved == length as usize => self.finish(index, Status::SUCCESS, data, ctx),
            // The file was truncated below the namespace's size.
            Work::Read { .. } => self.media_failure(index, Status::UNRECOVERED_READ_ERROR, data, ctx),
            Work::Write { range, .. } if moved == length as usize => match self.slots.at(index).partner() {
                Some(first) => self.end_pair(first, index, (None, data), ctx),
                None => {
                    let status = self.unmark(index, range).err().unwrap_or(Status::SUCCESS);
                    self.finish(index, status, data, ctx)
                }
            },
            Work::Write { .. } => self.media_failure(index, Status::WRITE_FAULT, data, ctx),
            Work::Compare { .. } if moved != length as usize => {
                self.media_failure(index, Status::UNRECOVERED_READ_ERROR, data, ctx)
            }
            Work::Compare { .. } => {
                let are_equal = beside.unwrap_or_default() == data.as_deref().unwrap_or_default();
                if self.slots.at(index).partner().is_some() {
                    return self.pair_compared(index, are_equal, data, ctx);
                }
                let status = if are_equal { Status::SUCCESS } else { Status::COMPARE_FAILURE };
                self.finish(index, status, data, ctx)
            }
            Work::Zero { range, method, deallocate, durable } => {
                let done = match method {
                    ZeroMethod::Allocate(_) => allocated_at_once(range),
                    ZeroMethod::Write => moved as u64,
                };
                if let Err(status) = self.unmark(index, ByteRange { offset: range.offset, length: done }) {
                    return self.finish(index, status, data, ctx);
                }
                let left = ByteRange { offset: range.offset + done, length: range.length - done };
                // Written zeroes are durable by themselves; allocated ones need one more step.
                let finished =
                    left.length == 0 && (!durable || range.length == 0 || method == ZeroMethod::Write);
                self.slots.at(index).work = Work::Zero { range: left, method, deallocate, durable };
                if finished {
                    self.finish(index, Status::SUCCESS, data, ctx)
                } else {
                    // Not at once to the next piece: while it waited for other syncs, fences did not wait for it, and its host may
                    // have been preempted, or a fused pair have its blocks.
                    self.go_on(index, data, ctx)
                }
            }
            Work::Verify { range } => self.piece_verified(index, (range, moved as u64), data, ctx),
            Work::Deallocate { .. } => self.execute(index, data, ctx),
            Work::Flush => self.finish(index, Status::SUCCESS, data, ctx),
            Work::MarkUncorrectable { .. } | Work::Copy { .. } | Work::Reservation { .. } => {
                self.finish(index, Status::INTERNAL_ERROR, data, ctx)
            }
        }
    }

    /// Goes on with Verify after a piece of `range` was read, of this many bytes.
    fn piece_verified(
        &mut self,
        index: u16,
        (range, moved): (ByteRange, u64),
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        if moved != range.length.min(BUFFER_LENGTH_MAX as u64) {
            return self.media_failure(index, Status::UNRECOVERED_READ_ERROR, data, ctx);
        }
        let left = ByteRange { offset: range.offset + moved, length: range.length - moved };
        self.slots.at(index).work = Work::Verify { range: left };
        if left.length == 0 {
            self.finish(index, Status::SUCCESS, data, ctx)
        } else {
            self.execute(index, data, ctx)
        }
    }

    fn step_failed(
        &mut self,
        index: u16,
        error: &io::Error,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        let work = self.slots.at(index).work;
        let refused = matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL));
        match work {
            Work::Zero { range, method: method @ ZeroMethod::Allocate(_), deallocate, durable }
                if refused =>
            {
                let next = self.device_of(index, |device| {
                    device.refuse(method);
                    device.zero_method(deallocate)
                });
                let method = next.unwrap_or(ZeroMethod::Write);
                self.slots.at(index).work = Work::Zero { range, method, deallocate, durable };
                self.execute(index, data, ctx)
            }
            // A hint that the storage cannot follow is not an error.
            Work::Deallocate { .. } if refused => self.execute(index, data, ctx),
            _ => {
                tracing::warn!(%error, ?work, nsid = self.slots.at(index).nsid, "storage failed");
                match error.raw_os_error() {
                    Some(libc::ETIMEDOUT) => drop(self.device_of(index, Device::note_late)),
                    Some(libc::ESHUTDOWN) => drop(self.device_of(index, Device::note_refused)),
                    _ => {}
                }
                // Before the error number is looked at: after a failed sync no write may be reported as one to be repeated.
                let has_failed = self.slots.at(index).attachment().is_some_and(|a| a.namespace.has_failed());
                if has_failed && work.is_refused_after_failure() {
                    return self.refuse_after_failure(index, data, ctx);
                }
                let is_file = self.device_of(index, |device| device.durability().is_some()) == Some(true);
                let status = status_of(error.raw_os_error(), work, is_file);
                if !ELSEWHERE.contains(&status) {
                    return self.media_failure(index, status, data, ctx);
                }
                self.finish(index, status, data, ctx)
            }
        }
    }

    /// Lets blocks be read again that have been written. Only when their data is there: earlier, a write that fails would leave
    /// invalid blocks readable.
    pub(super) fn unmark(&mut self, index: u16, range: ByteRange) -> Result<(), Status> {
        self.slots
            .at(index)
            .attachment()
            .map_or(Ok(()), |attachment| attachment.namespace.clear_uncorrectable(range))
    }

    /// Answers a command that the storage has failed.
    pub(super) fn media_failure(
        &mut self,
        index: u16,
        status: Status,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        let nsid = self.slots.at(index).nsid;
        self.of.counters.media_error(nsid);
        self.finish(index, status, data, ctx)
    }

    fn device_of<T>(&mut self, index: u16, then: impl FnOnce(&Device) -> T) -> Option<T> {
        let view = self.slots.at(index).view.clone();
        match &*view.get(self.slots.at(index).nsid)?.backend {
            Backend::Device(device) => Some(then(device)),
            _ => None,
        }
    }
}

/// True if the operations of a command move the host's data itself.
const fn moves_its_data(work: &Work) -> bool {
    matches!(work, Work::Read { .. } | Work::Write { .. })
}

/// Bytes of the buffer that an operation of a command has beside the host's data.
fn beside(work: &Work, operation: &StorageOp) -> usize {
    match operation {
        StorageOp::Read { buffer, .. } | StorageOp::Write { buffer, .. } if !moves_its_data(work) => {
            buffer.capacity()
        }
        _ => 0,
    }
}

/// Failures whose cause is not the medium: lack of room, a cluster that does not answer in time, and
/// an image that is another gateway's. These have a count by status alone.
const ELSEWHERE: [Status; 3] =
    [Status::CAPACITY_EXCEEDED, Status::NAMESPACE_NOT_READY, Status::INTERNAL_PATH_ERROR];

/// Status of a command whose operation the storage failed with this error number.
fn status_of(code: Option<i32>, work: Work, is_file: bool) -> Status {
    match (code, work) {
        // The cluster does not answer in time; nothing is wrong with the blocks.
        (Some(libc::ETIMEDOUT), _) => Status::NAMESPACE_NOT_READY,
        // The cluster no longer lets this gateway in, or another has the image: a path's failure.
        (Some(libc::ESHUTDOWN | libc::EROFS), _) if !is_file => Status::INTERNAL_PATH_ERROR,
        (Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG), _) => Status::CAPACITY_EXCEEDED,
        (_, Work::Read { .. } | Work::Compare { .. } | Work::Verify { .. }) => Status::UNRECOVERED_READ_ERROR,
        _ => Status::WRITE_FAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        for (connection, slot) in [(0, 0), (1, 2), (u32::MAX, u16::MAX)] {
            let token = StorageToken { connection, slot };
            assert_eq!(StorageToken::from_bits(token.to_bits()), token);
        }
    }

    #[test]
    fn failures_of_room_time_and_paths_are_not_of_the_medium() {
        for (code, is_file, of_medium) in [
            (libc::EIO, true, true),
            (libc::EIO, false, true),
            (libc::ENOSPC, true, false),
            (libc::EDQUOT, false, false),
            (libc::ETIMEDOUT, false, false),
            (libc::ESHUTDOWN, false, false),
            (libc::EROFS, false, false),
            // A file has no cluster that would refuse it.
            (libc::ESHUTDOWN, true, true),
            (libc::EROFS, true, true),
        ] {
            let status = status_of(Some(code), Work::Flush, is_file);
            assert_eq!(!ELSEWHERE.contains(&status), of_medium, "{code}, {is_file}: {status:?}");
        }
    }
}
