//! A thread that serves virtqueues: its loop round the ring, the queues of all namespaces and the virtqueues.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use engine::initiator::Paths;
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Event, Moment, Ring, Waker};

use super::device::Device;
use super::guest_memory::Memory;
use super::namespace::Namespace;
use super::service::Service;
use super::vring::{self, Stopped, Vring};
use crate::disk_queues::DiskQueues;
use crate::limits::{END_TIMEOUT_MS, VRINGS_MAX};
use crate::server::Tally;
use crate::turns::Turns;

/// Order to a thread that serves virtqueues, from the one that hears their front end. A virtqueue
/// is named by its place: that of its front end among all, times `VRINGS_MAX`, and its number.
pub(super) enum Order {
    /// A virtqueue begins.
    Start(usize, Box<vring::Plan>),
    /// End a virtqueue, and report its position when nothing of it is under way. If its front end
    /// is gone (`true`), the guest gets no notifications.
    Stop(usize, bool, Sender<Stopped>),
    /// Descriptor by which the guest is notified.
    Call(usize, Option<Arc<OwnedFd>>),
    /// The memory of a front end has changed.
    Memory(usize, Arc<Memory>),
}

/// A thread, as those that hear front ends know it.
#[derive(Clone)]
pub(super) struct Hand {
    pub(super) orders: Sender<Order>,
    pub(super) waker: Waker,
}

impl Hand {
    /// Gives an order. A thread that is gone takes none.
    pub(super) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
        self.waker.wake();
    }
}

/// Parts of a thread.
pub(super) struct Plan {
    pub(super) disks: Vec<(Arc<Paths>, Device)>,
    pub(super) number: u16,
    pub(super) count: u16,
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) orders: Receiver<Order>,
}

pub(super) struct Worker {
    ring: Ring,
    service: Service,
    /// By their places, which are the tokens of their kicks.
    vrings: Vec<Option<Vring>>,
    /// Of virtqueues, by place.
    turns: Turns,
    orders: Receiver<Order>,
    stopping: Arc<AtomicBool>,
    /// Time at which a thread that is to end does so whatever is under way.
    end_at: Option<Moment>,
    events: Vec<Event>,
    scratch: Vec<u8>,
}

impl Worker {
    pub(super) fn open(mut ring: Ring, plan: Plan) -> Self {
        let places = plan.disks.len() * VRINGS_MAX;
        let (number, count) = (plan.number, plan.count);
        let tokens = (places as u32..).step_by(DiskQueues::TOKENS as usize);
        let open = |(known, token)| Namespace::open(known, &mut ring, token, (number, count));
        let namespaces = plan.disks.iter().zip(tokens).map(open).collect();
        Self {
            service: Service::new(namespaces),
            ring,
            vrings: (0..places).map(|_| None).collect(),
            turns: Turns::new(places),
            orders: plan.orders,
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
            if let Err(error) = self.turn() {
                tracing::error!(%error, "the ring of a vhost-user thread failed; closing its virtqueues");
                break;
            }
        }
        for (place, vring) in self.vrings.iter().enumerate() {
            if let Some(vring) = vring {
                self.ring.unwatch(&vring.kick, place as u32);
            }
        }
        self.service.namespaces.iter_mut().for_each(|namespace| namespace.queues.close(&mut self.ring));
        self.service.tally
    }

    fn turn(&mut self) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let timeout = self.timeout();
        self.ring.wait(timeout, &mut events)?;
        let now = self.ring.now();
        for namespace in &mut self.service.namespaces {
            namespace.queues.take_in(&mut self.ring, &mut self.scratch, &events, now);
        }
        self.take_ended();
        // Before kicks: one that follows an order finds it carried out.
        while let Ok(order) = self.orders.try_recv() {
            self.carry_out(order);
        }
        for event in &events {
            if let Event::Ready { token, .. } = event
                && self.vrings.get(*token as usize).is_some_and(Option::is_some)
            {
                self.turns.add(*token as usize);
            }
        }
        self.events = events;
        let has_room = self.service.namespaces.iter().any(|namespace| namespace.queues.has_room());
        if self.service.is_short_of_room && has_room {
            self.service.is_short_of_room = false;
            (0..self.vrings.len()).for_each(|place| self.turns.add(place));
        }
        self.serve();
        Ok(())
    }

    fn take_ended(&mut self) {
        for at in 0..self.service.namespaces.len() {
            while let Some(ended) = self.service.namespaces[at].queues.pop() {
                let user = ended.user();
                let (request, piece) = ((user >> 32) as usize, user & u64::from(u32::MAX));
                let Some(place) = self.service.requests.get(request).map(|request| request.vring) else {
                    continue;
                };
                self.turns.add(place);
                if let Some(vring) = &mut self.vrings[place] {
                    self.service.ended(request, piece, ended, vring);
                }
            }
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        let namespaces = &self.service.namespaces;
        if !self.turns.is_empty() || namespaces.iter().any(|namespace| namespace.queues.has_more()) {
            return Some(Duration::ZERO);
        }
        let now = self.ring.now();
        let deadlines = namespaces.iter().filter_map(|namespace| namespace.queues.next_deadline());
        deadlines.chain(self.end_at).min().map(|deadline| deadline.since(now))
    }

    /// Gives each virtqueue its turn that something has happened to. Those that want another one get it in the next round.
    fn serve(&mut self) {
        let count = self.turns.count();
        for at in 0..count {
            let place = self.turns.begin(at);
            let Some(vring) = &mut self.vrings[place] else { continue };
            let wants_more = self.service.serve(place, vring);
            vring.signal();
            if wants_more {
                self.turns.add(place);
            }
            self.end_if_stopped(place);
        }
        self.turns.end(count);
    }

    /// Lets a virtqueue go that shall stop, and of which nothing is under way.
    fn end_if_stopped(&mut self, place: usize) {
        let Some(vring) = &self.vrings[place] else { return };
        if vring.stopping.is_none() || vring.requests > 0 {
            return;
        }
        self.ring.unwatch(&vring.kick, place as u32);
        if let Some(vring) = self.vrings[place].take()
            && let Some(asker) = &vring.stopping
        {
            let _ = asker.send(vring.stopped());
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Start(place, plan) => {
                let mut vring = Vring::new(*plan);
                match self.ring.watch(&vring.kick, place as u32) {
                    Ok(()) => self.vrings[place] = Some(vring),
                    Err(error) => vring.fail(&error),
                }
                self.turns.add(place);
            }
            Order::Stop(place, is_abandoned, asker) => match &mut self.vrings[place] {
                Some(vring) => {
                    vring.close(is_abandoned);
                    vring.stopping = Some(asker);
                    self.turns.add(place);
                }
                None => {
                    let _ = asker.send(Stopped::default());
                }
            },
            Order::Call(place, call) => {
                if let Some(vring) = &mut self.vrings[place] {
                    vring.call = call;
                }
            }
            Order::Memory(front_end, memory) => {
                let vrings = self.vrings.iter_mut().flatten();
                for vring in vrings.filter(|vring| vring.front_end == front_end) {
                    vring.memory = memory.clone();
                }
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
            for place in 0..self.vrings.len() {
                if let Some(vring) = &mut self.vrings[place] {
                    vring.close(false);
                    self.turns.add(place);
                }
            }
        }
        let is_late = self.end_at.is_some_and(|end_at| self.ring.now() >= end_at);
        is_late || self.vrings.iter().flatten().all(|vring| vring.requests == 0)
    }
}
