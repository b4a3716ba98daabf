//! Accepts connections on a thread of its own and gives each to the reactor that has the fewest.
//! It says nothing to hosts; the handshake is the reactor's.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{CONNECTIONS_PER_REACTOR_MAX, HALF_OPEN_ACCEPTED_MAX, PORTS_MAX};
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::tcp::{self, TcpListener};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{Engine, Event, Ring, RingOptions, Socket, Vital, Waker, core};
use crate::target::TargetError;
use crate::target::config::PortConfig;
use crate::target::fabric::Fabric;
use crate::target::messaging::{Arrival, Message};
use crate::transport::ListenOptions;
use crate::transport::congestion;

/// Connections the system may keep for us to accept.
const BACKLOG: i32 = 4096;
/// Pause when the system has no descriptors or memory for another connection: longer than reactors
/// need to drop some half-open ones.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);
/// Time for which the administrator waits until the thread has carried out a change.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// An address that is listened on.
#[derive(Debug)]
pub(crate) struct Listening {
    port: u16,
    socket: TcpListener,
    /// The congestion control that its connections were asked to have.
    congestion: Option<String>,
}

impl Listening {
    /// Begins to listen as this port is to, by the socket among these that has its address, if one does.
    pub(crate) fn open(port: &PortConfig, inherited: &[Arc<tcp::Opened>]) -> Result<Self, TargetError> {
        let failed = |source| TargetError::Listen { address: port.address, source };
        let address = port.address.socket_addr().map_err(failed)?;
        let congestion = congestion::choice(port.congestion.as_deref());
        let options = ListenOptions { transport: port.transport, congestion, backlog: BACKLOG };
        let is_for_it = |socket: &&Arc<tcp::Opened>| socket.local_addr().is_ok_and(|at| at == address);
        let socket = match inherited.iter().find(is_for_it) {
            Some(socket) => tcp::adopt(socket, &options),
            None => tcp::listen(address, &options),
        };
        let socket = socket.map_err(failed)?;
        Ok(Self { port: port.id, socket, congestion: port.congestion.clone() })
    }

    /// The address with the real service.
    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.address()
    }
}

/// Changes of ports.
#[derive(Debug, Default)]
pub(crate) struct PortChange {
    /// The numbers of those that close.
    pub(crate) close: Vec<u16>,
    /// Ports that open.
    pub(crate) open: Vec<Listening>,
    /// Ports whose connections get another congestion control, by number, with the configured
    /// value.
    pub(crate) congestion: Vec<(u16, Option<String>)>,
}

impl PortChange {
    fn is_empty(&self) -> bool {
        self.close.is_empty() && self.open.is_empty() && self.congestion.is_empty()
    }
}

/// News for the thread.
enum News {
    /// Ports close, open, and change; the sender learns when it is so.
    Change { change: PortChange, done: Sender<()> },
    /// Stops accepting connections, or resumes with those that wait.
    Hold(bool),
    /// The sockets are shared with another process.
    Share(Sender<io::Result<Vec<tcp::Shared>>>),
    /// Ends the thread.
    Stop,
}

