//! What happens when a command has all it needs: memory does it at once, the storage is started and its answer taken.
//! Errors of the storage become statuses here, and cost only the command they belong to.

use std::io;

use nvme::Status;
use nvme::io::{DatasetRange, Fused};
use zerocopy::FromBytes;

use super::connection::{Connection, Environment, Session};
use super::memory_work::Pause;
use super::namespace::{ByteRange, Namespace, special};
use super::slot::{Stage, Work};
use super::sync_verdict::{SyncVerdict, end_sync};
use crate::backend::{Backend, Device, ZeroMethod};
use crate::limits::BUFFER_LENGTH_MAX;
use crate::ring::{Buffer, StorageOp};

/// What became of an attempt to do a step of a command.
enum Step {
    /// The command is done.
    Done(Status),
    /// The storage works on it.
    Started,
}

impl Connection {
    /// Reads into a slot's buffer, at once or through the storage.
    pub(super) fn begin_read(&mut self, index: u16, range: ByteRange, env: &mut Environment<'_>) {
        let Some(view) = self.slots.at(index).view.clone() else { return };
        let Some(namespace) = view.get(self.slots.at(index).nsid) else { return };
        let length = self.slots.at(index).length;
        if namespace.is_spoiled(range) {
            return self.media_failure(index, Status::UNRECOVERED_READ_ERROR, env);
        }
        match &*namespace.backend {
            Backend::Memory(memory) => self.read_memory(index, memory, range, env),
            Backend::Null(_) => {
                if let Some(buffer) = self.slots.at(index).data.as_mut() {
                    buffer.fill(0);
                }
                self.send_slot(index, length, env.now);
            }
            Backend::Device(device) => {
                if let Some(buffer) = self.slots.lend(index) {
                    self.start_operation(
                        index,
                        device,
                        StorageOp::Read { buffer, offset: range.offset },
                        env,
                    );
                }
            }
        }
    }

    /// The command in a slot has all its data (or needs none): does it, or the next step of it.
    pub(super) fn data_came(&mut self, index: u16, env: &mut Environment<'_>) {
        if self.slots.at(index).stage != Stage::Storage {
            if !self.slots.at(index).admitted && self.waits_for_limits(index, env) {
                return;
            }
            if self.slots.at(index).fused != Fused::No {
                return self.pair_data_came(index, env);
            }
        }
        let Some(view) = self.slots.at(index).view.clone() else { return };
        let Some(namespace) = view.get(self.slots.at(index).nsid) else { return };
        if let Work::Reservation { .. } = self.slots.at(index).work {
            return self.reservation_data_came(index, env);
        }
        if self.slots.at(index).stage != Stage::Storage
            && namespace.special() & special::SLOW != 0
            && let Err(status) = self.pass_gates(index, namespace)
        {
            if let Some(status) = status {
                self.finish(index, status, env);
            }
            return;
        }
        let step = match &*namespace.backend {
            Backend::Memory(memory) => match self.do_in_memory(index, memory, namespace, env) {
                Ok(status) => Step::Done(status),
                Err(Pause::Turn) => return self.defer(index),
                Err(Pause::Page) => return self.hold_back(index),
            },
            Backend::Null(_) => Step::Done(self.do_in_nothing(index, namespace)),
            Backend::Device(device) => self.start_storage(index, device, namespace, env),
        };
        if let Step::Done(status) = step {
            self.finish(index, status, env);
        }
    }

    /// What a command meets on a namespace with claims or spoiled blocks: it is held back (`None`), or fails.
    #[cold]
    fn pass_gates(&mut self, index: u16, namespace: &Namespace) -> Result<(), Option<Status>> {
        let work = self.slots.at(index).work;
        if namespace.has_failed() && work.is_refused_after_failure() {
            return Err(Some(Status::WRITE_FAULT.do_not_retry()));
        }
        let mut written = Vec::new();
        match work {
            Work::Write { range, .. } | Work::Zero { range, .. } | Work::Spoil { range } => {
                written.push(range);
            }
            Work::Copy { .. } => written.push(self.check_copy(index, namespace).map_err(Some)?),
            Work::Deallocate { next, ranges } => {
                for number in next..ranges {
                    written.push(dataset_range(self.slots.data(index), number, namespace).map_err(Some)?);
                }
            }
            Work::Compare { range } | Work::Verify { range } if namespace.is_spoiled(range) => {
                return Err(Some(Status::UNRECOVERED_READ_ERROR));
            }
            _ => {}
        }
        if written.iter().any(|range| namespace.is_claimed(range)) {
            self.slots.at(index).stage = Stage::Exclusive;
            self.held_back.push_back(index);
            return Err(None);
        }
        // What may fail yet is mended when it has not; here it is only made sure that it can be.
        let may_fail =
            matches!(*namespace.backend, Backend::Device(_)) && !matches!(work, Work::Deallocate { .. });
        match work {
            Work::Spoil { .. } => Ok(()),
            _ if may_fail => written.iter().try_for_each(|range| namespace.check_mend(*range)),
            _ => written.iter().try_for_each(|range| namespace.mend(*range)),
        }
        .map_err(Some)
    }

