//! Accepts connections on a thread of its own and gives each to the reactor that has the fewest.
//! It says nothing to hosts; the handshake is the reactor's.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::reactor::Message;
use super::subsystem::Fabric;
use super::{PortConfig, TargetError};
use crate::limits::CONNECTIONS_PER_REACTOR_MAX;
use crate::ring::{Engine, Event, Ring, RingOptions, Socket, Waker};
use crate::transport::tcp::{self, TcpListener};

/// Connections the system may keep for us to accept.
const BACKLOG: i32 = 1024;
/// How long to wait when the system has no descriptors or memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// The thread that accepts.
#[derive(Debug)]
pub(super) struct Listener {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Listener {
    /// Binds all addresses, and says which they really are.
    pub(super) fn bind(ports: &[PortConfig]) -> Result<Vec<(SocketAddr, TcpListener)>, TargetError> {
        let mut sockets = Vec::with_capacity(ports.len());
        for port in ports {
            let failed = |source| TargetError::Listen { address: port.address, source };
            let listening = tcp::listen(port.address, BACKLOG).map_err(failed)?;
            let address = listening.address();
            sockets.push((address, listening));
        }
        Ok(sockets)
    }

    pub(super) fn start(sockets: Vec<(SocketAddr, TcpListener)>, fabric: Arc<Fabric>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("listener".to_owned()).spawn(move || {
            // Accepting is rare: epoll without polling does, and leaves io_uring to the reactors.
            let ring = Ring::new(RingOptions { engine: Engine::Epoll, poll_us_max: 0 });
            match ring {
                Ok(ring) => {
                    let _ = sender.send(Ok(ring.waker()));
                    accept_all(ring, &sockets, &fabric, &stopped);
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                }
            }
        })?;
        let waker = receiver.recv().map_err(|_| io::Error::other("the listener's thread ended"))??;
        Ok(Self { stop, waker, thread })
    }

    /// Stops accepting, and closes the addresses.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let _ = self.thread.join();
    }
}

fn accept_all(mut ring: Ring, sockets: &[(SocketAddr, TcpListener)], fabric: &Fabric, stop: &AtomicBool) {
    for (token, (address, listening)) in sockets.iter().enumerate() {
        if let Err(error) = ring.watch(listening, token as u32) {
            tracing::error!(%address, %error, "cannot accept connections");
        }
    }
    let mut events = Vec::new();
    let mut pause = None;
    while !stop.load(Ordering::Acquire) {
        if let Err(error) = ring.wait(pause, &mut events) {
            tracing::error!(%error, "accepting ends");
            return;
        }
        // After a pause every address is tried, since its edge is gone.
        let mut tokens: Vec<usize> = events
            .drain(..)
            .filter_map(|event| match event {
                Event::Ready { token, .. } => Some(token as usize),
                _ => None,
            })
            .collect();
        if pause.take().is_some() {
            tokens = (0..sockets.len()).collect();
        }
        for token in tokens {
            if accept_from(&sockets[token].1, fabric).is_err() {
                pause = Some(EXHAUSTED_PAUSE);
            }
        }
    }
}

/// Accepts all that wait on one address; an error when the system has no room for more.
fn accept_from(listening: &TcpListener, fabric: &Fabric) -> io::Result<()> {
    loop {
        match listening.accept() {
            Ok((socket, peer)) => place(socket, peer, fabric),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if is_exhausted(&error) => {
                tracing::warn!(%error, "no room for another connection");
                return Err(error);
            }
            // The peer gave up before it was accepted.
            Err(_) => {}
        }
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn place(socket: Socket, peer: SocketAddr, fabric: &Fabric) {
    let least = fabric.reactors().iter().min_by_key(|reactor| reactor.connections());
    match least {
        Some(reactor) if reactor.connections() < CONNECTIONS_PER_REACTOR_MAX => {
            reactor.count_connection();
            reactor.send(Message::Connection(socket));
        }
        _ => {
            tracing::warn!(%peer, limit = CONNECTIONS_PER_REACTOR_MAX, "too many connections; one is refused");
        }
    }
}
