//! The thread of a socket: it takes one front end after the other, and hears each until its end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::ring::channel::Receiver;
use engine::ring::thread::sleep;
use vhost::vhost_user::Error;

use super::device::Device;
use super::front_end_command::{FrontEndCommand, QuiesceEnd};
use super::machine::{
    Arrival, Awaited, Connection, FrontEndListener, Handler, Message, Wake, accept, await_front_end,
    await_more, close, guarded,
};
use super::mapping_share::MappingShare;
use super::session::Session;
use super::vring_command::VringWorkerHandle;
use crate::client_faults::{ClientFault, ClientFaults};
use crate::disk::Disk;
use crate::limits::{MESSAGE_TIMEOUT_MS, SIZE_NOTICE_INTERVAL_MS};

/// Interval at which the rest of a message is looked for: a part of it makes its socket readable all the time.
const REST_INTERVAL: Duration = Duration::from_millis(10);

/// Thread of a socket, with its disk and workers.
pub(super) struct FrontEndThread {
    pub(super) front_end: usize,
    pub(super) disk: Disk,
    pub(super) listener: FrontEndListener,
    pub(super) workers: Arc<[VringWorkerHandle]>,
    pub(super) stopping: Arc<AtomicBool>,
    /// Signalled once it shall end.
    pub(super) end: Arc<Wake>,
    /// The connection of the front end that is there, so that hearing it can be ended.
    pub(super) connection: Arc<Mutex<Option<Arc<Connection>>>>,
    /// Commands while it serves, with a descriptor that is signalled then.
    pub(super) commands: Receiver<FrontEndCommand>,
    pub(super) wake: Arc<Wake>,
    /// Set to start in held state, and serve on command.
    pub(super) is_held: bool,
    /// Mappings that its front ends may have.
    pub(super) share: Arc<MappingShare>,
    /// Faults of its front ends.
    pub(super) faults: Arc<ClientFaults>,
}

/// A front end that is heard.
pub(super) struct Caller {
    pub(super) stream: Arc<Connection>,
    pub(super) session: Arc<Mutex<Session>>,
    pub(super) handler: Handler,
}

/// Continuation after a front end.
enum Then {
    /// With the next one.
    Next,
    /// Not at all.
    End,
}

impl FrontEndThread {
    /// Takes front ends until it shall end. How many came.
    pub(super) fn run(self) -> u64 {
        let mut front_ends = 0;
        let mut adopted = None;
        if self.is_held
            && let QuiesceEnd::Leaves = self.stay_quiesced(&mut adopted)
        {
            return front_ends;
        }
        loop {
            let (caller, is_new) = match adopted.take() {
                Some(caller) => (Some(caller), false),
                None => match self.next() {
                    Some(stream) => (self.greet(&Arc::new(stream)), true),
                    None => break,
                },
            };
            let Some(mut caller) = caller else { continue };
            front_ends += u64::from(is_new);
            *self.connection() = Some(caller.stream.clone());
            // The end may have been ordered before the previous check.
            if self.is_ending() {
                break;
            }
            // Whatever a front end brings about is its own affair.
            let then = guarded(|| self.hear(&mut caller, is_new)).unwrap_or_else(|| {
                if let Some(times) = self.faults.count(ClientFault::Unserved) {
                    tracing::error!(
                        disk = self.disk.name,
                        times,
                        "hearing a vhost-user front end failed; closing its connection"
                    );
                }
                Then::Next
            });
            *self.connection() = None;
            if let Then::End = then {
                break;
            }
        }
        front_ends
    }

