//! The ring on io_uring: multishot polls for sockets, reads and writes for storage, one system call for a batch.
//! Sockets are read and written directly by their owner; measured, that is as fast as through the ring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, TimeoutFlags, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::storage::Storage;
use super::waker::Waker;
use crate::limits::{RING_ENTRIES, STORES_WAITING_MAX};
use crate::ring::transfer::Transfer;
use crate::ring::{Buffer, Event, Readiness, StorageOp};

#[cfg(test)]
#[path = "uring_tests.rs"]
mod tests;

const READABLE: u64 = 1 << 56;
const WRITABLE: u64 = 2 << 56;
const STORED: u64 = 3 << 56;
const WOKEN: u64 = 4 << 56;
const REMOVED: u64 = 5 << 56;
const DELAYED: u64 = 6 << 56;
const KIND_MASK: u64 = 0xff << 56;
const GENERATION_SHIFT: u32 = 32;
const GENERATION_MASK: u32 = 0x00ff_ffff;

const READ_EVENTS: u32 = (libc::POLLIN | libc::POLLRDHUP) as u32;
const END_EVENTS: i32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as i32;
const WRITE_EVENTS: u32 = libc::POLLOUT as u32;

/// Operations that storage has for each that may wait for its submission: it does not run out of work meanwhile.
const STORES_SUBMITTED_PER_WAITING: usize = 4;

/// A watched socket. The generation tells late completions of an earlier socket from those of this one.
#[derive(Clone, Copy, Default)]
struct Watch {
    descriptor: RawFd,
    generation: u32,
    active: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write { durable: bool },
    Other,
}

/// A storage operation under way. It owns the buffer until the kernel is done with it.
struct Operation {
    token: u64,
    descriptor: RawFd,
    kind: Kind,
    buffer: Option<Buffer>,
    offset: u64,
    transfer: Transfer,
    /// Time-out that the kernel waits for first. It is boxed, since the kernel has its address.
    delay: Option<Box<Timespec>>,
}

pub(super) struct Uring {
    ring: IoUring,
    waker: Waker,
    watches: Vec<Watch>,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    completions: VecDeque<cqueue::Entry>,
}

