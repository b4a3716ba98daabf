//! The ring on epoll, for machines where io_uring is forbidden: sockets as always, storage on a few threads.
//! It promises the same as `uring`, not the same speed of storage.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::FallocateFlags;

use super::storage::Storage;
use super::vital::Vital;
use super::waker::Waker;
use crate::limits::{STORAGE_THREADS, STORAGE_THREADS_PER_FILE};
use crate::ring::transfer::Transfer;
use crate::ring::{Buffer, Event, Readiness, StorageOp};

const WOKEN: u64 = u64::MAX;
const READ_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

struct Job {
    /// A duplicate, so that the file stays open for the thread whatever the owner does.
    file: OwnedFd,
    /// The owner's descriptor, by which operations on one file are known.
    owner: RawFd,
    operation: StorageOp,
    token: u64,
    /// Earliest start of a delayed operation.
    due: Option<Instant>,
}

/// Operations that wait for a thread.
#[derive(Default)]
struct Jobs {
    queue: VecDeque<Job>,
    /// On how many threads each file is worked on.
    busy: HashMap<RawFd, usize>,
    has_ended: bool,
}

/// Queue of operations for the threads.
#[derive(Default)]
struct JobQueue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, job: Job) {
        self.lock().queue.push_back(job);
        self.changed.notify_one();
    }

    /// The first operation of a file that has a thread left; `None` at the end, when all are done.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.lock();
        loop {
            let Jobs { queue, busy, has_ended } = &mut *jobs;
            let count = |job: &Job| busy.get(&job.owner).copied().unwrap_or_default();
            if let Some(at) = queue.iter().position(|job| count(job) < STORAGE_THREADS_PER_FILE) {
                let job = queue.remove(at)?;
                *busy.entry(job.owner).or_default() += 1;
                return Some(job);
            }
            if *has_ended && queue.is_empty() {
                return None;
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread is done with an operation of this file.
    fn free(&self, owner: RawFd) {
        let mut jobs = self.lock();
        if let Some(count) = jobs.busy.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                jobs.busy.remove(&owner);
            }
        }
        drop(jobs);
        // One may wait for this file, and one for the end.
        self.changed.notify_all();
    }

    fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }
}

struct Done {
    token: u64,
    result: io::Result<usize>,
    buffer: Option<Buffer>,
}

pub(super) struct Epoll {
    epoll: OwnedFd,
    waker: Waker,
    ready: Vec<epoll::Event>,
    jobs: Option<Arc<JobQueue>>,
    threads: Vec<JoinHandle<()>>,
    done: Receiver<Done>,
    done_sender: Sender<Done>,
    pending: usize,
    watched: HashMap<RawFd, u32>,
}