    fn connection(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The next front end; `None` once it shall end.
    fn next(&self) -> Option<Connection> {
        loop {
            if let Err(error) = await_front_end(&self.listener, [&self.end, &self.wake]) {
                tracing::error!(disk = self.disk.name, %error, "cannot wait for vhost-user front ends");
                return None;
            }
            if self.is_ending() || matches!(self.quiesce_alone(), Some(QuiesceEnd::Leaves)) {
                return None;
            }
            match accept(&self.listener) {
                Ok(stream) => return Some(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    if let Some(times) = self.faults.count(ClientFault::Unaccepted) {
                        tracing::warn!(disk = self.disk.name, %error, times, "cannot accept a vhost-user front end; retrying");
                    }
                    sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// A front end that has connected.
    fn greet(&self, stream: &Arc<Connection>) -> Option<Caller> {
        let begin = || {
            let session = self.session(stream)?;
            let handler = Handler::new(stream, &session)?;
            Ok::<_, io::Error>(Caller { stream: stream.clone(), session, handler })
        };
        let begun = begin();
        if let Err(error) = &begun
            && let Some(times) = self.faults.count(ClientFault::Unserved)
        {
            tracing::warn!(disk = self.disk.name, %error, times, "cannot serve a vhost-user front end");
        }
        begun.ok()
    }

    /// Session of a front end that has sent nothing yet.
    pub(super) fn session(&self, stream: &Arc<Connection>) -> io::Result<Arc<Mutex<Session>>> {
        let device = Device::of(&self.disk).map_err(io::Error::other)?;
        let disk = (self.disk.paths.clone(), device);
        let own = (stream.clone(), self.share.clone(), self.faults.clone());
        let session = Session::new(self.front_end, disk, self.workers.clone(), own);
        Ok(Arc::new(Mutex::new(session)))
    }

    /// Does what a front end asks for, until it is gone.
    fn hear(&self, caller: &mut Caller, is_new: bool) -> Then {
        let Caller { stream, session, handler } = caller;
        tracing::debug!(disk = self.disk.name, is_new, "vhost-user front end connected");
        let resumed = if is_new { Ok(()) } else { lock(session).resume() };
        let error = resumed.err().unwrap_or_else(|| {
            let mut message = Message::default();
            loop {
                let has_message = self.wait_for_message(stream, session, &mut message);
                match self.quiesce_with(session) {
                    None if message.is_late() => {
                        if let Some(times) = self.faults.count(ClientFault::Late) {
                            tracing::warn!(
                                disk = self.disk.name,
                                times,
                                "a vhost-user front end has sent a part of a message, or reads no replies, for {MESSAGE_TIMEOUT_MS} ms; \
                                 closing the connection"
                            );
                        }
                        break Error::Disconnected;
                    }
                    None if !has_message => continue,
                    None => {}
                    Some(QuiesceEnd::GoesOn(Ok(()))) => continue,
                    Some(QuiesceEnd::GoesOn(Err(error))) => break error,
                    // Nothing of it is under way, and another process may hear it.
                    Some(QuiesceEnd::Disowned) => break Error::Disconnected,
                    Some(QuiesceEnd::Leaves) => break Error::SocketRetry(io::ErrorKind::Interrupted.into()),
                }
                match handler.handle(stream) {
                    Ok(()) | Err(Error::SocketRetry(_)) => {}
                    Err(error) => break error,
                }
            }
        });
        match error {
            Error::SocketRetry(_) => return Then::End,
            Error::Disconnected | Error::SocketBroken(_) => {
                tracing::debug!(disk = self.disk.name, "vhost-user front end disconnected");
            }
            _ if self.is_ending() => {}
            error => {
                if let Some(times) = self.faults.count(ClientFault::Protocol) {
                    tracing::warn!(
                        disk = self.disk.name, %error, times,
                        "a vhost-user front end breaks the protocol; closing the connection"
                    );
                }
            }
        }
        lock(session).end(!self.is_ending());
        // The front end sees the end only after its guest's requests have ended.
        close(stream);
        if self.is_ending() { Then::End } else { Then::Next }
    }

    /// Waits for a message of a front end, for its end, for the end of the time that a message may take, or for a command to
    /// this thread, and notifies the front end meanwhile when its disk has another size. True if there is a message.
    fn wait_for_message(&self, stream: &Connection, session: &Mutex<Session>, message: &mut Message) -> bool {
        let notice_interval = Duration::from_millis(SIZE_NOTICE_INTERVAL_MS);
        loop {
            let arrival = message.arrival(stream);
            let timeout = match arrival {
                Arrival::Nothing => lock(session).has_channel().then_some(notice_interval),
                Arrival::Part => Some(REST_INTERVAL),
                Arrival::Whole => Some(Duration::ZERO),
            };
            let awaited = await_more(stream, arrival, &self.wake, timeout);
            if arrival == Arrival::Whole || message.is_late() || awaited == Awaited::Command {
                return arrival == Arrival::Whole;
            }
            match awaited {
                Awaited::Time if arrival == Arrival::Nothing => lock(session).tell_size(),
                // The read reports the fault.
                Awaited::Fault => return true,
                _ => {}
            }
        }
    }
}

pub(super) fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
