//! A namespace as bytes: blocking reads and writes at any block-aligned offset and of any length, from any
//! thread. Large requests are split and fan out over the controller's queues. It keeps no cache and does not
//! reconnect.

use std::sync::{Arc, PoisonError};

use nvme::io::{IoCommand, encode_ranges};
use nvme::{Status, SubmissionEntry};

use super::queue::{Completion, Data};
use super::workers::Workers;
use super::{Controller, InitiatorError, NamespaceInfo};
use crate::ring::Buffer;
use crate::ring::channel::channel;

/// Commands of one request that are outstanding at a time; with the piece length it bounds a request's
/// memory.
const PIECES_MAX: u64 = 32;
/// Blocks of one command (NLB is 0's based and 16 bits wide).
const BLOCKS_MAX: u64 = 1 << 16;
/// Bytes of one command of a large request: enough to keep a link busy, few enough to use all queues. A simulation's
/// volumes are small, and are to be split all the same.
const PIECE_LENGTH: u64 = if cfg!(feature = "simulation") { 8 << 10 } else { 256 << 10 };
/// Blocks of one range of a deallocation (LLB).
const RANGE_BLOCKS_MAX: u64 = u32::MAX as u64;

/// An open namespace. Clones are the same namespace; its controller stays connected as long as one of them
/// lives.
#[derive(Clone, Debug)]
pub struct Namespace {
    workers: Arc<Workers>,
    controller: Controller,
    info: Arc<NamespaceInfo>,
    piece_length: u64,
}

impl Namespace {
    /// Opens namespace `nsid` of `controller`. The first one starts the controller's I/O threads and queues:
    /// no more threads than there are queues, and than this process has processors.
    ///
    /// # Errors
    /// When there is no such namespace, its format is not one this host can use, or the queues cannot be
    /// opened.
    pub fn open(controller: &Controller, nsid: u32) -> Result<Namespace, InitiatorError> {
        let info = Arc::new(controller.namespace(nsid)?);
        let block = u64::from(info.block_size);
        let transfer_max = controller.transfer_length_max() as u64;
        if info.metadata_bytes > 0 || block > transfer_max {
            return Err(InitiatorError::ApiMisuse(format!(
                "namespace {nsid} has blocks of {block} bytes and {} of metadata; only those without \
                 metadata and of at most {transfer_max} bytes can be used",
                info.metadata_bytes
            )));
        }
        let wanted = transfer_max.min(PIECE_LENGTH).min(BLOCKS_MAX * block);
        let piece_length = (wanted - wanted % block).max(block);
        Ok(Self { workers: controller.workers()?, controller: controller.clone(), info, piece_length })
    }

    /// What the controller tells of it, as it was when opened.
    pub fn info(&self) -> &NamespaceInfo {
        &self.info
    }

    /// Its controller.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Bytes of a logical block: offsets and lengths are multiples of it.
    pub fn block_size(&self) -> u32 {
        self.info.block_size
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.info.size_bytes()
    }

    /// Fills `data` from `offset_bytes` on.
    ///
    /// # Errors
    /// `ApiMisuse` when offset or length are no whole blocks or lie outside; `CommandFailed` with the
    /// controller's status; else what ended the connection. `data` is then filled in part.
    pub fn read_at(&self, offset_bytes: u64, data: &mut [u8]) -> Result<(), InitiatorError> {
        self.check(offset_bytes, data.len() as u64)?;
        let (block, length) = (u64::from(self.info.block_size), data.len() as u64);
        let make = |at: u64, length: u64| {
            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::Read { start, blocks, force_unit_access: false };
            (command.encode(self.info.nsid), Data::Receive(self.take_buffer(length)))
        };
        self.run("Read", length, self.piece_length, make, |at, completion| {
            if let Some(buffer) = &completion.data {
                data[at as usize..][..buffer.len()].copy_from_slice(buffer);
            }
        })
    }

    /// Writes `data` from `offset_bytes` on. It is durable after a `flush`.
    ///
    /// # Errors
    /// As `read_at`; what was written of it is then unknown.
    pub fn write_at(&self, offset_bytes: u64, data: &[u8]) -> Result<(), InitiatorError> {
        let command = |start, blocks| IoCommand::Write { start, blocks, force_unit_access: false };
        self.send("Write", offset_bytes, data, command)
    }

    /// Writes `data` from `offset_bytes` on, and returns when it is durable (FUA).
    ///
    /// # Errors
    /// As `write_at`.
    pub fn write_durable_at(&self, offset_bytes: u64, data: &[u8]) -> Result<(), InitiatorError> {
        let command = |start, blocks| IoCommand::Write { start, blocks, force_unit_access: true };
        self.send("Write", offset_bytes, data, command)
    }

