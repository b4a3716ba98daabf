//! A namespace for tasks of any executor: requests at any block-aligned offset and of any length, split into commands that go
//! over all paths at once. What a lost path means for them is decided below, by `PathQueues`. It keeps no cache.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nvme::io::{IoCommand, encode_ranges};
use nvme::{Status, SubmissionEntry};

use super::replies::Replies;
use super::worker::{Job, Worker};
use super::{NamespaceName, VolumeOptions, find};
use crate::initiator::path::{PathOptions, PathStatus, Paths};
use crate::initiator::queue::{Completion, Data};
use crate::initiator::{ConnectOptions, Controller, InitiatorError, NamespaceInfo};
use crate::limits::{BUFFER_LENGTH_MIN, REQUEST_COMMANDS_MAX};
use crate::ring::{Buffer, BufferPool, core};

/// Blocks of one command (NLB is 0's based and 16 bits wide).
const BLOCKS_MAX: u64 = 1 << 16;
/// Bytes of one command of a large request: enough to keep a link busy, few enough to use all paths. A simulation's
/// volumes are small, and are to be split all the same.
const PIECE_LENGTH: u64 = if cfg!(feature = "simulation") { 8 << 10 } else { 256 << 10 };
/// Blocks of one range of a deallocation (LLB).
const RANGE_BLOCKS_MAX: u64 = u32::MAX as u64;

/// A namespace to be awaited: the same as a [`Volume`](super::Volume), with futures that need no particular executor. Clones
/// are the same volume, for any thread or task; when the last is gone, its connections are closed in order.
///
/// A future that is dropped gives up waiting. What it has sent goes on: a write that was given up may still take effect.
#[derive(Clone, Debug)]
pub struct AsyncVolume(Arc<Inner>);

// The fields are dropped in this order: first the threads close their queues, then the controllers are shut down.
#[derive(Debug)]
struct Inner {
    workers: Vec<Worker>,
    next: AtomicUsize,
    ways: Ways,
    /// Buffers of requests, shared by whoever makes them.
    buffers: Mutex<BufferPool>,
    address: SocketAddr,
    format: Format,
}

/// What leads to the namespace.
#[derive(Debug)]
enum Ways {
    Paths(Arc<Paths>),
    Controller(Controller, Box<NamespaceInfo>),
}

/// What commands have to know of the namespace.
#[derive(Clone, Copy, Debug)]
struct Format {
    nsid: u32,
    block_size: u32,
}

impl Format {
    /// What all these controllers can do.
    ///
    /// # Errors
    /// When this host can do nothing with its blocks.
    fn of(info: &NamespaceInfo, controllers: &[Controller]) -> Result<Self, InitiatorError> {
        let (nsid, block) = (info.nsid, u64::from(info.block_size));
        let transfer_max = controllers.iter().map(Controller::transfer_length_max).min();
        let transfer_max = transfer_max.unwrap_or(BUFFER_LENGTH_MIN) as u64;
        if info.metadata_bytes > 0 || block > transfer_max {
            return Err(InitiatorError::ApiMisuse(format!(
                "namespace {nsid} has blocks of {block} bytes and {} of metadata; only those without metadata and of at \
                 most {transfer_max} bytes can be used",
                info.metadata_bytes
            )));
        }
        Ok(Self { nsid, block_size: info.block_size })
    }
}

impl AsyncVolume {
    /// Opens a namespace of subsystem `nqn` over all `addresses`. It blocks until one of them is connected.
    ///
    /// # Errors
    /// When none can be connected to, when they do not lead to the same namespace, or when there is no such namespace.
    pub fn open(
        addresses: &[SocketAddr],
        nqn: &str,
        namespace: impl Into<NamespaceName>,
    ) -> Result<Self, InitiatorError> {
        let paths: Vec<_> = addresses.iter().map(|address| ConnectOptions::new(*address, nqn)).collect();
        let nsid = find::nsid(&paths, namespace.into())?;
        Self::connect(PathOptions::new(paths, nsid))
    }

