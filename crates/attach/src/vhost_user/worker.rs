//! A thread that serves virtqueues: its loop round the ring, the queues of all namespaces and the virtqueues.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::initiator::Paths;
use engine::limits::RECEIVE_LENGTH;
use engine::ring::channel::Receiver;
use engine::ring::{Event, Moment, Ring};

use super::device::Device;
use super::namespace::Namespace;
use super::service::Service;
use super::vring::{Stopped, Vring};
use super::vring_command::{VringCommand, VringCommands};
use crate::buffer_budget::Party;
use crate::disk_queues::DiskQueues;
use crate::limits::{END_TIMEOUT_MS, VRINGS_MAX};
use crate::ready_list::ReadyList;
use crate::server::Tally;

/// Parts of a thread.
pub(super) struct Plan {
    pub(super) disks: Vec<(Arc<Paths>, Device)>,
    pub(super) number: u16,
    pub(super) count: u16,
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) commands: Receiver<VringCommand>,
}

pub(super) struct Worker {
    ring: Ring,
    service: Service,
    /// Virtqueues by index, which is the token of their kicks.
    vrings: Vec<Option<Vring>>,
    /// Virtqueues with pending work, by index.
    ready: ReadyList,
    commands: VringCommands,
    stopping: Arc<AtomicBool>,
    /// Time at which a thread that is to end does so whatever is under way.
    end_at: Option<Moment>,
    events: Vec<Event>,
    scratch: Vec<u8>,
}

impl Worker {
    pub(super) fn open(mut ring: Ring, plan: Plan) -> Self {
        let vring_count = plan.disks.len() * VRINGS_MAX;
        let (number, count) = (plan.number, plan.count);
        let tokens = (vring_count as u32..).step_by(DiskQueues::TOKENS as usize);
        let open = |(known, token)| Namespace::open(known, &mut ring, token, (number, count));
        let namespaces = plan.disks.iter().zip(tokens).map(open).collect();
        Self {
            service: Service::new(namespaces, count),
            ring,
            vrings: (0..vring_count).map(|_| None).collect(),
            ready: ReadyList::new(vring_count),
            commands: VringCommands::new(plan.commands),
            stopping: plan.stopping,
            end_at: None,
            events: Vec::with_capacity(256),
            scratch: vec![0; RECEIVE_LENGTH],
        }
    }

    /// Serves until it shall end, and nothing is under way any longer.
    pub(super) fn run(mut self) -> Tally {
        while !self.is_done() {
            self.service.namespaces.iter_mut().for_each(|namespace| namespace.queues.flush(&mut self.ring));
            if let Err(error) = self.run_once() {
                tracing::error!(%error, "the ring of a vhost-user thread failed; closing its virtqueues");
                break;
            }
        }
        for (vring_index, vring) in self.vrings.iter().enumerate() {
            if let Some(vring) = vring {
                self.ring.unwatch(&vring.kick, vring_index as u32);
            }
        }
        self.service.namespaces.iter_mut().for_each(|namespace| namespace.queues.close(&mut self.ring));
        self.service.tally
    }