impl Uring {
    pub(super) fn new(waker: &Waker) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(RING_ENTRIES * 4);
        let mut deferred = builder.clone();
        // The kernel's work for this ring is done when its thread asks for it, never as an interruption.
        deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let ring = match deferred.build(RING_ENTRIES) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => builder.build(RING_ENTRIES)?,
            other => other?,
        };
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring of this kernel is too old"));
        }
        let mut uring = Self {
            ring,
            waker: waker.clone(),
            watches: Vec::new(),
            operations: Vec::new(),
            free: Vec::new(),
            completions: VecDeque::new(),
        };
        uring.watch_waker()?;
        uring.ring.submit()?;
        Ok(uring)
    }

    fn watch_waker(&mut self) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(self.waker.as_raw_fd()), libc::POLLIN as u32).multi(true);
        self.push(&entry.build().user_data(WOKEN))
    }

    pub(super) fn watch(&mut self, descriptor: RawFd, token: u32) -> io::Result<()> {
        let index = token as usize;
        if self.watches.len() <= index {
            self.watches.resize(index + 1, Watch::default());
        }
        let watch = &mut self.watches[index];
        watch.descriptor = descriptor;
        watch.active = true;
        self.watch_again(token)
    }

    fn watch_again(&mut self, token: u32) -> io::Result<()> {
        let watch = self.watches[token as usize];
        let entry = opcode::PollAdd::new(Fd(watch.descriptor), READ_EVENTS).multi(true).build();
        self.push(&entry.user_data(user_data(READABLE, watch.generation, token)))
    }

    pub(super) fn await_writable(&mut self, descriptor: RawFd, token: u32) -> io::Result<()> {
        let generation = self.watches[token as usize].generation;
        let entry = opcode::PollAdd::new(Fd(descriptor), WRITE_EVENTS).build();
        self.push(&entry.user_data(user_data(WRITABLE, generation, token)))
    }

    pub(super) fn unwatch(&mut self, token: u32) {
        let Some(watch) = self.watches.get_mut(token as usize) else { return };
        if !watch.active {
            return;
        }
        watch.active = false;
        let generation = watch.generation;
        watch.generation = (generation + 1) & GENERATION_MASK;
        for kind in [READABLE, WRITABLE] {
            // Not a poll removal, which fails while the poll is being woken and would leave the socket open forever.
            let entry = opcode::AsyncCancel::new(user_data(kind, generation, token)).build();
            if let Err(error) = self.push(&entry.user_data(REMOVED)) {
                tracing::warn!(%error, "cannot remove a poll");
            }
        }
    }

    pub(super) fn store(&mut self, storage: &Storage, operation: StorageOp, token: u64) {
        let descriptor = storage.as_raw_fd();
        let (kind, buffer, offset) = match operation {
            StorageOp::Read { buffer, offset } => (Kind::Read, Some(buffer), offset),
            StorageOp::Write { buffer, offset, durable } => (Kind::Write { durable }, Some(buffer), offset),
            StorageOp::Sync => {
                let entry = opcode::Fsync::new(Fd(descriptor)).flags(FsyncFlags::DATASYNC).build();
                return self.start(Operation::other(token, descriptor), &entry);
            }
            StorageOp::Allocate { mode, offset, length } => {
                let entry = opcode::Fallocate::new(Fd(descriptor), length).offset(offset).mode(mode as i32);
                return self.start(Operation::other(token, descriptor), &entry.build());
            }
        };
        let held_back = if let Kind::Write { .. } = kind { storage.write_delay() } else { Duration::ZERO };
        let delay = (!held_back.is_zero()).then(|| Box::new(Timespec::from(held_back)));
        let operation =
            Operation { token, descriptor, kind, buffer, offset, transfer: Transfer::default(), delay };
        let entry = operation.entry();
        self.start(operation, &entry);
    }

    pub(super) fn stores_pending(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    fn start(&mut self, operation: Operation, entry: &squeue::Entry) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() as u32 - 1
        });
        let delay = operation.delay_entry();
        self.operations[index as usize] = Some(operation);
        let entry = entry.clone().user_data(STORED | u64::from(index));
        let pushed = match delay {
            // Both together, since a link does not reach from one submission to the next.
            Some(delay) => self.push_all(&[delay.user_data(DELAYED), entry]),
            None => self.push(&entry),
        };
        if let Err(error) = pushed {
            // The ring itself refuses work, which only a kernel out of memory does: nothing can go on from here, and
            // the operation must not be reported while the kernel could still know it.
            panic!("io_uring takes no more work: {error}");
        }
        self.submit_early();
    }

    /// Hands operations over before the turn ends where storage would have too little to do meanwhile. Most of what an operation
    /// costs is the system's part of its submission, so that the last of a large batch begins late, and a device whose queue has
    /// run empty does nothing until then.
    fn submit_early(&mut self) {
        let waiting = self.ring.submission().len();
        let submitted = self.stores_pending().saturating_sub(waiting);
        if waiting >= (submitted / STORES_SUBMITTED_PER_WAITING).clamp(1, STORES_WAITING_MAX) {
            // What the system refuses now stays where it is, and the wait at the end of the turn asks again and says why.
            let _ = self.ring.submit();
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        self.push_all(std::slice::from_ref(entry))
    }

    /// Puts all of these into one submission.
    fn push_all(&mut self, entries: &[squeue::Entry]) -> io::Result<()> {
        loop {
            // SAFETY: polls refer to no memory. Storage entries refer to a buffer that the operation in `operations`
            // owns until its completion, delays to the time in the same operation, and both to a descriptor that the
            // caller keeps open until then.
            #[allow(unsafe_code)]
            let pushed = unsafe { self.ring.submission().push_multiple(entries) };
            if pushed.is_ok() {
                return Ok(());
            }
            match self.ring.submit() {
                Ok(_) => {}
                // Completions have to be taken before the kernel takes more.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => self.collect(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn collect(&mut self) {
        self.completions.extend(self.ring.completion());
    }

    /// True if a harvest would find something, without a system call.
    pub(super) fn has_news(&mut self) -> bool {
        self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    pub(super) fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.collect();
        let sleeps = self.completions.is_empty() && timeout != Some(Duration::ZERO);
        let entered = if !sleeps {
            let submission = self.ring.submission();
            let idle = submission.is_empty() && !submission.taskrun() && !submission.cq_overflow();
            drop(submission);
            if idle { Ok(0) } else { self.ring.submit() }
        } else if let Some(timeout) = timeout {
            let timespec = Timespec::from(timeout);
            self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
        } else {
            self.ring.submit_and_wait(1)
        };
        match entered {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => return Err(error),
            },
        }
        self.collect();
        while let Some(completion) = self.completions.pop_front() {
            self.translate(&completion, events)?;
        }
        Ok(())
    }

    fn translate(&mut self, completion: &cqueue::Entry, events: &mut Vec<Event>) -> io::Result<()> {
        let data = completion.user_data();
        match data & KIND_MASK {
            READABLE | WRITABLE => {
                let token = data as u32;
                let generation = (data >> GENERATION_SHIFT) as u32 & GENERATION_MASK;
                let current = self.watches.get(token as usize);
                if !current.is_some_and(|watch| watch.active && watch.generation == generation) {
                    return Ok(());
                }
                let readable = data & KIND_MASK == READABLE;
                let ended = completion.result() < 0 || completion.result() & END_EVENTS != 0;
                if readable && !cqueue::more(completion.flags()) {
                    self.watch_again(token)?;
                }
                let readiness = Readiness { readable: readable || ended, writable: !readable, ended };
                events.push(Event::Ready { token, readiness });
            }
            STORED => self.stored(data as u32, completion.result(), events),
            WOKEN => {
                self.waker.seen();
                if !cqueue::more(completion.flags()) {
                    self.watch_waker()?;
                }
                events.push(Event::Woken);
            }
            _ => {}
        }
        Ok(())
    }

    fn stored(&mut self, index: u32, result: i32, events: &mut Vec<Event>) {
        let Some(operation) = self.operations[index as usize].as_mut() else { return };
        let answer = usize::try_from(result).map_err(|_| -result);
        let whole = operation.buffer.as_ref().map_or(0, |buffer| buffer.len());
        let ended = match operation.kind {
            Kind::Read => operation.transfer.step(answer, whole, false),
            Kind::Write { .. } => operation.transfer.step(answer, whole, true),
            Kind::Other => Some(answer.map_err(io::Error::from_raw_os_error)),
        };
        let moved = if let Some(ended) = ended {
            ended
        } else {
            let entry = operation.entry().user_data(STORED | u64::from(index));
            match self.push(&entry) {
                Ok(()) => return,
                Err(error) => Err(error),
            }
        };
        if let Some(Operation { token, buffer, .. }) = self.operations[index as usize].take() {
            self.free.push(index);
            events.push(Event::Stored { token, result: moved, buffer });
        }
    }
}

impl Operation {
    fn other(token: u64, descriptor: RawFd) -> Self {
        Self {
            token,
            descriptor,
            kind: Kind::Other,
            buffer: None,
            offset: 0,
            transfer: Transfer::default(),
            delay: None,
        }
    }

    /// The entry that holds the next one back.
    fn delay_entry(&self) -> Option<squeue::Entry> {
        let delay = self.delay.as_deref()?;
        // Without this flag the end of the time would be a failure, which ends the link.
        let entry = opcode::Timeout::new(delay).flags(TimeoutFlags::ETIME_SUCCESS).build();
        Some(entry.flags(squeue::Flags::IO_LINK))
    }

    /// The entry for what is left to read or write.
    fn entry(&self) -> squeue::Entry {
        let Some(buffer) = &self.buffer else { return opcode::Nop::new().build() };
        let rest = &buffer[self.transfer.moved()..];
        let (pointer, length) = (rest.as_ptr().cast_mut(), rest.len() as u32);
        let offset = self.offset + self.transfer.moved() as u64;
        match self.kind {
            Kind::Write { durable } => opcode::Write::new(Fd(self.descriptor), pointer, length)
                .offset(offset)
                .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
                .build(),
            Kind::Read | Kind::Other => {
                opcode::Read::new(Fd(self.descriptor), pointer, length).offset(offset).build()
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write into buffers of operations under way: they are waited for, or else leaked.
        let mut events = Vec::new();
        for _ in 0..1000 {
            if self.stores_pending() == 0 || self.wait(Some(Duration::from_millis(10)), &mut events).is_err()
            {
                break;
            }
        }
        for operation in self.operations.drain(..).flatten() {
            Box::leak(Box::new(operation));
        }
    }
}

const fn user_data(kind: u64, generation: u32, token: u32) -> u64 {
    kind | (generation as u64) << GENERATION_SHIFT | token as u64
}
