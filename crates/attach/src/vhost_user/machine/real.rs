//! Sockets and event descriptors of front ends on Linux.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use vhost::vhost_user::{BackendReqHandler, Result};

use super::Awaited;
use crate::machine::Descriptor;
use crate::vhost_user::descriptor;
use crate::vhost_user::front_end_thread::lock;
use crate::vhost_user::resumed_handler::resumed_handler;
use crate::vhost_user::session::Session;

pub(in crate::vhost_user) use crate::vhost_user::backend_channel::BackendChannel;
pub(in crate::vhost_user) use crate::vhost_user::call::Call;
pub(in crate::vhost_user) use crate::vhost_user::message::{Arrival, Message};

/// Socket that front ends connect to.
pub type FrontEndListener = UnixListener;

/// Connection of a front end.
pub(in crate::vhost_user) type Connection = UnixStream;

/// Event descriptor of a virtqueue: an eventfd whose writes do not wait.
pub(in crate::vhost_user) type Event = OwnedFd;

/// Event descriptor by which a thread of ours is woken.
#[derive(Debug)]
pub(in crate::vhost_user) struct Wake(OwnedFd);

/// Hears the messages of a front end, and answers them.
pub(in crate::vhost_user) struct Handler {
    session: Arc<Mutex<Session>>,
    handler: BackendReqHandler<Mutex<Session>>,
}

impl Wake {
    pub(in crate::vhost_user) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(in crate::vhost_user) fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(in crate::vhost_user) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Handler {
    /// Handler of a front end that has sent nothing yet.
    pub(in crate::vhost_user) fn new(
        connection: &Connection,
        session: &Arc<Mutex<Session>>,
    ) -> io::Result<Self> {
        connection.set_nonblocking(false)?;
        let handler = BackendReqHandler::from_stream(connection.try_clone()?, session.clone());
        Ok(Self { session: session.clone(), handler })
    }

    /// Handler of a front end that another process has heard, with these features agreed on.
    pub(in crate::vhost_user) fn resumed(
        connection: &Connection,
        agreed: (u64, u64),
        session: &Arc<Mutex<Session>>,
    ) -> io::Result<Self> {
        connection.set_nonblocking(false)?;
        let handler = resumed_handler(connection, agreed, session.clone())?;
        Ok(Self { session: session.clone(), handler })
    }

    /// Does what the next message asks for, which has come.
    pub(in crate::vhost_user) fn handle(&mut self, connection: &Connection) -> Result<()> {
        let coming = BackendChannel::coming(connection);
        lock(&self.session).coming = coming;
        self.handler.handle_request()
    }
}

pub(in crate::vhost_user) fn prepare(listener: &FrontEndListener) -> io::Result<()> {
    listener.set_nonblocking(true)
}

/// The next front end that has connected.
pub(in crate::vhost_user) fn accept(listener: &FrontEndListener) -> io::Result<Connection> {
    listener.accept().map(|(stream, _)| stream)
}

/// Waits until a front end connects, or one of two wakes the thread.
pub(in crate::vhost_user) fn await_front_end(
    listener: &FrontEndListener,
    [end, wake]: [&Wake; 2],
) -> io::Result<()> {
    let mut descriptors = [
        PollFd::new(listener, PollFlags::IN),
        PollFd::new(&end.0, PollFlags::IN),
        PollFd::new(&wake.0, PollFlags::IN),
    ];
    match poll(&mut descriptors, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits for more of a message than has arrived.
pub(in crate::vhost_user) fn await_more(
    connection: &Connection,
    arrival: Arrival,
    wake: &Wake,
    timeout: Option<Duration>,
) -> Awaited {
    let events = match arrival {
        Arrival::Nothing => PollFlags::IN,
        Arrival::Part => PollFlags::RDHUP,
        Arrival::Whole => PollFlags::empty(),
    };
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut descriptors = [PollFd::new(connection, events), PollFd::new(&wake.0, PollFlags::IN)];
    let polled = poll(&mut descriptors, timeout.as_ref());
    match polled {
        _ if !descriptors[1].revents().is_empty() => Awaited::Command,
        Ok(0) => Awaited::Time,
        Ok(_) | Err(rustix::io::Errno::INTR) => Awaited::More,
        Err(_) => Awaited::Fault,
    }
}

/// Ends a connection in both directions, also for other processes that have it.
pub(in crate::vhost_user) fn close(connection: &Connection) {
    let _ = connection.shutdown(Shutdown::Both);
}

/// The same connection, for another process.
pub(in crate::vhost_user) fn share(connection: &Connection) -> io::Result<Descriptor> {
    connection.as_fd().try_clone_to_owned()
}

/// Connection that another process has shared.
pub(in crate::vhost_user) fn open(connection: Descriptor) -> io::Result<Connection> {
    Ok(UnixStream::from(connection))
}

/// Event descriptor that a front end's message brings.
pub(in crate::vhost_user) fn event_of(file: File) -> io::Result<Event> {
    descriptor::event(file)
}

/// The same event descriptor, for another process.
pub(in crate::vhost_user) fn share_event(event: &Event) -> io::Result<Descriptor> {
    event.try_clone()
}

/// Event descriptor that another process has shared.
pub(in crate::vhost_user) fn open_event(event: Descriptor) -> io::Result<Event> {
    descriptor::event(File::from(event))
}

/// The same file, for another process.
pub(in crate::vhost_user) fn share_file(file: &File) -> io::Result<Descriptor> {
    file.as_fd().try_clone_to_owned()
}

/// File that another process has shared.
pub(in crate::vhost_user) fn open_file(file: Descriptor) -> io::Result<File> {
    Ok(File::from(file))
}

/// A place at which it matters what a process has done that dies there.
pub(in crate::vhost_user) const fn may_be_interrupted() {}

/// Does something that is a front end's own affair; `None` when it has panicked.
pub(in crate::vhost_user) fn guarded<T>(what: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(what)).ok()
}