/// The thread that accepts.
#[derive(Debug)]
pub(crate) struct Listener {
    news: Sender<News>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Listener {
    pub(crate) fn start(sockets: Vec<Listening>, fabric: Arc<Fabric>, is_held: bool) -> io::Result<Self> {
        let (news, inbox) = channel();
        let (sender, receiver) = channel();
        let thread = thread::Builder::new().name("listener".to_owned()).spawn(move || {
            let _vital = Vital::begin();
            // Accepting is rare: epoll without polling does, and leaves io_uring to the reactors.
            let ring = Ring::new(RingOptions { engine: Engine::Epoll, poll_us_max: 0 });
            match ring {
                Ok(ring) => {
                    let _ = sender.send(Ok(ring.waker()));
                    Accepting::new(ring, fabric, inbox, is_held).run(sockets);
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                }
            }
        })?;
        let waker = receiver.recv().map_err(|_| io::Error::other("the listener's thread ended"))??;
        Ok(Self { news, waker, thread })
    }

    /// Closes, opens and changes ports.
    pub(crate) fn change(&self, change: PortChange) {
        if change.is_empty() {
            return;
        }
        let (done, is_done) = channel();
        if self.news.send(News::Change { change, done }).is_ok() {
            self.waker.wake();
            let _ = is_done.recv_timeout(CHANGE_TIMEOUT);
        }
    }

    /// Accepts nothing from now on, or what waits.
    pub(crate) fn hold(&self, is_held: bool) {
        let _ = self.news.send(News::Hold(is_held));
        self.waker.wake();
    }

    /// The sockets that listen, for another process.
    pub(crate) fn sockets(&self) -> io::Result<Vec<tcp::Shared>> {
        let (answer, sockets) = channel();
        let _ = self.news.send(News::Share(answer));
        self.waker.wake();
        sockets.recv_timeout(CHANGE_TIMEOUT).unwrap_or_else(|_| Err(io::Error::other("the listener hangs")))
    }

    /// Stops accepting, and closes the addresses.
    pub(crate) fn stop(self) {
        let _ = self.news.send(News::Stop);
        self.waker.wake();
        let _ = self.thread.join();
    }
}

/// The thread from inside. A port's token is its place.
struct Accepting {
    ring: Ring,
    fabric: Arc<Fabric>,
    news: Receiver<News>,
    ports: Vec<Option<Listening>>,
    /// Given up for a moment when the system has no other descriptor left, to tell a host so.
    spare: Option<OwnedFd>,
    /// True while connections are left waiting.
    is_held: bool,
}

impl Accepting {
    fn new(ring: Ring, fabric: Arc<Fabric>, news: Receiver<News>, is_held: bool) -> Self {
        Self { ring, fabric, news, ports: Vec::new(), spare: core::spare_descriptor(), is_held }
    }

    fn run(mut self, sockets: Vec<Listening>) {
        self.open(sockets);
        let mut events = Vec::new();
        let mut pause = None;
        loop {
            if let Err(error) = self.ring.wait(pause, &mut events) {
                tracing::error!(%error, "accepting ends");
                return;
            }
            // After a pause every address is tried, since its edge is gone.
            let mut tokens: Vec<usize> = Vec::new();
            for event in events.drain(..) {
                match event {
                    Event::Ready { token, .. } => tokens.push(token as usize),
                    Event::Woken => {}
                    Event::Stored { .. } => {}
                }
            }
            if !self.take_news() {
                return;
            }
            if pause.take().is_some() {
                tokens = (0..self.ports.len()).collect();
            }
            for token in tokens {
                if self.accept_from(token).is_err() {
                    pause = Some(EXHAUSTED_PAUSE);
                }
            }
        }
    }

