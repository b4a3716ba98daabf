//! Sockets and event descriptors of front ends in a simulation. Guests' memory is real, in files; messages are those that the crate
//! which hears front ends would have made of their bytes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use engine::simulation::{self, EventDescriptor, ProcessId};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserInflight, VhostUserMemoryRegion, VhostUserVringAddrFlags,
};
use vhost::vhost_user::{Error, Result, VhostUserBackendReqHandlerMut as _};

use super::Awaited;
use crate::machine::Descriptor;
use crate::vhost_user::front_end_thread::lock;
use crate::vhost_user::handed_front_end::{HandedInflight, HandedRegion};
use crate::vhost_user::inflight::InflightRegion;
use crate::vhost_user::session::Session;

/// Part of the places at which a process stays for a while, and the longest time of that, in microseconds.
const INTERRUPTED: u64 = 50;
const INTERRUPTED_US_MAX: u64 = 3_000;

/// Part of the places at which a thread stops that is to be killed there, and interval at which it looks if that is still so.
const STOPS: u64 = 4;
const STOP_INTERVAL: Duration = Duration::from_micros(100);

thread_local! {
    /// Process that is about to be killed.
    static STOPPED: Cell<Option<ProcessId>> = const { Cell::new(None) };
}

/// Message of a front end. Virtqueues are named by their numbers.
#[derive(Debug)]
pub enum FrontEndMessage {
    /// Asks for the features of the device.
    GetFeatures,
    /// Features that the front end uses.
    SetFeatures(u64),
    /// The same of the protocol's.
    SetProtocolFeatures(u64),
    /// Asks for bytes of the configuration space: offset and length.
    GetConfig(u32, u32),
    /// Memory of the guest, by regions.
    SetMemoryTable(Vec<HandedRegion>, Vec<File>),
    /// Asks for an in-flight region: virtqueues and entries of each.
    GetInflight(u16, u16),
    /// In-flight region that the front end keeps.
    SetInflight(HandedInflight, File),
    /// Entries of a virtqueue.
    SetVringEntries(u32, u32),
    /// Next entry of the available ring.
    SetVringBase(u32, u32),
    /// Descriptors, available ring and used ring, by the addresses of the front end.
    SetVringAddresses(u32, [u64; 3]),
    /// Event descriptor by which the guest announces requests.
    SetVringKick(u32, EventDescriptor),
    /// Event descriptor by which it is notified.
    SetVringCall(u32, EventDescriptor),
    /// Lets the guest use a virtqueue, or not.
    SetVringEnabled(u32, bool),
    /// Stops a virtqueue, and asks for its position.
    GetVringBase(u32),
}

/// Reply to a message that asks for something.
#[derive(Debug)]
pub enum BackEndReply {
    /// Features, or the position of a virtqueue.
    Number(u64),
    /// Bytes of the configuration space.
    Config(Vec<u8>),
    /// A new in-flight region.
    Inflight(HandedInflight, File),
}

/// Both directions of a connection.
#[derive(Debug)]
struct Stream {
    messages: Mutex<VecDeque<FrontEndMessage>>,
    replies: Mutex<VecDeque<BackEndReply>>,
    is_closed: AtomicBool,
    /// Signalled when something comes to the back end, or to the front end.
    to_back: EventDescriptor,
    to_front: EventDescriptor,
}

/// The back end's end of a connection, as all processes have it that share it.
#[derive(Debug)]
struct BackEnd(Arc<Stream>);

/// Connection of a front end.
#[derive(Debug)]
pub struct FrontEndConnection(Arc<BackEnd>);

pub(in crate::vhost_user) type Connection = FrontEndConnection;

/// The front end's end of a connection.
#[derive(Debug)]
pub struct FrontEnd(Arc<Stream>);

/// Front ends that wait for a process.
#[derive(Debug)]
struct Backlog {
    waiting: Mutex<VecDeque<Connection>>,
    came: EventDescriptor,
}

/// Socket that front ends connect to.
#[derive(Debug)]
pub struct FrontEndListener(Arc<Backlog>);

/// Path of a socket.
#[derive(Clone, Debug, Default)]
pub struct FrontEndSocket(Arc<Mutex<Weak<Backlog>>>);

pub(in crate::vhost_user) type Event = EventDescriptor;

/// Event descriptor by which a thread of the server is woken.
#[derive(Debug)]
pub(in crate::vhost_user) struct Wake(EventDescriptor);

