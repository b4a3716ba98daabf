//! Commands to the threads of an NBD server while they serve.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SendError;

use engine::ring::channel::Sender;
use engine::ring::{Socket, Waker};

use crate::client_limiter::ClientPermit;
use crate::handed_client::HandedClient;
use crate::machine::Descriptor;

/// A client for another process: its socket, and behind that the file of what is to be sent to it first, if there is something.
pub(crate) type Quiesced = (HandedClient, Vec<Descriptor>);

/// All clients of a thread for another process, or the reason why the system does not share them.
pub(crate) type QuiescedClients = io::Result<Vec<Quiesced>>;

/// A client of another process, its socket, and what is to be sent to it first.
pub(crate) type Adopted = (HandedClient, Socket, Vec<u8>);

/// Command to a thread.
pub(crate) enum WorkerCommand {
    /// A client that has connected, and who it is.
    Client(Socket, String, ClientPermit),
    /// Close the connection of the client with this number, for the one that comes next.
    Displace(u64),
    /// Take no more connections. Confirms once none is taken from then on.
    StopAccepting(Sender<()>),
    /// Take nothing that clients send, end what is under way, and say how clients are then.
    Freeze(Sender<QuiescedClients>),
    /// Serve these clients of another process, too. The list maps its disks to those here. Reports
    /// the clients that cannot be served, with the reason.
    Adopt(Vec<Adopted>, Arc<[Option<usize>]>, Sender<Vec<(String, String)>>),
    /// Serve on. Where another process had the clients meanwhile (`true`), their connections are closed.
    Thaw(bool),
    /// End without a word to any client: another process serves them.
    Leave,
}

/// Handle of a thread, for other threads.
#[derive(Clone)]
pub(crate) struct WorkerHandle {
    pub(crate) commands: Sender<WorkerCommand>,
    pub(crate) waker: Waker,
}

impl WorkerHandle {
    /// Sends a command. A thread that has ended receives none.
    pub(crate) fn send(&self, command: WorkerCommand) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Gives the thread a client that has connected. Returns the client if the thread has ended.
    pub(crate) fn give(
        &self,
        socket: Socket,
        peer: String,
        permit: ClientPermit,
    ) -> Option<(Socket, String, ClientPermit)> {
        match self.commands.send(WorkerCommand::Client(socket, peer, permit)) {
            Err(SendError(WorkerCommand::Client(socket, peer, permit))) => Some((socket, peer, permit)),
            _ => {
                self.waker.wake();
                None
            }
        }
    }
}
