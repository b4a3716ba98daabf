//! A reactor seen from outside: its thread, the way to it, and its status.
//! What the thread does is in `event_loop`; which reactor gets a connection is the listener's decision.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::event_loop::EventLoop;
use crate::ring::channel::channel;
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{self, Ring, RingOptions, Vital, core};
use crate::target::fabric::Fabric;
use crate::target::messaging::Mailbox;

/// A reactor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ReactorStatus {
    /// Reactor number.
    pub number: usize,
    /// The processor it is kept on.
    pub cpu: Option<usize>,
    /// Connections it has.
    pub connections: usize,
    /// Connections that are not queues yet.
    pub half_open: usize,
    /// Processor time it has used, in microseconds.
    pub cpu_time_us: u64,
}

/// Counters of one reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactorMetrics {
    /// Reactor number.
    pub number: usize,
    /// Connections it has.
    pub connections: usize,
    /// Connections that are not queues yet.
    pub half_open: usize,
    /// Connections that had to go before they were queues, since others came.
    pub half_open_dropped: u64,
    /// Processor time it has used.
    pub cpu_time: Duration,
    /// Time spent waiting for events, polling and asleep.
    pub waited: Duration,
    /// Number of waits for events.
    pub rounds: u64,
    /// Events it found.
    pub events: u64,
    /// Bytes of free buffers it keeps.
    pub buffer_bytes: u64,
}

/// A running reactor, seen from outside.
#[derive(Debug)]
pub(crate) struct Reactor {
    mailbox: Arc<Mailbox>,
    cpu: Option<usize>,
    thread: JoinHandle<()>,
    thread_id: i32,
}

impl Reactor {
    /// Starts reactor `number`, on `cpu` when one is given.
    pub(crate) fn start(
        number: usize,
        cpu: Option<usize>,
        options: RingOptions,
        fabric: Arc<Fabric>,
    ) -> io::Result<Self> {
        let (reply, started) = channel();
        let thread = thread::Builder::new().name(format!("reactor-{number}")).spawn(move || {
            // Fences, aborts and the administration count on every reactor: with one less they never end.
            let _vital = Vital::begin();
            let ring = match cpu.map_or(Ok(()), core::pin_to).and_then(|()| Ring::new(options)) {
                Ok(ring) => ring,
                Err(error) => {
                    let _ = reply.send(Err(error));
                    return;
                }
            };
            let (sender, messages) = channel();
            let mailbox = Arc::new(Mailbox::new(number, sender, ring.waker()));
            let _ = reply.send(Ok((mailbox.clone(), core::thread_id())));
            tracing::debug!(number, ?cpu, engine = ring.engine_name(), "reactor starts");
            EventLoop::new(ring, mailbox, messages, fabric).run();
        })?;
        let (mailbox, thread_id) =
            started.recv().map_err(|_| io::Error::other("the reactor's thread ended"))??;
        Ok(Self { mailbox, cpu, thread, thread_id })
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Status for the API.
    pub(crate) fn status(&self) -> ReactorStatus {
        ReactorStatus {
            number: self.mailbox.number,
            cpu: self.cpu,
            connections: self.mailbox.connections(),
            half_open: self.mailbox.half_open(),
            cpu_time_us: self.cpu_time().as_micros() as u64,
        }
    }

    /// Counters for metrics.
    pub(crate) fn metrics(&self) -> ReactorMetrics {
        let (rounds, events, buffer_bytes) = self.mailbox.tally.read();
        ReactorMetrics {
            number: self.mailbox.number,
            connections: self.mailbox.connections(),
            half_open: self.mailbox.half_open(),
            half_open_dropped: self.mailbox.tally.half_open_dropped(),
            cpu_time: self.cpu_time(),
            waited: self.mailbox.tally.waited(ring::now()),
            rounds,
            events,
            buffer_bytes,
        }
    }

    /// Processor time it has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        core::time_of_thread(self.thread_id).unwrap_or_default()
    }

    /// Waits for its end.
    pub(crate) fn join(self) {
        // A panic there has ended the process.
        let _ = self.thread.join();
    }
}