/// Notification of a guest.
#[derive(Debug)]
pub(in crate::vhost_user) struct Call(Arc<Event>);

/// Channel for notices to a front end, which those of a simulation do not give.
#[derive(Debug)]
pub(in crate::vhost_user) struct BackendChannel;

/// Arrival of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vhost_user) enum Arrival {
    Nothing,
    #[allow(dead_code)]
    Part,
    Whole,
}

/// Arrival of messages, which come whole.
#[derive(Debug, Default)]
pub(in crate::vhost_user) struct Message;

/// Hears the messages of a front end, and answers them.
pub(in crate::vhost_user) struct Handler(Arc<Mutex<Session>>);

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

impl Stream {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.to_back.signal();
        self.to_front.signal();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

impl Drop for BackEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl FrontEndSocket {
    /// Listens there.
    ///
    /// # Errors
    /// Another process does, or this one has no descriptors left.
    pub fn listen(&self) -> io::Result<FrontEndListener> {
        let mut listener = held(&self.0);
        if listener.strong_count() > 0 {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let backlog = Arc::new(Backlog { waiting: Mutex::default(), came: EventDescriptor::new()? });
        *listener = Arc::downgrade(&backlog);
        Ok(FrontEndListener(backlog))
    }

    /// Connects a front end.
    ///
    /// # Errors
    /// No process listens.
    pub fn connect(&self) -> io::Result<FrontEnd> {
        let backlog = held(&self.0).upgrade().ok_or_else(refused)?;
        let stream = Arc::new(Stream {
            messages: Mutex::default(),
            replies: Mutex::default(),
            is_closed: AtomicBool::new(false),
            to_back: EventDescriptor::new()?,
            to_front: EventDescriptor::new()?,
        });
        held(&backlog.waiting).push_back(FrontEndConnection(Arc::new(BackEnd(stream.clone()))));
        backlog.came.signal();
        Ok(FrontEnd(stream))
    }
}

impl FrontEndListener {
    /// The same socket, for another process.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn share(&self) -> io::Result<Self> {
        simulation::spare()?;
        Ok(Self(self.0.clone()))
    }
}

impl FrontEnd {
    /// Sends a message.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(&self, message: FrontEndMessage) -> io::Result<()> {
        if self.0.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        held(&self.0.messages).push_back(message);
        self.0.to_back.signal();
        Ok(())
    }

    /// The next reply, if it has come.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn receive(&self) -> io::Result<Option<BackEndReply>> {
        self.0.to_front.take();
        match held(&self.0.replies).pop_front() {
            None if self.0.is_closed() => Err(io::ErrorKind::UnexpectedEof.into()),
            reply => Ok(reply),
        }
    }

    /// Signalled when a reply comes, or the connection ends.
    pub fn came(&self) -> &EventDescriptor {
        &self.0.to_front
    }
}

impl Wake {
    pub(in crate::vhost_user) fn new() -> io::Result<Self> {
        EventDescriptor::new().map(Self)
    }

    pub(in crate::vhost_user) fn signal(&self) {
        self.0.signal();
    }

    pub(in crate::vhost_user) fn clear(&self) {
        self.0.take();
    }
}

impl Call {
    pub(in crate::vhost_user) const fn new(event: Arc<Event>) -> Self {
        Self(event)
    }

    pub(in crate::vhost_user) fn signal(&self) {
        self.0.signal();
    }
}

impl BackendChannel {
    pub(in crate::vhost_user) fn going_on(_: Descriptor) -> Self {
        Self
    }

    pub(in crate::vhost_user) const fn handed(&self) -> io::Result<Descriptor> {
        Ok(Descriptor::File(Vec::new()))
    }

    pub(in crate::vhost_user) const fn say_config_changed(&self) -> io::Result<bool> {
        Ok(true)
    }
}

impl Message {
    pub(in crate::vhost_user) fn arrival(&self, connection: &Connection) -> Arrival {
        let stream = &connection.0.0;
        match held(&stream.messages).is_empty() && !stream.is_closed() {
            true => Arrival::Nothing,
            false => Arrival::Whole,
        }
    }

    pub(in crate::vhost_user) const fn is_late(&self) -> bool {
        false
    }
}

impl Handler {
    pub(in crate::vhost_user) fn new(_: &Connection, session: &Arc<Mutex<Session>>) -> io::Result<Self> {
        simulation::spare()?;
        Ok(Self(session.clone()))
    }

