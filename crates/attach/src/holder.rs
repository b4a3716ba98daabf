//! A running NBD server, for whoever hands its clients over to another process, or takes over those of one.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use engine::ring::Socket;
use nbd::Export;

use crate::handed_client::{HandedClient, HandedDisk, HandedServer};
use crate::limits::{HAND_OVER_STALL_MS, HAND_OVER_TIMEOUT_MS};
use crate::order::{Hand, Order};

/// How long a thread may take to carry an order out that waits for nothing.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that may be handed over.
#[derive(Clone)]
pub struct Holder {
    /// The first one accepts clients.
    hands: Arc<[Hand]>,
    exports: Arc<[Export]>,
}

impl Holder {
    pub(crate) fn new(mut hands: Vec<Hand>, exports: &[Export]) -> Self {
        // Threads are started with the first one last.
        hands.reverse();
        Self { hands: hands.into(), exports: exports.into() }
    }

    /// Brings the server to rest: what was asked for ends, and nothing else begins. What another process needs to go on, and the
    /// clients' sockets. Until `thaw` or `leave` no client is touched.
    ///
    /// # Errors
    /// When what is under way takes too long. The server serves on then.
    pub fn freeze(&self) -> Result<(HandedServer, Vec<OwnedFd>), String> {
        let frozen = self.try_freeze();
        if frozen.is_err() {
            self.thaw(false);
        }
        frozen
    }

    fn try_freeze(&self) -> Result<(HandedServer, Vec<OwnedFd>), String> {
        // First nobody gives clients to other threads, so that each knows all of its clients.
        let (asker, stopped) = channel();
        self.hands.iter().take(1).for_each(|hand| hand.order(Order::StopAccepting(asker.clone())));
        drop(asker);
        answer(&stopped, Instant::now() + ORDER_TIMEOUT)?;
        let until = Instant::now() + Duration::from_millis(HAND_OVER_TIMEOUT_MS + HAND_OVER_STALL_MS);
        let (asker, quiesced) = channel();
        self.hands.iter().for_each(|hand| hand.order(Order::Freeze(asker.clone())));
        drop(asker);
        let (mut clients, mut sockets) = (Vec::new(), Vec::new());
        for _ in 0..self.hands.len() {
            for (client, socket) in answer(&quiesced, until)? {
                clients.push(client);
                sockets.push(socket);
            }
        }
        let disk =
            |export: &Export| HandedDisk { name: export.name.clone(), block_bytes: export.block_bytes };
        Ok((HandedServer { disks: self.exports.iter().map(disk).collect(), clients }, sockets))
    }

    /// Serves on. Where another process may have used the clients' sockets meanwhile (`is_disowned`), they are closed.
    pub fn thaw(&self, is_disowned: bool) {
        // The first accepts clients at once, and gives them to others.
        self.hands.iter().rev().for_each(|hand| hand.order(Order::Thaw(is_disowned)));
    }

    /// Ends without a word to any client: another process serves them.
    pub fn leave(&self) {
        self.hands.iter().for_each(|hand| hand.order(Order::Leave));
    }

    /// Takes over what another process has brought to rest. This server serves when `thaw` is called. Those that cannot be taken
    /// are named with the reason; their connections are closed.
    ///
    /// # Errors
    /// When it is not what a server hands over.
    pub fn adopt(
        &self,
        handed: HandedServer,
        sockets: Vec<OwnedFd>,
    ) -> Result<Vec<(String, String)>, String> {
        let HandedServer { disks, clients } = handed;
        if clients.len() != sockets.len() {
            return Err("the number of sockets is not that of the clients".to_owned());
        }
        let place = |disk: &HandedDisk| {
            let is_it = |own: &Export| own.name == disk.name && own.block_bytes == disk.block_bytes;
            self.exports.iter().position(is_it)
        };
        let places: Arc<[Option<usize>]> = disks.iter().map(place).collect();
        let mut shares: Vec<Vec<(HandedClient, Socket)>> = self.hands.iter().map(|_| Vec::new()).collect();
        let count = shares.len();
        for (at, (client, socket)) in clients.into_iter().zip(sockets).enumerate() {
            let socket = Socket::new(socket).map_err(|error| error.to_string())?;
            shares[at % count].push((client, socket));
        }
        let (asker, adopted) = channel();
        for (hand, share) in self.hands.iter().zip(shares) {
            hand.order(Order::Adopt(share, places.clone(), asker.clone()));
        }
        drop(asker);
        let until = Instant::now() + ORDER_TIMEOUT;
        let mut failed = Vec::new();
        for _ in 0..count {
            failed.extend(answer(&adopted, until)?);
        }
        Ok(failed)
    }
}

fn answer<T>(answers: &Receiver<T>, until: Instant) -> Result<T, String> {
    answers.recv_timeout(until.saturating_duration_since(Instant::now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => "what clients have asked for takes too long to end".to_owned(),
        RecvTimeoutError::Disconnected => "a thread that serves clients has ended".to_owned(),
    })
}
