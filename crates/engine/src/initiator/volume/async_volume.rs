//! A namespace for tasks of any executor: requests at any block-aligned offset and of any length, split into commands that go
//! over all paths at once. What a lost path means for them is decided below, by `PathQueues`. It keeps no cache.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use nvme::io::{IoCommand, encode_ranges};
use nvme::{Status, SubmissionEntry};

use super::outcome::outcome;
use super::replies::{Replies, block_on};
use super::route::{Reachable, Route};
use super::worker::{Job, Worker};
use super::{LocalTask, LocalVolume, NamespaceName, VolumeOptions, find};
use crate::initiator::path::{PathOptions, PathStatus, Paths};
use crate::initiator::queue::{Completion, Data};
use crate::initiator::{ConnectOptions, Controller, InitiatorError, NamespaceInfo};
use crate::limits::REQUEST_COMMANDS_MAX;
use crate::ring::{Buffer, BufferPool, core};

/// Bytes of one command of a large request: enough to keep a link busy, few enough to use all paths. A simulation's
/// volumes are small, and are to be split all the same.
const PIECE_LENGTH: u64 = if cfg!(feature = "simulation") { 8 << 10 } else { 256 << 10 };

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
    reachable: Arc<Reachable>,
    /// Buffers of requests, shared by all threads that make them.
    buffers: Mutex<BufferPool>,
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
        let (route, address) = (Route::Paths(paths.clone()), options.paths.paths[0].address);
        let reachable = Arc::new(Reachable::new(route, address, &paths.namespace(), &controllers)?);
        let granted = controllers.iter().map(Controller::io_queues).min().unwrap_or(1);
        let count = options.threads.min(granted).min(core::available().len() as u16).max(1);
        let mut workers = Vec::with_capacity(count.into());
        for number in 0..count {
            workers.push(Worker::on_paths(&reachable, &paths, &options, number, count)?);
        }
        Ok(Self::new(workers, reachable))
    }

    /// Opens namespace `nsid` of a controller that the caller has connected, on all its I/O queues. Nothing goes another way,
    /// nothing is connected again, and every status is handed on. No more threads are started than there are queues, and
    /// than this process has processors.
    ///
    /// # Errors
    /// When there is no such namespace, its blocks cannot be used by this host, or the queues cannot be opened.
    pub fn on_controller(controller: &Controller, nsid: u32) -> Result<Self, InitiatorError> {
        let info = controller.namespace(nsid)?;
        let route = Route::Controller(controller.clone(), Box::new(info.clone()));
        let one = std::slice::from_ref(controller);
        let reachable = Arc::new(Reachable::new(route, controller.address(), &info, one)?);
        if controller.io_queues() == 0 {
            let text = "the controller has no I/O queues: ask for some, of a subsystem that is not a discovery service";
            return Err(InitiatorError::ApiMisuse(text.to_owned()));
        }
        let count = core::available().len().clamp(1, controller.io_queues().into()) as u16;
        let mut workers = Vec::with_capacity(count.into());
        for number in 0..count {
            let ids = (number + 1..=controller.io_queues()).step_by(count.into());
            let queues = ids.map(|queue_id| controller.queue_options(queue_id)).collect();
            workers.push(Worker::on_controller(&reachable, queues, controller.options().engine, number)?);
        }
        Ok(Self::new(workers, reachable))
    }

    fn new(workers: Vec<Worker>, reachable: Arc<Reachable>) -> Self {
        let buffers = Mutex::new(BufferPool::new());
        Self(Arc::new(Inner { workers, next: AtomicUsize::new(0), reachable, buffers }))
    }

    /// Begins a task on one of the volume's own threads, the next one in turn. There, what it awaits of its
    /// [`LocalVolume`] wakes no other thread, and nothing is copied.
    pub fn spawn<T, F>(&self, make: impl FnOnce(LocalVolume) -> F + Send + 'static) -> VolumeTask<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (giver, outcome) = outcome();
        // Even what makes the task runs as a part of it: a panic there stays in the task.
        let begin = move |volume: &LocalVolume| {
            let own = volume.clone();
            volume.tasks().spawn(giver, async move { make(own).await });
        };
        self.next_worker().submit(Job::Begin(Box::new(begin)));
        VolumeTask { task: LocalTask::new(outcome, &self.0.reachable), volume: self.clone() }
    }

    /// States of its paths, in the order of the options; none where it stands on one controller.
    pub fn status(&self) -> Vec<PathStatus> {
        match &self.0.reachable.route {
            Route::Paths(paths) => paths.status(),
            Route::Controller(..) => Vec::new(),
        }
    }

    /// The controllers that it can be reached through now.
    pub fn controllers(&self) -> Vec<Controller> {
        match &self.0.reachable.route {
            Route::Paths(paths) => paths.controllers(),
            Route::Controller(controller, _) => vec![controller.clone()],
        }
    }

    /// Description of the namespace, as one of its controllers reported it last; on one controller,
    /// as it was when opened.
    pub fn info(&self) -> NamespaceInfo {
        self.0.reachable.info()
    }

    /// Bytes of a logical block: offsets and lengths are multiples of it.
    pub fn block_size(&self) -> u32 {
        self.0.reachable.block_size
    }

    /// Size in bytes, which follows the namespace's.
    pub fn size_bytes(&self) -> u64 {
        self.0.reachable.size_bytes()
    }

    /// Fills `data` from `offset_bytes` on.
    ///
    /// # Errors
    /// `ApiMisuse` when offset or length are not whole blocks or lie outside; `CommandFailed` with the controller's status;
    /// else why no path is left. `data` is then filled in part.
    pub async fn read_at(&self, offset_bytes: u64, data: &mut [u8]) -> Result<(), InitiatorError> {
        self.check(offset_bytes, data.len() as u64)?;
        let (block, length) = (u64::from(self.0.reachable.block_size), data.len() as u64);
        let make = |at: u64, length: u64| {
            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::Read { start, blocks, force_unit_access: false };
            (command.encode(self.0.reachable.nsid), Data::Receive(self.take_buffer(length)))
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

    /// Compares `data` with the blocks from `offset_bytes` on, at the controller; true if they are
    /// equal.
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
        let make = |_, _| (IoCommand::Flush.encode(self.0.reachable.nsid), Data::None);
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
        let block = u64::from(self.0.reachable.block_size);
        let make = |at: u64, length: u64| {
            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate };
            (command.encode(self.0.reachable.nsid), Data::None)
        };
        self.run("Write Zeroes", length, self.0.reachable.zeroes_length_max(), make, |_, _| ()).await
    }

    /// Deallocates blocks that are not needed. `NamespaceInfo::deallocate_features` says what they
    /// read as afterwards; it is a hint, and may do nothing.
    ///
    /// # Errors
    /// As `read_at`, and when the controller has no Dataset Management.
    pub async fn deallocate(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        self.check(offset_bytes, length)?;
        let block = u64::from(self.0.reachable.block_size);
        let make = |at: u64, length: u64| {
            let range = encode_ranges(&[((offset_bytes + at) / block, (length / block) as u32)]);
            let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
            let mut buffer = self.take_buffer(range.len() as u64);
            buffer.copy_from_slice(&range);
            (command.encode(self.0.reachable.nsid), Data::Send(buffer))
        };
        self.run("Dataset Management", length, self.0.reachable.range_length_max(), make, |_, _| ()).await
    }

    async fn send(
        &self,
        what: &'static str,
        offset_bytes: u64,
        data: &[u8],
        command: impl Fn(u64, u32) -> IoCommand,
    ) -> Result<(), InitiatorError> {
        self.check(offset_bytes, data.len() as u64)?;
        let (block, length) = (u64::from(self.0.reachable.block_size), data.len() as u64);
        let make = |at: u64, length: u64| {
            let mut buffer = self.take_buffer(length);
            buffer.copy_from_slice(&data[at as usize..(at + length) as usize]);
            let entry =
                command((offset_bytes + at) / block, (length / block) as u32).encode(self.0.reachable.nsid);
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
                let reply = replies.expect(next, self.0.reachable.address);
                self.next_worker().submit(Job::Command { entry, data, reply });
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

    /// The thread whose turn it is.
    fn next_worker(&self) -> &Worker {
        let workers = &self.0.workers;
        &workers[self.0.next.fetch_add(1, Ordering::Relaxed) % workers.len()]
    }

    fn check(&self, offset_bytes: u64, length: u64) -> Result<(), InitiatorError> {
        self.0.reachable.check(offset_bytes, length)
    }

    /// Bytes of one command with data.
    fn piece_length(&self) -> u64 {
        let reachable = &self.0.reachable;
        reachable.whole_blocks(reachable.transfer_length_max().min(PIECE_LENGTH))
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

/// The outcome of a task on one of the volume's own threads: to be awaited, or waited for. The
/// panic of a task is passed on to its waiter. It goes on when this is dropped, until the last
/// handle of the volume is dropped.
#[derive(Debug)]
#[must_use = "the volume is closed, and the task ends, with the last handle of the volume; this is one"]
pub struct VolumeTask<T> {
    task: LocalTask<T>,
    /// Handle that keeps the volume open for the task.
    volume: AsyncVolume,
}

impl<T> VolumeTask<T> {
    /// Waits on this thread until the task has ended, which must not be one of the volume's own.
    ///
    /// # Errors
    /// When the volume's thread ended before the task.
    pub fn wait(self) -> Result<T, InitiatorError> {
        block_on(self)
    }

    /// The volume that it is a task of.
    pub const fn volume(&self) -> &AsyncVolume {
        &self.volume
    }
}

impl<T> Future for VolumeTask<T> {
    type Output = Result<T, InitiatorError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context)
    }
}