    /// The same over all addresses at which a discovery service says that the subsystem is served.
    ///
    /// # Errors
    /// As `open`, and when the discovery service cannot be asked or knows no such subsystem.
    pub fn discover(
        service: SocketAddr,
        nqn: &str,
        namespace: impl Into<NamespaceName>,
    ) -> Result<Self, InitiatorError> {
        Self::open(&find::addresses(service, nqn)?, nqn, namespace)
    }

    /// Opens a namespace in every particular as asked.
    ///
    /// # Errors
    /// As `open`; and when its blocks cannot be used by this host.
    pub fn connect(options: impl Into<VolumeOptions>) -> Result<Self, InitiatorError> {
        let options = options.into();
        if options.threads == 0 || options.depth == 0 {
            let text = "a volume needs at least one thread and one command at a time";
            return Err(InitiatorError::ApiMisuse(text.to_owned()));
        }
        let paths = Arc::new(Paths::connect(options.paths.clone())?);
        let controllers = paths.controllers();
        let format = Format::of(&paths.namespace(), &controllers)?;
        let granted = controllers.iter().map(Controller::io_queues).min().unwrap_or(1);
        let count = options.threads.min(granted).min(core::available().len() as u16).max(1);
        let mut workers = Vec::with_capacity(count.into());
        for number in 0..count {
            workers.push(Worker::on_paths(&paths, &options, number, count)?);
        }
        Ok(Self::new(workers, Ways::Paths(paths), format, options.paths.paths[0].address))
    }

    /// Opens namespace `nsid` of a controller that the caller has connected, on all its I/O queues. Nothing goes another way,
    /// nothing is connected again, and every status is handed on. No more threads are started than there are queues, and
    /// than this process has processors.
    ///
    /// # Errors
    /// When there is no such namespace, its blocks cannot be used by this host, or the queues cannot be opened.
    pub fn on_controller(controller: &Controller, nsid: u32) -> Result<Self, InitiatorError> {
        let info = controller.namespace(nsid)?;
        let format = Format::of(&info, std::slice::from_ref(controller))?;
        if controller.io_queues() == 0 {
            let text =
                "the controller has no I/O queues: ask for some, of a subsystem that is no discovery service";
            return Err(InitiatorError::ApiMisuse(text.to_owned()));
        }
        let count = core::available().len().clamp(1, controller.io_queues().into()) as u16;
        let mut workers = Vec::with_capacity(count.into());
        for number in 0..count {
            let ids = (number + 1..=controller.io_queues()).step_by(count.into());
            let queues = ids.map(|queue_id| controller.queue_options(queue_id)).collect();
            workers.push(Worker::on_controller(queues, controller.options().engine, number)?);
        }
        let ways = Ways::Controller(controller.clone(), Box::new(info));
        Ok(Self::new(workers, ways, format, controller.address()))
    }

    fn new(workers: Vec<Worker>, ways: Ways, format: Format, address: SocketAddr) -> Self {
        let buffers = Mutex::new(BufferPool::new());
        Self(Arc::new(Inner { workers, next: AtomicUsize::new(0), ways, buffers, address, format }))
    }

    /// How its paths are, in the order of the options; nothing where it stands on one controller.
    pub fn status(&self) -> Vec<PathStatus> {
        match &self.0.ways {
            Ways::Paths(paths) => paths.status(),
            Ways::Controller(..) => Vec::new(),
        }
    }

    /// The controllers that it can be reached through now.
    pub fn controllers(&self) -> Vec<Controller> {
        match &self.0.ways {
            Ways::Paths(paths) => paths.controllers(),
            Ways::Controller(controller, _) => vec![controller.clone()],
        }
    }