    /// Does what was sent; whether the thread goes on.
    fn take_news(&mut self) -> bool {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Change { change, done } => {
                    self.close(&change.close);
                    self.set_congestion(&change.congestion);
                    self.open(change.open);
                    let _ = done.send(());
                }
                News::Hold(is_held) => {
                    self.is_held = is_held;
                    for token in 0..self.ports.len() {
                        let _ = self.accept_from(token);
                    }
                }
                News::Share(answer) => {
                    let ports = self.ports.iter().flatten();
                    let _ = answer.send(ports.map(|listening| listening.socket.share()).collect());
                }
                News::Stop => return false,
            }
        }
        true
    }

    fn close(&mut self, ports: &[u16]) {
        for token in 0..self.ports.len() {
            if self.ports[token].as_ref().is_some_and(|listening| ports.contains(&listening.port))
                && let Some(listening) = self.ports[token].take()
            {
                self.ring.unwatch(&listening.socket, token as u32);
            }
        }
    }

    fn set_congestion(&mut self, ports: &[(u16, Option<String>)]) {
        for listening in self.ports.iter_mut().flatten() {
            let Some((_, asked)) = ports.iter().find(|(port, _)| *port == listening.port) else { continue };
            match listening.socket.set_congestion(congestion::choice(asked.as_deref())) {
                Ok(()) => listening.congestion.clone_from(asked),
                Err(error) => {
                    tracing::warn!(address = %listening.address(), %error, "a port keeps its congestion control");
                }
            }
        }
    }

    fn open(&mut self, sockets: Vec<Listening>) {
        for listening in sockets {
            let free = self.ports.iter().position(Option::is_none);
            let token = free.unwrap_or(self.ports.len());
            debug_assert!(token < 2 * PORTS_MAX, "ports are counted by the configuration");
            if let Err(error) = self.ring.watch(&listening.socket, token as u32) {
                tracing::error!(address = %listening.address(), %error, "cannot accept connections");
            }
            match free {
                Some(token) => self.ports[token] = Some(listening),
                None => self.ports.push(Some(listening)),
            }
            // A connection may have arrived before the socket was watched.
            let _ = self.accept_from(token);
        }
    }

    /// Accepts all that wait on one address; an error when there is no use in going on at once.
    fn accept_from(&mut self, token: usize) -> io::Result<()> {
        loop {
            let Some(Some(listening)) = self.ports.get(token).filter(|_| !self.is_held) else {
                return Ok(());
            };
            match listening.socket.accept() {
                Ok((socket, peer)) => {
                    let socket = Arc::new(socket);
                    congestion::follow(listening.congestion.as_deref(), &socket);
                    place(socket, peer, listening.port, &self.fabric);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_exhausted(&error) => {
                    // Half-open connections make room for the next one.
                    if self.fabric.mailboxes().all().iter().any(|reactor| reactor.half_open() > 0) {
                        self.fabric.tell_reactors(|| Message::MakeRoom);
                        return Err(error);
                    }
                    // A host that hears nothing waits for its time-out; one that is refused knows at once.
                    self.spare = None;
                    let refused = listening.socket.accept().map(drop).map_err(|error| error.kind());
                    self.spare = core::spare_descriptor();
                    match refused {
                        Ok(()) => {
                            if let Some(times) = self.fabric.refusals.count_without_room() {
                                tracing::warn!(%error, times, "no room for another connection; it is refused");
                            }
                        }
                        // The system says that it has none also when no connection waits. The next one is announced.
                        Err(io::ErrorKind::WouldBlock) => return Ok(()),
                        Err(_) => return Err(self.unaccepted(error)),
                    }
                }
                Err(error) if is_of_peer(&error) => {}
                Err(error) => return Err(self.unaccepted(error)),
            }
        }
    }

    /// Logs why a connection stays in the system's queue, where it is tried again.
    fn unaccepted(&self, error: io::Error) -> io::Error {
        if let Some(times) = self.fabric.refusals.count_unaccepted() {
            tracing::warn!(%error, times, "cannot accept a connection; retrying");
        }
        error
    }
}

/// True if the error concerns a single connection, which its peer gave up before it was accepted,
/// or which the network or a firewall has ended: accept(2) has removed it, and the next may be in
/// order.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EPROTO
                | libc::EPERM
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn place(socket: Arc<Socket>, peer: SocketAddr, port: u16, fabric: &Fabric) {
    let Some(reactor) = fabric.mailboxes().all().iter().min_by_key(|reactor| reactor.connections()) else {
        return;
    };
    // What is half open takes no place from others: its reactor gives it up for those that come.
    let (all, half_open) = (reactor.connections(), reactor.half_open());
    if all.saturating_sub(half_open) >= CONNECTIONS_PER_REACTOR_MAX {
        if let Some(times) = fabric.refusals.count_without_room() {
            let limit = CONNECTIONS_PER_REACTOR_MAX;
            tracing::warn!(%peer, limit, times, "too many queues on each reactor; a connection is refused");
        }
    } else if half_open < HALF_OPEN_ACCEPTED_MAX {
        reactor.count_connection();
        reactor.send(Message::Connection(Arrival { socket, port, peer }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_one_connection_go_on_at_once() {
        let is = |number, judge: fn(&io::Error) -> bool| judge(&io::Error::from_raw_os_error(number));
        for number in [libc::ECONNABORTED, libc::EPROTO, libc::EPERM] {
            assert!(is(number, is_of_peer) && !is(number, is_exhausted));
        }
        for number in [libc::EMFILE, libc::ENOMEM] {
            assert!(!is(number, is_of_peer) && is(number, is_exhausted));
        }
        // The next call would say the same.
        for number in [libc::EBADF, libc::EINVAL, libc::ENOTSOCK, libc::EFAULT] {
            assert!(!is(number, is_of_peer) && !is(number, is_exhausted));
        }
    }
}
