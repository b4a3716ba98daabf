//! A reactor seen from outside: its thread, the way to it, and what is to be told of it.
//! What the thread does is in `turns`; which reactor gets a connection is the listener's decision.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::fabric::Fabric;
use super::mailbox::Mailbox;
use super::metrics::ReactorMetrics;
use super::status::ReactorStatus;
use super::turns::Turns;
use crate::ring::channel::channel;
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{Ring, RingOptions, Vital, core};

/// A running reactor, seen from outside.
#[derive(Debug)]
pub(super) struct Reactor {
    mailbox: Arc<Mailbox>,
    cpu: Option<usize>,
    thread: JoinHandle<()>,
    thread_id: i32,
}

impl Reactor {
    /// Starts reactor `number`, on `cpu` when one is given.
    pub(super) fn start(
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
            Turns::new(ring, mailbox, messages, fabric).run();
        })?;
        let (mailbox, thread_id) =
            started.recv().map_err(|_| io::Error::other("the reactor's thread ended"))??;
        Ok(Self { mailbox, cpu, thread, thread_id })
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// What is to be told of it.
    pub(super) fn status(&self) -> ReactorStatus {
        ReactorStatus {
            number: self.mailbox.number,
            cpu: self.cpu,
            connections: self.mailbox.connections(),
            half_open: self.mailbox.half_open(),
            cpu_time_us: self.cpu_time().as_micros() as u64,
        }
    }

    /// Its numbers.
    pub(super) fn metrics(&self) -> ReactorMetrics {
        let (rounds, events, buffer_bytes) = self.mailbox.tally.read();
        ReactorMetrics {
            number: self.mailbox.number,
            connections: self.mailbox.connections(),
            half_open: self.mailbox.half_open(),
            half_open_dropped: self.mailbox.tally.half_open_dropped(),
            cpu_time: self.cpu_time(),
            rounds,
            events,
            buffer_bytes,
        }
    }

    /// Processor time it has used.
    pub(super) fn cpu_time(&self) -> Duration {
        core::time_of_thread(self.thread_id).unwrap_or_default()
    }

    /// Waits for its end.
    pub(super) fn join(self) {
        // A panic there has ended the process.
        let _ = self.thread.join();
    }
}
