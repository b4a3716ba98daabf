//! The ring on epoll, for machines where io_uring is forbidden: sockets as always, storage on a few threads.
//! It promises the same as `uring`, not the same speed of storage.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::FallocateFlags;

use super::{Buffer, Event, Readiness, Storage, StorageOp, Vital, Waker};
use crate::limits::STORAGE_THREADS;

const WOKEN: u64 = u64::MAX;
const READ_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

struct Job {
    /// A duplicate, so that the file stays open for the thread whatever the owner does.
    file: OwnedFd,
    operation: StorageOp,
    token: u64,
    /// When it may begin, where it is held back.
    due: Option<Instant>,
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
    jobs: Option<Sender<Job>>,
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
            Ok((jobs, file)) => {
                // The threads live as long as this sender.
                let _ = jobs.send(Job { file, operation, token, due });
            }
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
    fn threads(&mut self) -> io::Result<Sender<Job>> {
        if let Some(jobs) = &self.jobs {
            return Ok(jobs.clone());
        }
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..STORAGE_THREADS {
            let (queue, done, waker) = (queue.clone(), self.done_sender.clone(), self.waker.clone());
            let thread = std::thread::Builder::new().name(format!("storage-{number}"));
            self.threads.push(thread.spawn(move || work(&queue, &done, &waker))?);
        }
        self.jobs = Some(jobs.clone());
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
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn borrow(descriptor: &impl AsRawFd) -> io::Result<BorrowedFd<'_>> {
    super::core::borrow_descriptor(descriptor)
}

fn work(queue: &Mutex<Receiver<Job>>, done: &Sender<Done>, waker: &Waker) {
    let _vital = Vital::begin();
    loop {
        let Ok(queue) = queue.lock() else { return };
        let Ok(Job { file, operation, token, due }) = queue.recv() else { return };
        drop(queue);
        if let Some(due) = due {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let (result, buffer) = perform(&file, operation);
        if done.send(Done { token, result, buffer }).is_err() {
            return;
        }
        waker.wake();
    }
}

fn perform(file: &OwnedFd, operation: StorageOp) -> (io::Result<usize>, Option<Buffer>) {
    match operation {
        StorageOp::Read { mut buffer, offset } => {
            let mut moved = 0;
            let result = loop {
                match rustix::io::pread(file, &mut buffer[moved..], offset + moved as u64) {
                    Ok(0) => break Ok(moved),
                    Ok(read) => moved += read,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => break Err(error.into()),
                }
                if moved == buffer.len() {
                    break Ok(moved);
                }
            };
            (result, Some(buffer))
        }
        StorageOp::Write { buffer, offset, durable } => {
            let mut moved = 0;
            let result = loop {
                match rustix::io::pwrite(file, &buffer[moved..], offset + moved as u64) {
                    Ok(written) => moved += written,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => break Err(error.into()),
                }
                if moved == buffer.len() {
                    break if durable { sync(file).map(|()| moved) } else { Ok(moved) };
                }
            };
            (result, Some(buffer))
        }
        StorageOp::Sync => (sync(file).map(|()| 0), None),
        StorageOp::Allocate { mode, offset, length } => {
            let mode = FallocateFlags::from_bits_retain(mode);
            (rustix::fs::fallocate(file, mode, offset, length).map(|()| 0).map_err(io::Error::from), None)
        }
    }
}

fn sync(file: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}