impl Epoll {
    pub(super) fn new(waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, borrow(waker)?, EventData::new_u64(WOKEN), EventFlags::IN | EventFlags::ET)?;
        let (done_sender, done) = channel();
        Ok(Self {
            epoll,
            waker: waker.clone(),
            ready: Vec::with_capacity(256),
            jobs: None,
            threads: Vec::new(),
            done,
            done_sender,
            pending: 0,
            watched: HashMap::new(),
        })
    }

    pub(super) fn watch(&mut self, descriptor: RawFd, token: u32) -> io::Result<()> {
        self.watched.insert(descriptor, token);
        epoll::add(&self.epoll, borrow(&descriptor)?, EventData::new_u64(u64::from(token)), READ_EVENTS)?;
        Ok(())
    }

    pub(super) fn await_writable(&mut self, descriptor: RawFd, token: u32) -> io::Result<()> {
        // Edge-triggered: arming again reports at once when there is room already.
        let flags = READ_EVENTS | EventFlags::OUT;
        epoll::modify(&self.epoll, borrow(&descriptor)?, EventData::new_u64(u64::from(token)), flags)?;
        Ok(())
    }

    pub(super) fn unwatch(&mut self, descriptor: RawFd) {
        if self.watched.remove(&descriptor).is_some()
            && let Ok(descriptor) = borrow(&descriptor)
        {
            let _ = epoll::delete(&self.epoll, descriptor);
        }
    }

    pub(super) fn store(&mut self, storage: &Storage, operation: StorageOp, token: u64) {
        self.pending += 1;
        let held_back =
            if let StorageOp::Write { .. } = operation { storage.write_delay() } else { Duration::ZERO };
        let due = (!held_back.is_zero()).then(|| Instant::now() + held_back);
        let started = borrow(storage).and_then(|file| file.try_clone_to_owned()).and_then(|file| {
            let jobs = self.threads()?;
            Ok((jobs, file))
        });
        match started {
            Ok((jobs, file)) => jobs.put(Job { file, owner: storage.as_raw_fd(), operation, token, due }),
            Err(error) => {
                let (StorageOp::Read { buffer, .. } | StorageOp::Write { buffer, .. }) = operation else {
                    let _ = self.done_sender.send(Done { token, result: Err(error), buffer: None });
                    return self.waker.wake();
                };
                let _ = self.done_sender.send(Done { token, result: Err(error), buffer: Some(buffer) });
                self.waker.wake();
            }
        }
    }

    pub(super) fn stores_pending(&self) -> usize {
        self.pending
    }

    /// The way to the storage threads, which are started when first needed.
    fn threads(&mut self) -> io::Result<Arc<JobQueue>> {
        if let Some(jobs) = &self.jobs
            && self.threads.len() == STORAGE_THREADS
        {
            return Ok(jobs.clone());
        }
        let jobs = self.jobs.get_or_insert_default().clone();
        while self.threads.len() < STORAGE_THREADS {
            let (theirs, done, waker) = (jobs.clone(), self.done_sender.clone(), self.waker.clone());
            let thread = std::thread::Builder::new().name(format!("storage-{}", self.threads.len()));
            match thread.spawn(move || work(&theirs, &done, &waker)) {
                Ok(thread) => self.threads.push(thread),
                // Those that there are do; the next operation tries again.
                Err(_) if !self.threads.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(jobs)
    }

    pub(super) fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.take_done(events);
        let timeout = if events.is_empty() { timeout } else { Some(Duration::ZERO) };
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        self.ready.clear();
        let waited =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), timeout.as_ref());
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for ready in &self.ready {
            let (data, flags) = (ready.data.u64(), ready.flags);
            if data == WOKEN {
                self.waker.seen();
                events.push(Event::Woken);
                continue;
            }
            let ended = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
            let readable = ended || flags.contains(EventFlags::IN);
            let writable = flags.contains(EventFlags::OUT);
            let readiness = Readiness { readable, writable, ended };
            events.push(Event::Ready { token: data as u32, readiness });
        }
        self.take_done(events);
        Ok(())
    }

    fn take_done(&mut self, events: &mut Vec<Event>) {
        while let Ok(Done { token, result, buffer }) = self.done.try_recv() {
            self.pending -= 1;
            events.push(Event::Stored { token, result, buffer });
        }
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        if let Some(jobs) = &self.jobs {
            jobs.end();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn borrow(descriptor: &impl AsRawFd) -> io::Result<BorrowedFd<'_>> {
    crate::ring::core::borrow_descriptor(descriptor)
}

fn work(jobs: &JobQueue, done: &Sender<Done>, waker: &Waker) {
    let _vital = Vital::begin();
    while let Some(Job { file, owner, operation, token, due }) = jobs.next() {
        if let Some(due) = due {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let (result, buffer) = perform(&file, operation);
        jobs.free(owner);
        if done.send(Done { token, result, buffer }).is_err() {
            return;
        }
        waker.wake();
    }
}

fn perform(file: &OwnedFd, operation: StorageOp) -> (io::Result<usize>, Option<Buffer>) {
    match operation {
        StorageOp::Read { mut buffer, offset } => {
            let whole = buffer.len();
            let result =
                move_all(whole, false, |at| rustix::io::pread(file, &mut buffer[at..], offset + at as u64));
            (result, Some(buffer))
        }
        StorageOp::Write { buffer, offset, durable } => {
            let written = move_all(buffer.len(), true, |at| {
                rustix::io::pwrite(file, &buffer[at..], offset + at as u64)
            });
            let synced = |moved| if durable { sync(file).map(|()| moved) } else { Ok(moved) };
            (written.and_then(synced), Some(buffer))
        }
        StorageOp::Sync => (sync(file).map(|()| 0), None),
        StorageOp::Allocate { mode, offset, length } => {
            let mode = FallocateFlags::from_bits_retain(mode);
            (rustix::fs::fallocate(file, mode, offset, length).map(|()| 0).map_err(io::Error::from), None)
        }
    }
}

/// Moves all of `whole` bytes, with as many calls as the system wants: each gets the offset of the
/// rest.
fn move_all(
    whole: usize,
    writes: bool,
    mut call: impl FnMut(usize) -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    let mut transfer = Transfer::default();
    loop {
        let answer = call(transfer.moved()).map_err(rustix::io::Errno::raw_os_error);
        if let Some(ended) = transfer.step(answer, whole, writes) {
            return ended;
        }
    }
}

fn sync(file: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

#[cfg(test)]
mod tests {
    use prerequisite::Wait;
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_write_that_moves_nothing_is_an_error_and_no_loop() {
        let mut places = Vec::new();
        let mut answers = vec![Ok(3), Err(Errno::INTR), Ok(2), Ok(0)].into_iter();
        let outcome = move_all(10, true, |at| {
            places.push(at);
            answers.next().expect("it is not asked again")
        });
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::WriteZero);
        assert_eq!(places, [0, 3, 3, 5]);
        assert_eq!(move_all(4, true, |_| Err(Errno::NOSPC)).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }

    #[test]
    fn a_file_that_hangs_leaves_a_thread_to_the_others() {
        let waker = Waker::new().unwrap();
        let mut ring = Epoll::new(&waker).unwrap();
        let open = || Storage::new(tempfile::tempfile().unwrap());
        let (hangs, other) = (open(), open());
        // Longer than a busy machine takes for the others.
        hangs.set_write_delay_ms(5000);
        let write = || StorageOp::Write { buffer: Buffer::zeroed(512), offset: 0, durable: false };
        for token in 0..6 {
            ring.store(&hangs, write(), token);
        }
        for token in 100..110 {
            ring.store(&other, write(), token);
        }
        let (mut events, mut stored) = (Vec::new(), Vec::new());
        let wait = Wait::begin("all are stored");
        while stored.len() < 16 {
            wait.check();
            ring.wait(Some(Duration::from_millis(100)), &mut events).unwrap();
            // The ring is woken for each, too.
            stored.extend(events.drain(..).filter_map(|event| match event {
                Event::Stored { token, .. } => Some(token),
                _ => None,
            }));
        }
        assert!(stored[..10].iter().all(|token| *token >= 100), "they waited for another file");
    }
}
