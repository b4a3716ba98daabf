//! Handle of a running NBD server, for a hand-over of its clients to another process, or from one.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use engine::ring::channel::{Receiver, channel};
use engine::ring::{Moment, Socket, now};
use nbd::Export;

use crate::client_state::{AdoptionError, RECEIVED_BYTES_MAX};
use crate::hand_over_error::HandOverError;
use crate::handed_client::{HandedClient, HandedDisk, HandedServer};
use crate::limits::{HAND_OVER_STALL_MS, HAND_OVER_TIMEOUT_MS, HANDED_UNSENT_BYTES_MAX};
use crate::machine::{Descriptor, bytes_of, open};
use crate::worker_command::{Adopted, WorkerCommand, WorkerHandle};

/// Limit on the time in which a thread executes a command that waits for nothing.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that may be handed over.
#[derive(Clone)]
pub struct Holder {
    /// The first one accepts clients.
    workers: Arc<[WorkerHandle]>,
    exports: Arc<[Export]>,
}

impl Holder {
    pub(crate) fn new(mut workers: Vec<WorkerHandle>, exports: &[Export]) -> Self {
        // Threads are started with the first one last.
        workers.reverse();
        Self { workers: workers.into(), exports: exports.into() }
    }

    /// Brings the server to rest: what was asked for ends, and nothing else begins. What another process needs to go on, and the
    /// clients' sockets. Until `thaw` or `leave` no client is touched.
    ///
    /// # Errors
    /// When what is under way takes too long, or the system has no descriptors for all clients. The server serves on then.
    pub fn freeze(&self) -> Result<(HandedServer, Vec<Descriptor>), HandOverError> {
        let frozen = self.try_freeze();
        if frozen.is_err() {
            self.thaw(false);
        }
        frozen
    }

    fn try_freeze(&self) -> Result<(HandedServer, Vec<Descriptor>), HandOverError> {
        // First stop passing clients between threads, so that each knows all of its clients.
        let (asker, stopped) = channel();
        self.workers
            .iter()
            .take(1)
            .for_each(|worker| worker.send(WorkerCommand::StopAccepting(asker.clone())));
        drop(asker);
        answer(&stopped, now().after(ORDER_TIMEOUT))?;
        let until = now().after(Duration::from_millis(HAND_OVER_TIMEOUT_MS + HAND_OVER_STALL_MS));
        let (asker, quiesced) = channel();
        self.workers.iter().for_each(|worker| worker.send(WorkerCommand::Freeze(asker.clone())));
        drop(asker);
        let (mut clients, mut sockets) = (Vec::new(), Vec::new());
        for _ in 0..self.workers.len() {
            for (client, descriptors) in answer(&quiesced, until)?? {
                clients.push(client);
                sockets.extend(descriptors);
            }
        }
        let disk =
            |export: &Export| HandedDisk { name: export.name.clone(), block_bytes: export.block_bytes };
        Ok((HandedServer { disks: self.exports.iter().map(disk).collect(), clients }, sockets))
    }

    /// Serves on. Where another process may have used the clients' sockets meanwhile (`is_disowned`), they are closed.
    pub fn thaw(&self, is_disowned: bool) {
        // The first accepts clients at once, and gives them to others.
        self.workers.iter().rev().for_each(|worker| worker.send(WorkerCommand::Thaw(is_disowned)));
    }

    /// Ends without a word to any client: another process serves them.
    pub fn leave(&self) {
        self.workers.iter().for_each(|worker| worker.send(WorkerCommand::Leave));
    }

    /// Takes over what another process has brought to rest. This server serves when `thaw` is called. Those that cannot be taken
    /// are named with the reason; their connections are closed.
    ///
    /// # Errors
    /// When it is not what a server hands over.
    pub fn adopt(
        &self,
        handed: HandedServer,
        sockets: Vec<Descriptor>,
    ) -> Result<Vec<(String, String)>, HandOverError> {
        let HandedServer { disks, clients } = handed;
        if clients.iter().map(HandedClient::descriptors).sum::<usize>() != sockets.len() {
            return Err(HandOverError::Descriptors);
        }
        let slot = |disk: &HandedDisk| {
            let is_it = |own: &Export| own.name == disk.name && own.block_bytes == disk.block_bytes;
            self.exports.iter().position(is_it)
        };
        let disk_indices: Arc<[Option<usize>]> = disks.iter().map(slot).collect();
        let mut shares: Vec<Vec<Adopted>> = self.workers.iter().map(|_| Vec::new()).collect();
        let (count, mut failed, mut descriptors) = (shares.len(), Vec::new(), sockets.into_iter());
        for (at, mut client) in clients.into_iter().enumerate() {
            let socket = descriptors.next();
            let unsent = if client.unsent_bytes > 0 { descriptors.next() } else { None };
            let received = if client.received_bytes > 0 { descriptors.next() } else { None };
            let files = (unsent, received);
            match socket.ok_or_else(missing).and_then(|socket| adopted(&mut client, socket, files)) {
                Ok((socket, unsent)) => shares[at % count].push((client, socket, unsent)),
                Err(error) => failed.push((client.peer.clone(), error.to_string())),
            }
        }
        let (asker, adopted) = channel();
        for (worker, share) in self.workers.iter().zip(shares) {
            worker.send(WorkerCommand::Adopt(share, disk_indices.clone(), asker.clone()));
        }
        drop(asker);
        let until = now().after(ORDER_TIMEOUT);
        for _ in 0..count {
            failed.extend(answer(&adopted, until)?);
        }
        Ok(failed)
    }
}

/// A client's socket, and what is to be sent to it first. What was received from it is in its state then.
fn adopted(
    client: &mut HandedClient,
    socket: Descriptor,
    (unsent, received): (Option<Descriptor>, Option<Descriptor>),
) -> io::Result<(Socket, Vec<u8>)> {
    if let Some(received) = received {
        if client.received_bytes > RECEIVED_BYTES_MAX {
            return Err(io::Error::other(AdoptionError::Received));
        }
        client.received = bytes_of(received, std::mem::take(&mut client.received_bytes))?;
    }
    let bytes = match unsent {
        None => Vec::new(),
        Some(_) if client.unsent_bytes > HANDED_UNSENT_BYTES_MAX => {
            return Err(io::Error::other("too much is to be sent to it"));
        }
        Some(unsent) => bytes_of(unsent, client.unsent_bytes)?,
    };
    Ok((open(socket)?, bytes))
}

fn missing() -> io::Error {
    io::Error::other("descriptors are missing")
}

fn answer<T>(answers: &Receiver<T>, until: Moment) -> Result<T, HandOverError> {
    answers.recv_timeout(until.since(now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => HandOverError::ClientsBusy,
        RecvTimeoutError::Disconnected => HandOverError::ThreadEnded,
    })
}
