//! One tenant: a host with an I/O queue, on which it does one thing after the other.

use std::time::Duration;

use engine::initiator::{
    Completion, ConnectOptions, Controller, Data, InitiatorError, Queue, QueueState, Request,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Event, Readiness, Ring, RingOptions};
use engine::simulation;
use nvme::io::IoCommand;

use crate::scene::Scene;

/// The longest that anything may take when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with a queue of its own.
pub(crate) struct Tenant {
    pub(crate) controller: Controller,
    ring: Ring,
    queue: Queue,
    events: Vec<Event>,
    scratch: Vec<u8>,
}

impl Tenant {
    pub(crate) fn connect(scene: &Scene, options: ConnectOptions) -> Result<Self, InitiatorError> {
        let controller = Controller::connect(options)?;
        let mut ring = Ring::new(RingOptions::default()).expect("a simulated ring");
        let queue = Queue::open(&mut ring, 1, &controller.queue_options(1))?;
        let (events, scratch) = (Vec::new(), vec![0; RECEIVE_LENGTH]);
        let mut tenant = Self { controller, ring, queue, events, scratch };
        tenant.turn_until(scene, |queue| queue.state() == QueueState::Live)?;
        Ok(tenant)
    }

    pub(crate) fn leave(mut self) {
        self.queue.close(&mut self.ring);
        if let Err(error) = self.controller.disconnect() {
            simulation::say(|| format!("a tenant does not leave properly: {error}"));
        }
    }

    /// Serves the queue until `holds`.
    fn turn_until(&mut self, scene: &Scene, holds: impl Fn(&Queue) -> bool) -> Result<(), InitiatorError> {
        let deadline = self.ring.now().after(PATIENCE);
        while !holds(&self.queue) {
            let now = self.ring.now();
            if let Some(error) = self.queue.error() {
                return Err(error.clone());
            }
            if now >= deadline {
                if !scene.may_lose_connections() {
                    simulation::fail("a target does not answer a tenant");
                }
                return Err(self.lost());
            }
            self.queue.flush(&mut self.ring);
            self.queue.on_time(&mut self.ring, now);
            self.events.clear();
            if self.ring.wait(Some(Duration::from_micros(200)), &mut self.events).is_err() {
                return Err(self.lost());
            }
            for event in &self.events {
                if let Event::Ready { readiness, .. } = event {
                    self.queue.on_ready(&mut self.ring, &mut self.scratch, *readiness);
                }
            }
            if self.queue.has_more() {
                let readable = Readiness { readable: true, ..Default::default() };
                self.queue.on_ready(&mut self.ring, &mut self.scratch, readable);
            }
        }
        Ok(())
    }

    fn lost(&self) -> InitiatorError {
        let lost = InitiatorError::TimedOut {
            address: self.controller.address(),
            what: "an answer",
            after: PATIENCE,
        };
        self.queue.error().cloned().unwrap_or(lost)
    }

    /// Does these commands, submitted together, and gives their ends in the same order.
    pub(crate) fn execute<const N: usize>(
        &mut self,
        scene: &Scene,
        nsid: u32,
        commands: [(IoCommand, Data); N],
    ) -> Result<[Completion; N], InitiatorError> {
        let slots = self.queue.free_slots();
        for (number, (command, data)) in commands.into_iter().enumerate() {
            simulation::say(|| format!("a tenant asks namespace {nsid} for {command:?}"));
            let mut entry = command.encode(nsid);
            // Two at once are one fused operation.
            entry.flags |= if N == 2 { number as u8 + 1 } else { 0 };
            if self.queue.submit(Request { entry, data, user: number as u64 }).is_err() {
                simulation::fail("a tenant's free queue takes no command");
            }
        }
        self.turn_until(scene, |queue| queue.free_slots() == slots)?;
        let mut ends = Vec::with_capacity(N);
        while let Some(end) = self.queue.pop() {
            let end = end.answer().map_err(|lost| InitiatorError::clone(&lost.error))?;
            simulation::say(|| format!("a tenant is answered: {}", end.status));
            ends.push(end);
        }
        ends.sort_by_key(|end| end.user);
        ends.try_into().map_err(|_| {
            simulation::fail("a tenant's commands have not ended each once");
            self.lost()
        })
    }
}

/// Content of a shared namespace.
pub(crate) struct Content {
    pub(crate) nsid: u32,
    pub(crate) bytes: Vec<u8>,
    /// Blocks that were deallocated: each holds what it did, or zeroes.
    pub(crate) may_be_zero: Vec<u64>,
}