    /// What its controllers tell of it, as one of them did last; on one controller, as it was when opened.
    pub fn info(&self) -> NamespaceInfo {
        match &self.0.ways {
            Ways::Paths(paths) => paths.namespace(),
            Ways::Controller(_, info) => (**info).clone(),
        }
    }

    /// Bytes of a logical block: offsets and lengths are multiples of it.
    pub fn block_size(&self) -> u32 {
        self.0.format.block_size
    }

    /// Its size in bytes, which follows the namespace's.
    pub fn size_bytes(&self) -> u64 {
        self.info().size_bytes()
    }

    /// Fills `data` from `offset_bytes` on.
    ///
    /// # Errors
    /// `ApiMisuse` when offset or length are no whole blocks or lie outside; `CommandFailed` with the controller's status;
    /// else why no path is left. `data` is then filled in part.
    pub async fn read_at(&self, offset_bytes: u64, data: &mut [u8]) -> Result<(), InitiatorError> {
        self.check(offset_bytes, data.len() as u64)?;
        let (block, length) = (u64::from(self.0.format.block_size), data.len() as u64);
        let make = |at: u64, length: u64| {
            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::Read { start, blocks, force_unit_access: false };
            (command.encode(self.0.format.nsid), Data::Receive(self.take_buffer(length)))
        };
        self.run("Read", length, self.piece_length(), make, |at, completion| {
            if let Some(buffer) = &completion.data {
                data[at as usize..][..buffer.len()].copy_from_slice(buffer);
            }
        })
        .await
    }

    /// Writes `data` from `offset_bytes` on. It is durable after a `flush`.
    ///
    /// # Errors
    /// As `read_at`; what was written of it is then unknown.
    pub async fn write_at(&self, offset_bytes: u64, data: &[u8]) -> Result<(), InitiatorError> {
        let command = |start, blocks| IoCommand::Write { start, blocks, force_unit_access: false };
        self.send("Write", offset_bytes, data, command).await
    }

    /// Writes `data` from `offset_bytes` on, and is done when it is durable (FUA).
    ///
    /// # Errors
    /// As `write_at`.
    pub async fn write_durable_at(&self, offset_bytes: u64, data: &[u8]) -> Result<(), InitiatorError> {
        let command = |start, blocks| IoCommand::Write { start, blocks, force_unit_access: true };
        self.send("Write", offset_bytes, data, command).await
    }

