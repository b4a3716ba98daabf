//! An NBD server: its threads, and how they begin and end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::initiator::Controller;
use engine::ring::channel::channel;
use engine::ring::thread::{Builder, JoinHandle};
use engine::ring::{Ring, RingOptions, Waker};
use nbd::Export;

use crate::client_faults::ClientFaults;
use crate::client_limiter::ClientLimiter;
use crate::disk::Disk;
use crate::extents::ExtentThread;
use crate::holder::Holder;
use crate::machine::Listener;
use crate::tls::{HandshakeThread, ServerTls};
use crate::worker::{Plan, Worker};
use crate::worker_command::WorkerHandle;

/// Options of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Threads; each client is served by one of them. There are no more than the controllers have granted I/O queues.
    pub threads: u16,
    /// Ring for the disks' I/O.
    pub ring: RingOptions,
    /// Set to start in held state: the server takes over from another process, and serves on command.
    pub is_held: bool,
    /// NBD clients that are accepted at a time, the same number by each thread. Those that are handed over may be more.
    pub clients_max: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { threads: 1, ring: RingOptions::default(), is_held: false, clients_max: usize::MAX }
    }
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clients that have connected.
    pub clients: u64,
    /// Requests they have sent.
    pub requests: u64,
    /// Number of those that were answered with an error.
    pub errors: u64,
    /// Clients whose connections were closed at a hand-over, as other clients waited for the buffers of their unread replies.
    pub unread: u64,
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, one| Self {
            clients: sum.clients + one.clients,
            requests: sum.requests + one.requests,
            errors: sum.errors + one.errors,
            unread: sum.unread + one.unread,
        })
    }
}

impl ServerOptions {
    /// Threads, of which each has a queue on every path.
    pub(crate) fn threads_for<'a>(&self, disks: impl Iterator<Item = &'a Disk>) -> u16 {
        let controllers = disks.flat_map(|disk| disk.paths.controllers());
        let granted = controllers.map(|controller: Controller| controller.io_queues()).min().unwrap_or(1);
        self.threads.min(granted).max(1)
    }
}

/// A server that runs. Dropping it ends it as `stop` does.
pub struct Server {
    stopping: Arc<AtomicBool>,
    threads: Vec<(Waker, JoinHandle<Tally>)>,
    workers: Vec<WorkerHandle>,
    /// Ended after the workers.
    handshakes: Option<HandshakeThread>,
    /// Thread for block status, joined after those that serve.
    extents: Option<ExtentThread>,
    exports: Vec<Export>,
}

impl Server {
    /// Serves disks to all clients that connect to the listeners, in clear.
    ///
    /// # Errors
    /// When a namespace cannot be a disk, or the system gives no ring or thread.
    pub fn start(disks: Vec<Disk>, listeners: Vec<Listener>, options: ServerOptions) -> io::Result<Self> {
        Self::start_with(disks, listeners, None, options)
    }

    /// The same with TLS.
    ///
    /// # Errors
    /// As `start`'s.
    pub fn start_with(
        disks: Vec<Disk>,
        listeners: Vec<Listener>,
        tls: Option<ServerTls>,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let of = |disk: Disk| disk.export().map(|export| (disk, export)).map_err(io::Error::other);
        let disks = disks.into_iter().map(of).collect::<io::Result<Vec<_>>>()?;
        let count = options.threads_for(disks.iter().map(|(disk, _)| disk));
        let limiter = ClientLimiter::new(count, options.clients_max);
        let faults = Arc::<ClientFaults>::default();
        let exports = disks.iter().map(|(_, export)| export.clone()).collect();
        let stopping = Arc::new(AtomicBool::new(false));
        let offer = tls.as_ref().map(ServerTls::offer);
        let (handshakes, jobs) = tls.map(HandshakeThread::start).transpose()?.unzip();
        let (threads, workers) = (Vec::new(), Vec::new());
        let (extents, questions) = ExtentThread::start()?;
        let extents = Some(extents);
        let mut server = Self { stopping: stopping.clone(), threads, workers, handshakes, extents, exports };
        // Where something fails, they go before the server, which waits for a thread that has work as long as they are there.
        let (jobs, questions) = (jobs, questions);
        let (mut listeners, is_held) = (Some(listeners), options.is_held);
        // The first comes last: it knows all others.
        for number in (0..count).rev() {
            let (sender, commands) = channel();
            let (disks, stopping, tls) = (disks.clone(), stopping.clone(), offer.zip(jobs.clone()));
            let (extents, limiter, faults) = (questions.clone(), limiter.clone(), faults.clone());
            let plan =
                Plan { disks, number, count, stopping, commands, limiter, faults, is_held, tls, extents };
            let (listeners, others) = match number {
                0 => (listeners.take().unwrap_or_default(), server.workers.iter().rev().cloned().collect()),
                _ => (Vec::new(), Vec::new()),
            };
            let open = |ring| {
                let worker = Worker::open(ring, plan, listeners, others)?;
                Ok(|| worker.run())
            };
            let (waker, thread) = start_thread(format!("nbd-{number}"), options.ring, open)?;
            server.workers.push(WorkerHandle { commands: sender, waker: waker.clone() });
            server.threads.push((waker, thread));
        }
        Ok(server)
    }

    /// Handle for handing its clients over to another process.
    pub fn holder(&self) -> Holder {
        Holder::new(self.workers.clone(), &self.exports)
    }

    /// The disks as clients saw them at the beginning.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Threads that serve.
    pub const fn threads(&self) -> usize {
        self.threads.len()
    }

    /// True if a thread has ended without a command.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Takes no more clients and no more requests, answers those that have come, within `limits::END_TIMEOUT_MS`, and ends.
    pub fn stop(mut self) -> Tally {
        self.end()
    }

    fn end(&mut self) -> Tally {
        self.stopping.store(true, Ordering::Release);
        self.threads.iter().for_each(|(waker, _)| waker.wake());
        let tally = self.threads.drain(..).filter_map(|(_, thread)| thread.join().ok()).sum();
        self.handshakes.take().into_iter().for_each(HandshakeThread::join);
        self.extents.take().into_iter().for_each(ExtentThread::join);
        tally
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a thread, and waits until it has its ring and what `open` makes of that, which it runs to its end.
pub(crate) fn start_thread<Serve: FnOnce() -> Tally>(
    name: String,
    ring: RingOptions,
    open: impl FnOnce(Ring) -> io::Result<Serve> + Send + 'static,
) -> io::Result<(Waker, JoinHandle<Tally>)> {
    let (opened, outcome) = channel();
    let thread = Builder::new().name(name).spawn(move || {
        let begun = Ring::new(ring).and_then(|ring| {
            let waker = ring.waker();
            open(ring).map(|serve| (waker, serve))
        });
        match begun {
            Ok((waker, serve)) => {
                let _ = opened.send(Ok(waker));
                serve()
            }
            Err(error) => {
                let _ = opened.send(Err(error));
                Tally::default()
            }
        }
    })?;
    let ended = |_| Err(io::Error::other("its thread ended at once"));
    outcome.recv().unwrap_or_else(ended).map(|waker| (waker, thread))
}