    /// Handler of a front end that another process has heard, with these features agreed on.
    pub(in crate::vhost_user) fn resumed(
        _: &Connection,
        (features, protocol_features): (u64, u64),
        session: &Arc<Mutex<Session>>,
    ) -> io::Result<Self> {
        simulation::spare()?;
        let set = || {
            lock(session).set_protocol_features(protocol_features)?;
            lock(session).set_features(features)
        };
        set().map_err(|error: Error| io::Error::other(error.to_string()))?;
        Ok(Self(session.clone()))
    }

    /// Does what the next message asks for, which has come.
    pub(in crate::vhost_user) fn handle(&self, connection: &Connection) -> Result<()> {
        let stream = &connection.0.0;
        let message = held(&stream.messages).pop_front();
        let message = message.ok_or(Error::Disconnected)?;
        simulation::say(|| format!("hears {message:?}"));
        if let Some(reply) = self.reply(message)? {
            held(&stream.replies).push_back(reply);
            stream.to_front.signal();
        }
        Ok(())
    }

    fn reply(&self, message: FrontEndMessage) -> Result<Option<BackEndReply>> {
        let mut session = lock(&self.0);
        match message {
            FrontEndMessage::GetFeatures => return session.get_features().map(number),
            FrontEndMessage::SetFeatures(features) => session.set_features(features)?,
            FrontEndMessage::SetProtocolFeatures(features) => session.set_protocol_features(features)?,
            FrontEndMessage::GetConfig(offset, length) => {
                let bytes = session.get_config(offset, length, VhostUserConfigFlags::empty())?;
                return Ok(Some(BackEndReply::Config(bytes)));
            }
            FrontEndMessage::SetMemoryTable(regions, files) => {
                let region = |handed: &HandedRegion| {
                    let HandedRegion { guest, front_end, size, offset } = *handed;
                    VhostUserMemoryRegion::new(guest, size, front_end, offset)
                };
                let regions: Vec<_> = regions.iter().map(region).collect();
                session.set_mem_table(&regions, files, None)?;
            }
            FrontEndMessage::GetInflight(vrings, entries) => {
                let asked = VhostUserInflight::new(0, 0, vrings, entries);
                let (given, file) = session.get_inflight_fd(&asked)?;
                let VhostUserInflight { mmap_size, mmap_offset, num_queues, queue_size } = given;
                let (size, offset, vrings, entries) = (mmap_size, mmap_offset, num_queues, queue_size);
                let description = HandedInflight { size, offset, vrings, entries };
                return Ok(Some(BackEndReply::Inflight(description, file)));
            }
            FrontEndMessage::SetInflight(HandedInflight { size, offset, vrings, entries }, file) => {
                session.set_inflight_fd(&VhostUserInflight::new(size, offset, vrings, entries), file)?;
            }
            FrontEndMessage::SetVringEntries(index, entries) => session.set_vring_num(index, entries)?,
            FrontEndMessage::SetVringBase(index, base) => session.set_vring_base(index, base)?,
            FrontEndMessage::SetVringAddresses(index, [descriptors, available, used]) => {
                let flags = VhostUserVringAddrFlags::empty();
                session.set_vring_addr(index, flags, descriptors, used, available, 0)?;
            }
            FrontEndMessage::SetVringKick(index, event) => session.set_kick(index, event)?,
            FrontEndMessage::SetVringCall(index, event) => session.set_call(index, Some(event))?,
            FrontEndMessage::SetVringEnabled(index, enable) => session.set_vring_enable(index, enable)?,
            FrontEndMessage::GetVringBase(index) => {
                return session.get_vring_base(index).map(|state| number(state.num.into()));
            }
        }
        Ok(None)
    }
}

const fn number(number: u64) -> Option<BackEndReply> {
    Some(BackEndReply::Number(number))
}

/// A file of memory for a guest.
///
/// # Errors
/// The system gives none.
pub fn guest_file(bytes: u64) -> io::Result<File> {
    InflightRegion::file(bytes)
}

pub(in crate::vhost_user) const fn prepare(_: &FrontEndListener) -> io::Result<()> {
    Ok(())
}

/// The next front end that has connected.
pub(in crate::vhost_user) fn accept(listener: &FrontEndListener) -> io::Result<Connection> {
    let mut waiting = held(&listener.0.waiting);
    if waiting.is_empty() {
        listener.0.came.take();
        return Err(io::ErrorKind::WouldBlock.into());
    }
    simulation::spare()?;
    waiting.pop_front().ok_or_else(refused)
}

