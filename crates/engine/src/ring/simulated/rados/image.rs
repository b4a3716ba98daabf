//! An open image, as librbd has it: its operations go to the OSDs of its objects, and a writer
//! needs its exclusive lock. No OSD looks at that lock: what was sent under it takes effect unless
//! its client is shut out.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::calls::{Answer, call, call_monitor, place};
use super::client::{Callback, ClientId};
use super::delivery::{Outcome, Then, Work};
use super::store::Locker;
use crate::ring::StorageOp;
use crate::ring::simulated::remote::RemoteOperation;
use crate::ring::simulated::scheduler::{self, with};
use crate::ring::simulated::{self, thread};

/// The time between two attempts to get a lock from an owner that does not answer, in milliseconds.
const ASK_AGAIN_MS: u64 = 500;

/// An open image.
#[derive(Debug)]
pub(crate) struct ImageHandle {
    client: ClientId,
    name: String,
    /// Number that distinguishes it from the client's others.
    cookie: u64,
    object_size: u64,
    timeout_ms: u64,
    monitor_timeout_ms: u64,
    is_locked: AtomicBool,
    pending: Arc<AtomicUsize>,
}

/// A piece of an operation: a range within one object, and where it is in the buffer.
#[derive(Clone, Copy)]
struct Piece {
    osd: usize,
    offset: u64,
    length: u64,
    begin: usize,
}

/// An operation of which pieces are under way.
struct Group {
    operation: RemoteOperation,
    left: usize,
    error: Option<i32>,
    moved: usize,
}

impl ImageHandle {
    /// Opens an image, and watches its header.
    pub(crate) fn open(
        client: ClientId,
        name: &str,
        (timeout_ms, monitor_timeout_ms): (u64, u64),
    ) -> Result<Self, i32> {
        let cookie = with(|world| world.random.next());
        let (header, watcher) = (name.to_owned(), (client, cookie));
        let opened = call(client, name, timeout_ms, move |store, _| {
            let image = store.image_mut(&header).ok_or(libc::ENOENT)?;
            image.watchers.insert(watcher);
            Ok(Answer::Number(image.object_size))
        });
        let Answer::Number(object_size) = opened? else { return Err(libc::EIO) };
        let (is_locked, pending) = (AtomicBool::new(false), Arc::default());
        let name = name.to_owned();
        Ok(Self { client, name, cookie, object_size, timeout_ms, monitor_timeout_ms, is_locked, pending })
    }

    fn me(&self) -> Locker {
        (self.client, self.cookie)
    }

    fn header(&self, work: impl FnOnce(&mut super::store::StoredImage) -> Answer + 'static) -> Outcome {
        let name = self.name.clone();
        call(self.client, &self.name, self.timeout_ms, move |store, _| {
            store.has_changed = true;
            store.image_mut(&name).map(work).ok_or(libc::ENOENT)
        })
    }

    /// Bytes it has.
    pub(crate) fn size(&self) -> u64 {
        with(|world| world.rados.store.image(&self.name).map_or(0, |image| image.content.len() as u64))
    }

    /// Bytes of an object.
    pub(crate) const fn object_size(&self) -> u64 {
        self.object_size
    }

    /// Has this called when its header changes.
    pub(crate) fn watch(&self, callback: Callback) {
        with(|world| world.rados.clients[self.client.0].watches.insert(self.cookie, callback));
    }

    /// Owner of its lock.
    pub(crate) fn owner(&self) -> Result<Option<Locker>, i32> {
        match self.header(|image| Answer::Owner(image.lock))? {
            Answer::Owner(owner) => Ok(owner),
            _ => Err(libc::EIO),
        }
    }

