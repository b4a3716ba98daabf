//! The thread of a socket: it takes one front end after the other, and hears each until its end.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::backend_channel::BackendChannel;
use super::device::Device;
use super::session::Session;
use super::worker::Hand;
use crate::disk::Disk;
use crate::limits::SIZE_NOTICE_INTERVAL_MS;

/// A socket, and what front ends find there.
pub(super) struct Door {
    pub(super) front_end: usize,
    pub(super) disk: Disk,
    pub(super) listener: UnixListener,
    pub(super) hands: Arc<[Hand]>,
    pub(super) stopping: Arc<AtomicBool>,
    /// Readable once it shall end.
    pub(super) end: Arc<OwnedFd>,
    /// The connection of the front end that is there, so that hearing it can be ended.
    pub(super) connection: Arc<Mutex<Option<Arc<UnixStream>>>>,
}

impl Door {
    /// Takes front ends until it shall end. How many came.
    pub(super) fn run(self) -> u64 {
        let mut front_ends = 0;
        while let Some(stream) = self.next() {
            front_ends += 1;
            let stream = Arc::new(stream);
            *self.connection() = Some(stream.clone());
            // Whoever ends it may have looked before.
            if self.is_ending() {
                break;
            }
            // Whatever a front end brings about is its own affair.
            if catch_unwind(AssertUnwindSafe(|| self.hear(&stream))).is_err() {
                tracing::error!(
                    disk = self.disk.name,
                    "hearing a vhost-user front end failed; closing its connection"
                );
            }
            *self.connection() = None;
        }
        front_ends
    }

    fn connection(&self) -> MutexGuard<'_, Option<Arc<UnixStream>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ending(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The next front end; `None` once it shall end.
    fn next(&self) -> Option<UnixStream> {
        loop {
            let mut descriptors = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(&*self.end), PollFlags::IN),
            ];
            match poll(&mut descriptors, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(disk = self.disk.name, %error, "cannot wait for vhost-user front ends");
                    return None;
                }
            }
            if self.is_ending() {
                return None;
            }
            match self.listener.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(disk = self.disk.name, %error, "cannot accept a vhost-user front end; the next one is tried");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Does what a front end asks for, until it is gone.
    fn hear(&self, stream: &Arc<UnixStream>) {
        let device = Device::of(&self.disk).map_err(io::Error::other);
        let own = device.and_then(|device| Ok((device, stream.set_nonblocking(false)?, stream.try_clone()?)));
        let (device, own) = match own {
            Ok((device, (), own)) => (device, own),
            Err(error) => {
                tracing::warn!(disk = self.disk.name, %error, "cannot serve a vhost-user front end");
                return;
            }
        };
        tracing::debug!(disk = self.disk.name, "vhost-user front end connected");
        let disk = (self.disk.paths.clone(), device);
        let session = Session::new(self.front_end, disk, self.hands.clone(), stream.clone());
        let session = Arc::new(Mutex::new(session));
        let mut heard = BackendReqHandler::from_stream(own, session.clone());
        let error = loop {
            wait_for_message(stream, &session);
            let coming = BackendChannel::coming(stream);
            lock(&session).coming = coming;
            match heard.handle_request() {
                Ok(()) | Err(Error::SocketRetry(_)) => {}
                Err(error) => break error,
            }
        };
        match error {
            Error::Disconnected | Error::SocketBroken(_) => {
                tracing::debug!(disk = self.disk.name, "vhost-user front end disconnected");
            }
            _ if self.is_ending() => {}
            error => {
                tracing::warn!(disk = self.disk.name, %error, "a vhost-user front end breaks the protocol; closing the connection");
            }
        }
        lock(&session).end(!self.is_ending());
        // It is told only now that what its guest asked for has ended.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Waits until a front end says something, or is gone, and tells it meanwhile when its disk has another size.
fn wait_for_message(stream: &UnixStream, session: &Mutex<Session>) {
    let interval = Timespec::try_from(Duration::from_millis(SIZE_NOTICE_INTERVAL_MS)).ok();
    loop {
        let timeout = interval.as_ref().filter(|_| lock(session).has_channel());
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], timeout) {
            Ok(0) => lock(session).tell_size(),
            Err(rustix::io::Errno::INTR) => {}
            // Whoever hears it finds out what is wrong.
            Ok(_) | Err(_) => return,
        }
    }
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