    /// Whether the namespace holds `data` from `offset_bytes` on, compared by the controller.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Compare.
    pub fn compare(&self, offset_bytes: u64, data: &[u8]) -> Result<bool, InitiatorError> {
        match self.send("Compare", offset_bytes, data, |start, blocks| IoCommand::Compare { start, blocks }) {
            Ok(()) => Ok(true),
            Err(InitiatorError::CommandFailed { status, .. })
                if status.without_flags() == Status::COMPARE_FAILURE =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// As `read_at`.
    pub fn flush(&self) -> Result<(), InitiatorError> {
        let make = |_, _| (IoCommand::Flush.encode(self.info.nsid), Data::None);
        self.run("Flush", 1, 1, make, |_, _| ())
    }

    /// Writes zeroes, without sending them. With `deallocate` the controller may free the blocks.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Write Zeroes.
    pub fn write_zeroes(
        &self,
        offset_bytes: u64,
        length: u64,
        deallocate: bool,
    ) -> Result<(), InitiatorError> {
        self.check(offset_bytes, length)?;
        let block = u64::from(self.info.block_size);
        let limit = self.controller.write_zeroes_length_max().unwrap_or(u64::MAX).max(block);
        let piece = (BLOCKS_MAX * block).min(limit - limit % block);
        let make = |at: u64, length: u64| {
            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate };
            (command.encode(self.info.nsid), Data::None)
        };
        self.run("Write Zeroes", length, piece, make, |_, _| ())
    }

    /// Tells the controller that the blocks are not needed any more. What they read as afterwards is told by
    /// `NamespaceInfo::deallocate_features`; it is a hint, and may do nothing.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Dataset Management.
    pub fn deallocate(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        self.check(offset_bytes, length)?;
        let block = u64::from(self.info.block_size);
        let make = |at: u64, length: u64| {
            let range = encode_ranges(&[((offset_bytes + at) / block, (length / block) as u32)]);
            let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
            let mut buffer = self.take_buffer(range.len() as u64);
            buffer.copy_from_slice(&range);
            (command.encode(self.info.nsid), Data::Send(buffer))
        };
        self.run("Dataset Management", length, RANGE_BLOCKS_MAX * block, make, |_, _| ())
    }

    fn send(
        &self,
        what: &'static str,
        offset_bytes: u64,
        data: &[u8],
        command: impl Fn(u64, u32) -> IoCommand,
    ) -> Result<(), InitiatorError> {
        self.check(offset_bytes, data.len() as u64)?;
        let (block, length) = (u64::from(self.info.block_size), data.len() as u64);
        let make = |at: u64, length: u64| {
            let mut buffer = self.take_buffer(length);
            buffer.copy_from_slice(&data[at as usize..(at + length) as usize]);
            let entry = command((offset_bytes + at) / block, (length / block) as u32).encode(self.info.nsid);
            (entry, Data::Send(buffer))
        };
        self.run(what, length, self.piece_length, make, |_, _| ())
    }

    /// Runs a request of `length` bytes in pieces, some at a time. When one fails, no more are started, and
    /// the others are waited for: nothing of it is under way when this returns.
    fn run(
        &self,
        what: &'static str,
        length: u64,
        piece_length: u64,
        make: impl Fn(u64, u64) -> (SubmissionEntry, Data),
        mut done: impl FnMut(u64, &Completion),
    ) -> Result<(), InitiatorError> {
        let (reply, replies) = channel();
        let mut next = 0;
        let mut under_way = 0;
        let mut outcome = Ok(());
        loop {
            while next < length && under_way < PIECES_MAX && outcome.is_ok() {
                let piece = piece_length.min(length - next);
                let (entry, data) = make(next, piece);
                self.workers.submit(entry, data, next, &reply);
                under_way += 1;
                next += piece;
            }
            if under_way == 0 {
                return outcome;
            }
            let Ok(ended) = replies.recv() else { return outcome };
            under_way -= 1;
            match ended.outcome {
                Ok(completion) => {
                    if completion.status.is_success() {
                        done(ended.user, &completion);
                    } else if outcome.is_ok() {
                        outcome = Err(InitiatorError::CommandFailed { what, status: completion.status });
                    }
                    self.give_buffer(completion.data);
                }
                // It is worth more than a status: what was lost may still take effect.
                Err(error) => outcome = Err(error),
            }
        }
    }

    fn check(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        let (block, size) = (u64::from(self.info.block_size), self.size_bytes());
        if !offset_bytes.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Err(InitiatorError::ApiMisuse(format!(
                "offset {offset_bytes} and length {length} have to be multiples of the block size, {block}"
            )));
        }
        match offset_bytes.checked_add(length) {
            Some(end) if end <= size => Ok(()),
            _ => Err(InitiatorError::ApiMisuse(format!(
                "{length} bytes at {offset_bytes} go past the namespace's end at {size}"
            ))),
        }
    }

    fn take_buffer(&self, length: u64) -> Buffer {
        self.workers.buffers.lock().unwrap_or_else(PoisonError::into_inner).take(length as usize)
    }

    fn give_buffer(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.workers.buffers.lock().unwrap_or_else(PoisonError::into_inner).give(buffer);
        }
    }
}