    /// Takes its lock. One that is there and has it refuses; of one that does not answer it is waited for until its watch is
    /// gone, and then it is shut out, and its lock broken.
    pub(crate) fn lock(&self) -> Result<(), i32> {
        loop {
            let me = self.me();
            let owner = match self.owner()? {
                Some(owner) if owner != me => owner,
                _ => {
                    let taken = self.header(move |image| {
                        let is_free = image.lock.is_none_or(|owner| owner == me);
                        if is_free {
                            image.lock = Some(me);
                        }
                        Answer::Flag(is_free)
                    })?;
                    if taken != Answer::Flag(true) {
                        continue;
                    }
                    self.is_locked.store(true, Ordering::Release);
                    with(|world| world.rados.let_go.remove(&me));
                    simulated::say(|| format!("has the lock of {}", self.name));
                    return Ok(());
                }
            };
            let header = place(&self.name, 0);
            let (is_watching, answers) =
                with(|world| (world.is_watching(owner.0, header), world.is_responsive(owner.0, header)));
            if is_watching && answers && !with(|world| world.rados.is_blocked_now(owner.0)) {
                return Err(libc::EROFS);
            }
            if is_watching {
                thread::sleep(std::time::Duration::from_millis(ASK_AGAIN_MS));
                if scheduler::is_ending() {
                    return Err(libc::ESHUTDOWN);
                }
                continue;
            }
            // Who stands there already stays there for as long as was said before.
            let broken_ms = with(|world| world.rados.mood.broken_lock_ms);
            simulated::say(|| format!("breaks the lock of {}", self.name));
            call_monitor(self.client, self.monitor_timeout_ms, Some((owner.0, broken_ms / 1000)))?;
            self.header(move |image| {
                if image.lock == Some(owner) {
                    image.lock = None;
                }
                Answer::Done
            })?;
        }
    }

    /// Gives its lock back, when all has ended that was begun.
    pub(crate) fn unlock(&self) -> Result<(), i32> {
        self.is_locked.store(false, Ordering::Release);
        with(|world| world.rados.let_go.insert(self.me()));
        while self.pending.load(Ordering::Acquire) > 0 {
            if scheduler::is_ending() {
                return Err(libc::ESHUTDOWN);
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
        let me = self.me();
        self.header(move |image| {
            if image.lock == Some(me) {
                image.lock = None;
            }
            Answer::Done
        })?;
        simulated::say(|| format!("has given the lock of {} back", self.name));
        Ok(())
    }

    /// True if it has the lock, as far as it knows.
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked.load(Ordering::Acquire) && !self.is_shut_out()
    }

    fn is_shut_out(&self) -> bool {
        scheduler::with_if(|world| world.rados.clients[self.client.0].is_shut_out).unwrap_or(true)
    }

    /// Begins an operation.
    pub(crate) fn start(&self, mut operation: RemoteOperation) {
        let changes = !matches!(operation.operation(), StorageOp::Read { .. } | StorageOp::Sync);
        if self.is_shut_out() {
            return operation.end(Err(io::Error::from_raw_os_error(libc::ESHUTDOWN)));
        }
        if changes && !self.is_locked() {
            return operation.end(Err(io::Error::from_raw_os_error(libc::EROFS)));
        }
        let (offset, length) = match operation.operation() {
            StorageOp::Read { buffer, offset } | StorageOp::Write { buffer, offset, .. } => {
                (*offset, buffer.len() as u64)
            }
            // What has ended is durable.
            StorageOp::Sync => return operation.end(Ok(0)),
            StorageOp::Allocate { offset, length, .. } => (*offset, *length),
        };
        let pieces = self.pieces(offset, length);
        if pieces.is_empty() {
            return operation.end(Ok(0));
        }
        self.pending.fetch_add(1, Ordering::AcqRel);
        let works: Vec<Work> = pieces.iter().map(|piece| self.work(&mut operation, *piece)).collect();
        let group =
            Rc::new(RefCell::new(Some(Group { operation, left: pieces.len(), error: None, moved: 0 })));
        for (piece, work) in pieces.into_iter().zip(works) {
            let (group, pending, client) = (group.clone(), self.pending.clone(), self.client);
            let then: Then = Box::new(move |world, outcome| {
                if let Some((operation, result)) = end_piece(&group, piece, outcome) {
                    if result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ETIMEDOUT)) {
                        let process = world.rados.clients[client.0].process;
                        *world.rados.late.entry(process).or_default() += 1;
                    }
                    pending.fetch_sub(1, Ordering::AcqRel);
                    operation.end_in(world, result);
                }
            });
            let writes = changes.then(|| Rc::from(self.name.as_str()));
            scheduler::with_if(|world| {
                let id = world.send_to_osd(self.client, piece.osd, (work, then), self.timeout_ms);
                world.rados.operations[id].writes = writes;
            });
        }
    }

    /// A range by the objects that it is in.
    fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let (mut pieces, mut at) = (Vec::new(), offset);
        while at < offset + length {
            let object = at / self.object_size;
            let end = ((object + 1) * self.object_size).min(offset + length);
            let osd = place(&self.name, object);
            pieces.push(Piece { osd, offset: at, length: end - at, begin: (at - offset) as usize });
            at = end;
        }
        pieces
    }

    /// Work of an OSD for a piece.
    fn work(&self, operation: &mut RemoteOperation, piece: Piece) -> Work {
        let name = self.name.clone();
        let Piece { offset, length, begin, .. } = piece;
        let data = match operation.operation() {
            StorageOp::Read { .. } => {
                return Box::new(move |world, _| {
                    let image = world.rados.store.image(&name).ok_or(libc::ENOENT)?;
                    let bytes = image.content.get(offset as usize..(offset + length) as usize);
                    bytes.map(|bytes| Answer::Bytes(bytes.to_vec())).ok_or(libc::EINVAL)
                });
            }
            StorageOp::Write { buffer, .. } => Some(buffer[begin..begin + length as usize].to_vec()),
            StorageOp::Sync | StorageOp::Allocate { .. } => None,
        };
        Box::new(move |world, now| {
            let image = world.rados.store.image_mut(&name).ok_or(libc::ENOENT)?;
            image.write(now, offset, data.as_deref().ok_or(length));
            Ok(Answer::Done)
        })
    }
}