    fn do_in_nothing(&mut self, index: u16, namespace: &Namespace) -> Status {
        let work = self.slots.at(index).work;
        let data = self.slots.data(index);
        match work {
            Work::Spoil { range } => namespace.spoil(range).err().unwrap_or(Status::SUCCESS),
            Work::Copy { .. } => self.check_copy(index, namespace).err().unwrap_or(Status::SUCCESS),
            Work::Compare { .. } if data.iter().any(|byte| *byte != 0) => Status::COMPARE_FAILURE,
            Work::Deallocate { next, ranges } => (next..ranges)
                .find_map(|number| dataset_range(data, number, namespace).err())
                .unwrap_or(Status::SUCCESS),
            _ => Status::SUCCESS,
        }
    }

    /// Starts the next step of a command on the storage.
    fn start_storage(
        &mut self,
        index: u16,
        device: &Device,
        namespace: &Namespace,
        env: &mut Environment<'_>,
    ) -> Step {
        let work = self.slots.at(index).work;
        if let Err(status) = check_end(&work, namespace) {
            return Step::Done(status);
        }
        let operation = match work {
            Work::Write { range, durable } => match self.slots.lend(index) {
                Some(buffer) => StorageOp::Write { buffer, offset: range.offset, durable },
                None => return Step::Done(Status::INTERNAL_ERROR),
            },
            Work::Compare { range } => {
                // The host's data stays in the slot; what is stored is read beside it.
                let buffer = env.pool.take(range.length as usize);
                self.start_beside(index, device, StorageOp::Read { buffer, offset: range.offset }, env);
                return Step::Started;
            }
            Work::Verify { range } => {
                let buffer = env.pool.take(range.length.min(BUFFER_LENGTH_MAX as u64) as usize);
                self.start_beside(index, device, StorageOp::Read { buffer, offset: range.offset }, env);
                return Step::Started;
            }
            Work::Flush => {
                self.start_beside(index, device, StorageOp::Sync, env);
                return Step::Started;
            }
            Work::Spoil { range } => {
                return Step::Done(namespace.spoil(range).err().unwrap_or(Status::SUCCESS));
            }
            Work::Copy { .. } => {
                let checked = self.check_copy(index, namespace);
                return match checked.and_then(|_| self.copy_on_storage(index, device, namespace, env)) {
                    Err(status) => Step::Done(status),
                    Ok(true) => Step::Started,
                    Ok(false) => Step::Done(Status::SUCCESS),
                };
            }
            Work::Zero { range, method, durable, .. } => {
                self.start_zero(index, device, range, method, durable, env);
                return Step::Started;
            }
            Work::Deallocate { next, ranges } => {
                let mode = device.deallocate_mode();
                let mut number = next;
                let range = loop {
                    if number >= ranges {
                        return Step::Done(Status::SUCCESS);
                    }
                    match dataset_range(self.slots.data(index), number, namespace) {
                        Err(status) => return Step::Done(status),
                        Ok(range) if range.length > 0 => break range,
                        Ok(_) => number += 1,
                    }
                };
                self.slots.at(index).work = Work::Deallocate { next: number + 1, ranges };
                let operation = StorageOp::Allocate { mode, offset: range.offset, length: range.length };
                self.start_beside(index, device, operation, env);
                return Step::Started;
            }
            _ => return Step::Done(Status::INTERNAL_ERROR),
        };
        self.start_operation(index, device, operation, env);
        Step::Started
    }

    /// Starts an operation that does not use the slot's own buffer, which stays where it is.
    pub(super) fn start_beside(
        &mut self,
        index: u16,
        device: &Device,
        operation: StorageOp,
        env: &mut Environment<'_>,
    ) {
        let data = self.slots.lend(index);
        self.slots.at(index).data = data;
        self.start_operation(index, device, operation, env);
    }