    /// Whether the namespace holds `data` from `offset_bytes` on, compared by the controller.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Compare.
    pub async fn compare(&self, offset_bytes: u64, data: &[u8]) -> Result<bool, InitiatorError> {
        let command = |start, blocks| IoCommand::Compare { start, blocks };
        match self.send("Compare", offset_bytes, data, command).await {
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
    pub async fn flush(&self) -> Result<(), InitiatorError> {
        let make = |_, _| (IoCommand::Flush.encode(self.0.format.nsid), Data::None);
        self.run("Flush", 1, 1, make, |_, _| ()).await
    }

    /// Writes zeroes, without sending them. With `deallocate` the controller may free the blocks.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Write Zeroes.
    pub async fn write_zeroes(
        &self,
        offset_bytes: u64,
        length: u64,
        deallocate: bool,
    ) -> Result<(), InitiatorError> {
        self.check(offset_bytes, length)?;
        let block = u64::from(self.0.format.block_size);
        let make = |at: u64, length: u64| {
            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate };
            (command.encode(self.0.format.nsid), Data::None)
        };
        self.run("Write Zeroes", length, self.zeroes_length(), make, |_, _| ()).await
    }

    /// Tells the controller that the blocks are not needed. What they read as afterwards is told by
    /// `NamespaceInfo::deallocate_features`; it is a hint, and may do nothing.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Dataset Management.
    pub async fn deallocate(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        self.check(offset_bytes, length)?;
        let block = u64::from(self.0.format.block_size);
        let make = |at: u64, length: u64| {
            let range = encode_ranges(&[((offset_bytes + at) / block, (length / block) as u32)]);
            let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
            let mut buffer = self.take_buffer(range.len() as u64);
            buffer.copy_from_slice(&range);
            (command.encode(self.0.format.nsid), Data::Send(buffer))
        };
        self.run("Dataset Management", length, RANGE_BLOCKS_MAX * block, make, |_, _| ()).await
    }

    async fn send(
        &self,
        what: &'static str,
        offset_bytes: u64,
        data: &[u8],
        command: impl Fn(u64, u32) -> IoCommand,
    ) -> Result<(), InitiatorError> {
        self.check(offset_bytes, data.len() as u64)?;
        let (block, length) = (u64::from(self.0.format.block_size), data.len() as u64);
        let make = |at: u64, length: u64| {
            let mut buffer = self.take_buffer(length);
            buffer.copy_from_slice(&data[at as usize..(at + length) as usize]);
            let entry =
                command((offset_bytes + at) / block, (length / block) as u32).encode(self.0.format.nsid);
            (entry, Data::Send(buffer))
        };
        self.run(what, length, self.piece_length(), make, |_, _| ()).await
    }

    /// Runs a request of `length` bytes in pieces, some at a time. When one fails, no more are started, and
    /// the others are waited for: nothing of it is under way when this is done.
    async fn run(
        &self,
        what: &'static str,
        length: u64,
        piece_length: u64,
        make: impl Fn(u64, u64) -> (SubmissionEntry, Data),
        mut done: impl FnMut(u64, &Completion),
    ) -> Result<(), InitiatorError> {
        let replies = Replies::default();
        let mut next = 0;
        let mut under_way = 0;
        let mut outcome = Ok(());
        loop {
            while next < length && under_way < REQUEST_COMMANDS_MAX && outcome.is_ok() {
                let piece = piece_length.min(length - next);
                let (entry, data) = make(next, piece);
                self.submit(Job { entry, data, reply: replies.expect(next, self.0.address) });
                under_way += 1;
                next += piece;
            }
            if under_way == 0 {
                return outcome;
            }
            let (at, ended) = replies.next().await;
            under_way -= 1;
            match ended {
                Ok(completion) => {
                    if completion.status.is_success() {
                        done(at, &completion);
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

    /// Gives a command to the next thread.
    fn submit(&self, job: Job) {
        let workers = &self.0.workers;
        workers[self.0.next.fetch_add(1, Ordering::Relaxed) % workers.len()].submit(job);
    }

    fn check(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        let (block, size) = (u64::from(self.0.format.block_size), self.size_bytes());
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

    /// Bytes of one command with data: what every path takes that is there by now.
    fn piece_length(&self) -> u64 {
        let transfer_max = match &self.0.ways {
            Ways::Paths(paths) => paths.transfer_length_max(),
            Ways::Controller(controller, _) => controller.transfer_length_max(),
        };
        self.whole_blocks((transfer_max as u64).min(PIECE_LENGTH))
    }

    /// Bytes of one Write Zeroes.
    fn zeroes_length(&self) -> u64 {
        self.whole_blocks(match &self.0.ways {
            Ways::Paths(paths) => paths.write_zeroes_length_max(),
            Ways::Controller(controller, _) => controller.write_zeroes_length_max().unwrap_or(u64::MAX),
        })
    }

    /// The most bytes of one command up to `length`, in whole blocks.
    fn whole_blocks(&self, length: u64) -> u64 {
        let block = u64::from(self.0.format.block_size);
        let length = length.min(BLOCKS_MAX * block);
        (length - length % block).max(block)
    }

    fn take_buffer(&self, length: u64) -> Buffer {
        self.0.buffers.lock().unwrap_or_else(PoisonError::into_inner).take(length as usize)
    }

    fn give_buffer(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.0.buffers.lock().unwrap_or_else(PoisonError::into_inner).give(buffer);
        }
    }
}