/// A piece has ended; what the whole operation has come to when it was the last.
fn end_piece(
    group: &Rc<RefCell<Option<Group>>>,
    piece: Piece,
    outcome: Outcome,
) -> Option<(RemoteOperation, io::Result<usize>)> {
    let mut place = group.borrow_mut();
    let group = place.as_mut()?;
    match outcome {
        Ok(Answer::Bytes(bytes)) => {
            if let StorageOp::Read { buffer, .. } = group.operation.operation() {
                buffer[piece.begin..piece.begin + bytes.len()].copy_from_slice(&bytes);
            }
            group.moved += bytes.len();
        }
        Ok(_) => group.moved += piece.length as usize,
        Err(code) => group.error = group.error.or(Some(code)),
    }
    group.left -= 1;
    if group.left > 0 {
        return None;
    }
    let Group { operation, error, moved, .. } = place.take()?;
    let moved = if matches!(operation.operation, StorageOp::Allocate { .. }) { 0 } else { moved };
    Some((operation, error.map_or(Ok(moved), |code| Err(io::Error::from_raw_os_error(code)))))
}

impl Drop for ImageHandle {
    fn drop(&mut self) {
        let (watcher, name, was_locked) = (self.me(), self.name.clone(), *self.is_locked.get_mut());
        if scheduler::is_ending() {
            return;
        }
        with(|world| world.rados.clients[self.client.0].watches.remove(&self.cookie));
        // A client that is shut out is refused here, too. Closing gives the lock back.
        let _ = call(self.client, &self.name, self.timeout_ms, move |store, _| {
            if let Some(image) = store.image_mut(&name) {
                image.watchers.remove(&watcher);
                if was_locked && image.lock == Some(watcher) {
                    image.lock = None;
                }
            }
            Ok(Answer::Done)
        });
    }
}