/// Waits until a front end connects, or one of two wakes the thread.
pub(in crate::vhost_user) fn await_front_end(
    listener: &FrontEndListener,
    [end, wake]: [&Wake; 2],
) -> io::Result<()> {
    EventDescriptor::wait_for_any(&[&listener.0.came, &end.0, &wake.0], None);
    if simulation::is_ending() { Err(io::Error::other("the process has ended")) } else { Ok(()) }
}

/// Waits for more of a message than has arrived.
pub(in crate::vhost_user) fn await_more(
    connection: &Connection,
    arrival: Arrival,
    wake: &Wake,
    timeout: Option<Duration>,
) -> Awaited {
    let stream = &connection.0.0;
    stream.to_back.take();
    if arrival == Arrival::Nothing {
        EventDescriptor::wait_for_any(&[&stream.to_back, &wake.0], timeout);
    }
    match () {
        () if wake.0.has_signal() => Awaited::Command,
        () if simulation::is_ending() => Awaited::Fault,
        () if stream.to_back.has_signal() => Awaited::More,
        () => Awaited::Time,
    }
}

/// Ends a connection, also for other processes that have it.
pub(in crate::vhost_user) fn close(connection: &Connection) {
    // A process that is killed closes what it has, and no more than that.
    if !simulation::is_ending() {
        connection.0.0.close();
    }
}

/// The same connection, for another process.
pub(in crate::vhost_user) fn share(connection: &Connection) -> io::Result<Descriptor> {
    simulation::spare()?;
    Ok(Descriptor::FrontEnd(connection.0.clone()))
}

/// Connection that another process has shared.
pub(in crate::vhost_user) fn open(connection: Descriptor) -> io::Result<Connection> {
    simulation::spare()?;
    let back_end = match connection {
        Descriptor::FrontEnd(back_end) => back_end.downcast().ok(),
        _ => None,
    };
    back_end.map(FrontEndConnection).ok_or_else(|| io::Error::other("it is not a connection of a front end"))
}

/// Event descriptor that a message brings as a file, which none of a simulation is.
pub(in crate::vhost_user) fn event_of(_: File) -> io::Result<Event> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The same event descriptor, for another process.
pub(in crate::vhost_user) fn share_event(event: &Event) -> io::Result<Descriptor> {
    simulation::spare()?;
    Ok(Descriptor::Event(event.clone()))
}

/// Event descriptor that another process has shared.
pub(in crate::vhost_user) fn open_event(event: Descriptor) -> io::Result<Event> {
    simulation::spare()?;
    match event {
        Descriptor::Event(event) => Ok(event),
        _ => Err(io::Error::other("a descriptor for notifications is not an eventfd")),
    }
}

/// The same file, for another process.
pub(in crate::vhost_user) fn share_file(file: &File) -> io::Result<Descriptor> {
    simulation::spare()?;
    file.try_clone().map(Descriptor::Memory)
}

/// File that another process has shared.
pub(in crate::vhost_user) fn open_file(file: Descriptor) -> io::Result<File> {
    simulation::spare()?;
    match file {
        Descriptor::Memory(file) => Ok(file),
        _ => Err(io::Error::other("shared memory is not a file")),
    }
}

/// Has threads of a process stay at some of the places at which it matters whether it is killed there, or of none.
pub fn stop_where_a_kill_matters(process: Option<ProcessId>) {
    STOPPED.set(process);
}

/// A place at which it matters what a process has done that is killed there. In one of some, the thread stays there for a while.
pub(in crate::vhost_user) fn may_be_interrupted() {
    if STOPPED.get() == Some(simulation::current_process()) && simulation::random().is_multiple_of(STOPS) {
        while STOPPED.get() == Some(simulation::current_process()) {
            simulation::sleep(STOP_INTERVAL);
        }
    }
    if simulation::random().is_multiple_of(INTERRUPTED) {
        simulation::sleep(Duration::from_micros(1 + simulation::random() % INTERRUPTED_US_MAX));
    }
}

/// Does something that is a front end's own affair. A panic is the scene's failure, and a killed process unwinds.
pub(in crate::vhost_user) fn guarded<T>(what: impl FnOnce() -> T) -> Option<T> {
    Some(what())
}