    /// Starts an operation for the command in a slot.
    pub(super) fn start_operation(
        &mut self,
        index: u16,
        device: &Device,
        operation: StorageOp,
        env: &mut Environment<'_>,
    ) {
        let slot = self.slots.at(index);
        slot.sync = device.begin_sync(&operation);
        slot.stored = env.now;
        device.start(env.ring, operation, self.storage_token(index));
    }

    fn start_zero(
        &mut self,
        index: u16,
        device: &Device,
        range: ByteRange,
        method: ZeroMethod,
        durable: bool,
        env: &mut Environment<'_>,
    ) {
        if range.length == 0 {
            // Durability was asked for: the zeroes are there, and are made to stay.
            return self.start_beside(index, device, StorageOp::Sync, env);
        }
        let operation = match method {
            ZeroMethod::Allocate(mode) => {
                StorageOp::Allocate { mode, offset: range.offset, length: range.length }
            }
            ZeroMethod::Write => {
                let length = range.length.min(BUFFER_LENGTH_MAX as u64) as usize;
                let mut buffer = env.pool.take(length);
                buffer.fill(0);
                StorageOp::Write { buffer, offset: range.offset, durable }
            }
        };
        self.start_beside(index, device, operation, env);
    }

    /// The storage has answered for the slot.
    pub(super) fn on_stored(
        &mut self,
        index: u16,
        result: io::Result<usize>,
        buffer: Option<Buffer>,
        env: &mut Environment<'_>,
    ) {
        self.note_storage_time(index, env.fabric, env.now);
        let own = matches!(self.slots.at(index).work, Work::Read { .. } | Work::Write { .. });
        let mut beside = None;
        if own {
            self.slots.regain(index, buffer);
        } else {
            beside = buffer;
            let data = self.slots.at(index).data.take();
            self.slots.regain(index, data);
        }
        let work = self.slots.at(index).work;
        let sync = end_sync(self.slots.at(index), &result, env.fabric);
        match result {
            // Nothing may follow a termination request.
            _ if self.terminated => self.slots.give(index, env.pool),
            // Its host has its answer.
            _ if self.slots.at(index).is_given_up => {
                self.slots.give(index, env.pool);
                self.wake_waiting(env);
            }
            Ok(moved) if matches!(sync, SyncVerdict::Awaits(_)) => self.await_syncs(index, sync, moved),
            Ok(_) if sync == SyncVerdict::Failed => self.refuse_after_failure(index, env),
            Ok(moved) if matches!(work, Work::Copy { .. }) => {
                self.copy_stepped(index, moved, beside.take(), env);
            }
            Ok(moved) => self.step_done(index, work, moved, beside.as_ref(), env),
            Err(error) => self.step_failed(index, work, &error, env),
        }
        if let Some(buffer) = beside {
            env.pool.give(buffer);
        }
    }