    fn run_once(&mut self) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let timeout = self.timeout();
        self.ring.wait(timeout, &mut events)?;
        let now = self.ring.now();
        for namespace in &mut self.service.namespaces {
            namespace.queues.take_in(&mut self.ring, &mut self.scratch, &events, now);
        }
        self.take_ended();
        // Before kicks: a kick that follows a command finds it executed, or follows the answer to it.
        self.commands.begin_turn();
        while let Some(command) = self.commands.take() {
            self.execute(command);
        }
        for event in &events {
            if let Event::Ready { token, .. } = event
                && self.vrings.get(*token as usize).is_some_and(Option::is_some)
            {
                self.ready.add(*token as usize);
            }
        }
        self.events = events;
        if self.service.has_room_again() {
            (0..self.vrings.len()).for_each(|vring_index| self.ready.add(vring_index));
        }
        self.serve();
        Ok(())
    }

    fn take_ended(&mut self) {
        for at in 0..self.service.namespaces.len() {
            while let Some(ended) = self.service.namespaces[at].queues.pop() {
                let user = ended.user();
                let (request, piece) = ((user >> 32) as usize, user & u64::from(u32::MAX));
                let Some(vring_index) = self.service.requests.get(request).map(|request| request.vring)
                else {
                    continue;
                };
                self.ready.add(vring_index);
                if let Some(vring) = &mut self.vrings[vring_index] {
                    self.service.ended(request, piece, ended, vring);
                }
            }
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        let namespaces = &self.service.namespaces;
        let has_turns = !self.ready.is_empty() || self.commands.may_have_more();
        if has_turns
            || self.service.budget.has_news()
            || namespaces.iter().any(|namespace| namespace.queues.has_more())
        {
            return Some(Duration::ZERO);
        }
        let now = self.ring.now();
        let deadlines = namespaces.iter().filter_map(|namespace| namespace.queues.next_deadline());
        deadlines.chain(self.end_at).min().map(|deadline| deadline.since(now))
    }

    /// Serves each virtqueue with pending work. Those with more are served in the next round.
    fn serve(&mut self) {
        let count = self.ready.count();
        for at in 0..count {
            let vring_index = self.ready.take(at);
            let Some(vring) = &mut self.vrings[vring_index] else { continue };
            let wants_more = self.service.serve(vring_index, vring);
            vring.signal();
            if wants_more {
                self.ready.add(vring_index);
            }
            self.end_if_stopped(vring_index);
        }
        self.ready.end_round(count);
    }

    /// Lets a virtqueue go that shall stop, and of which nothing is under way.
    fn end_if_stopped(&mut self, vring_index: usize) {
        let Some(vring) = &self.vrings[vring_index] else { return };
        if vring.stopping.is_none() || vring.requests > 0 {
            return;
        }
        self.ring.unwatch(&vring.kick, vring_index as u32);
        let Some(mut vring) = self.vrings[vring_index].take() else { return };
        vring.part(&mut self.service.budget);
        if let Some(asker) = &vring.stopping {
            let _ = asker.send(vring.stopped());
        }
    }

    fn execute(&mut self, command: VringCommand) {
        match command {
            VringCommand::Start(vring_index, plan) => {
                let mut vring = Vring::new(*plan);
                match self.ring.watch(&vring.kick, vring_index as u32) {
                    Ok(()) => {
                        vring.party = Some(self.service.budget.join(Party::FrontEnd(vring.front_end)));
                        // A process that served it before may have died before it notified the guest.
                        vring.notify();
                        self.vrings[vring_index] = Some(vring);
                    }
                    Err(error) => vring.fail(&error),
                }
                self.ready.add(vring_index);
            }
            VringCommand::Stop(vring_index, is_abandoned, asker) => match &mut self.vrings[vring_index] {
                Some(vring) => {
                    vring.close(is_abandoned);
                    vring.stopping = Some(asker);
                    self.ready.add(vring_index);
                }
                None => {
                    let _ = asker.send(Stopped::default());
                }
            },
            VringCommand::Call(vring_index, call, done) => {
                if let Some(vring) = &mut self.vrings[vring_index] {
                    vring.call = call;
                    // Requests may have been given back while there was none.
                    vring.notify();
                }
                let _ = done.send(());
            }
            VringCommand::Memory(front_end, memory, done) => {
                let vrings = self.vrings.iter_mut().flatten();
                for vring in vrings.filter(|vring| vring.front_end == front_end) {
                    vring.memory = memory.clone();
                }
                let _ = done.send(());
            }
        }
    }

    /// True if the thread may end. Once it is to, no requests are taken, and earlier ones are
    /// answered.
    fn is_done(&mut self) -> bool {
        if !self.stopping.load(Ordering::Acquire) {
            return false;
        }
        if self.end_at.is_none() {
            self.end_at = Some(self.ring.now().after(Duration::from_millis(END_TIMEOUT_MS)));
            for vring_index in 0..self.vrings.len() {
                if let Some(vring) = &mut self.vrings[vring_index] {
                    vring.close(false);
                    self.ready.add(vring_index);
                }
            }
        }
        let is_late = self.end_at.is_some_and(|end_at| self.ring.now() >= end_at);
        is_late || self.vrings.iter().flatten().all(|vring| vring.requests == 0)
    }
}