    pub(super) fn step_done(
        &mut self,
        index: u16,
        work: Work,
        moved: usize,
        beside: Option<&Buffer>,
        env: &mut Environment<'_>,
    ) {
        let length = self.slots.at(index).length;
        match work {
            Work::Read { .. } if moved == length as usize => self.send_slot(index, length, env.now),
            // Somebody cut the file below the namespace.
            Work::Read { .. } => self.media_failure(index, Status::UNRECOVERED_READ_ERROR, env),
            Work::Write { range, .. } if moved == length as usize => match self.slots.at(index).partner {
                Some(first) => self.end_pair(first, index, true, env),
                None => {
                    let status = self.mend(index, range).err().unwrap_or(Status::SUCCESS);
                    self.finish(index, status, env);
                }
            },
            Work::Write { .. } => self.media_failure(index, Status::WRITE_FAULT, env),
            Work::Compare { .. } if moved != length as usize => {
                self.media_failure(index, Status::UNRECOVERED_READ_ERROR, env);
            }
            Work::Compare { .. } => {
                let stored = beside.map_or(&[][..], |buffer| &buffer[..]);
                let equal = stored == self.slots.data(index);
                if self.slots.at(index).partner.is_some() {
                    return self.pair_compared(index, equal, env);
                }
                self.finish(index, if equal { Status::SUCCESS } else { Status::COMPARE_FAILURE }, env);
            }
            Work::Zero { range, method, deallocate, durable } => {
                let done = match method {
                    ZeroMethod::Allocate(_) => range.length,
                    ZeroMethod::Write => moved as u64,
                };
                if let Err(status) = self.mend(index, ByteRange { offset: range.offset, length: done }) {
                    return self.finish(index, status, env);
                }
                let left = ByteRange { offset: range.offset + done, length: range.length - done };
                // Written zeroes are durable by themselves; allocated ones need one more step.
                let finished =
                    left.length == 0 && (!durable || range.length == 0 || method == ZeroMethod::Write);
                self.slots.at(index).work = Work::Zero { range: left, method, deallocate, durable };
                if finished { self.finish(index, Status::SUCCESS, env) } else { self.data_came(index, env) }
            }
            Work::Verify { range } => {
                if moved as u64 != range.length.min(BUFFER_LENGTH_MAX as u64) {
                    return self.media_failure(index, Status::UNRECOVERED_READ_ERROR, env);
                }
                let moved = moved as u64;
                let left = ByteRange { offset: range.offset + moved, length: range.length - moved };
                self.slots.at(index).work = Work::Verify { range: left };
                if left.length == 0 {
                    self.finish(index, Status::SUCCESS, env);
                } else {
                    self.data_came(index, env);
                }
            }
            Work::Deallocate { .. } => self.data_came(index, env),
            Work::Flush => self.finish(index, Status::SUCCESS, env),
            Work::Free | Work::Admin | Work::Spoil { .. } | Work::Copy { .. } | Work::Reservation { .. } => {}
        }
    }

    fn step_failed(&mut self, index: u16, work: Work, error: &io::Error, env: &mut Environment<'_>) {
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
                self.data_came(index, env);
            }
            // A hint that the storage cannot follow is no error.
            Work::Deallocate { .. } if refused => self.data_came(index, env),
            _ => {
                tracing::warn!(%error, ?work, nsid = self.slots.at(index).nsid, "storage failed");
                if error.raw_os_error() == Some(libc::ETIMEDOUT) {
                    self.device_of(index, Device::note_late);
                }
                let has_failed = self.slots.at(index).attachment().is_some_and(|a| a.namespace.has_failed());
                if has_failed && work.is_refused_after_failure() {
                    return self.refuse_after_failure(index, env);
                }
                let is_file = self.device_of(index, |device| device.durability().is_some()) == Some(true);
                let status = match (error.raw_os_error(), work) {
                    // The cluster does not answer in time; nothing is wrong with the blocks.
                    (Some(libc::ETIMEDOUT), _) => Status::NAMESPACE_NOT_READY,
                    // The cluster does not let this gateway in any more, or another has the image: a path's failure.
                    (Some(libc::ESHUTDOWN | libc::EROFS), _) if !is_file => Status::INTERNAL_PATH_ERROR,
                    (Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG), _) => Status::CAPACITY_EXCEEDED,
                    (_, Work::Read { .. } | Work::Compare { .. } | Work::Verify { .. }) => {
                        Status::UNRECOVERED_READ_ERROR
                    }
                    _ => Status::WRITE_FAULT,
                };
                self.media_failure(index, status, env);
            }
        }
    }

    /// Lets blocks be read again that have been written.
    fn mend(&mut self, index: u16, range: ByteRange) -> Result<(), Status> {
        self.slots.at(index).attachment().map_or(Ok(()), |attachment| attachment.namespace.mend(range))
    }

    pub(super) fn media_failure(&mut self, index: u16, status: Status, env: &mut Environment<'_>) {
        let nsid = self.slots.at(index).nsid;
        if let Session::Io { counters, .. } = &self.session {
            counters.media_error(nsid);
        }
        self.finish(index, status, env);
    }

    fn device_of<T>(&mut self, index: u16, then: impl FnOnce(&Device) -> T) -> Option<T> {
        let view = self.slots.at(index).view.clone()?;
        match &*view.get(self.slots.at(index).nsid)?.backend {
            Backend::Device(device) => Some(then(device)),
            _ => None,
        }
    }

    pub(super) fn storage_token(&self, index: u16) -> u64 {
        u64::from(self.token) << 32 | u64::from(index)
    }
}

/// Checks that the blocks that a command writes are still there: where the namespace became smaller while it waited, its file
/// would grow again.
fn check_end(work: &Work, namespace: &Namespace) -> Result<(), Status> {
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
