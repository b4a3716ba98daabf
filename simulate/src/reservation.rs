//! Holder of the volume's reservation, as far as it is known, and the check that no other host
//! writes meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use engine::ring::Moment;
use engine::simulation::{self, Random, disk::Effect};

use crate::fault::Fault;
use crate::plan::{Mishap, Plan};

/// Scenes of a thousand with gateways and several hosts in which the volume is reserved.
const RESERVED_SHARE: u64 = 400;

/// A time during which one host held the reservation for certain.
#[derive(Clone, Copy, Debug)]
struct Term {
    holder: usize,
    /// From whom it was taken, with the commands that host had under way.
    preempted: Option<usize>,
    from: Moment,
    to: Option<Moment>,
}

/// Knowledge at the time when a write began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    terms: usize,
    holder: Option<usize>,
}

/// The volume's reservation.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    terms: Vec<Term>,
    asked: u64,
    /// Requests that have not ended.
    open: BTreeSet<u64>,
    /// True if success of the last request determines the holder.
    is_alone: bool,
    /// A request of a host that has ended may still be carried out until then.
    doubt_until: Moment,
    preempts: Option<usize>,
    /// The last that took it, whether or not it still has it.
    last: Option<usize>,
    /// True if it outlives its targets.
    is_kept: bool,
}

impl Plan {
    /// Hosts of some scenes with gateways reserve the volume.
    pub(crate) fn reserve_at_gateways(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x3c6e_f372).wrapping_add(29));
        if self.hosts.len() < 2 || !random.chance(RESERVED_SHARE) {
            return;
        }
        self.is_reserved = true;
        for _ in 0..random.between(2, 12) {
            let host = random.below(self.hosts.len() as u64) as usize;
            let at_us = random.between(1_000_000, self.run_ms * 1000);
            self.mishaps.push(Mishap::new(at_us, 0, Fault::Preempt { host }));
        }
        self.mishaps.sort_by_key(|mishap| mishap.at_us);
    }
}

impl Reservation {
    /// No target's end is its own from now on.
    pub(crate) const fn outlives_targets(&mut self) {
        self.is_kept = true;
    }

    fn holder(&self) -> Option<usize> {
        self.terms.last().filter(|term| term.to.is_none()).map(|term| term.holder)
    }

    /// From now on nothing is certain.
    pub(crate) fn ends(&mut self) {
        if let Some(term) = self.terms.last_mut() {
            term.to.get_or_insert(simulation::now());
        }
    }

    /// Records that its target has lost it.
    pub(crate) fn is_forgotten(&mut self) {
        if self.is_kept {
            return;
        }
        self.ends();
        self.last = None;
        self.asked += 1;
    }

    /// Records a request of a host. Returns the request's number, and the host to preempt, as far
    /// as is known. One that `confirms` preempts no host, and succeeds only if the host holds the
    /// reservation.
    pub(crate) fn ask(&mut self, host: usize, confirms: bool) -> (u64, Option<usize>) {
        self.preempts = self.last.filter(|last| *last != host && !confirms);
        // Who takes it from a host that does not have it only ends that one's registration, and that goes well, too.
        let is_known = self.preempts.is_none() || self.preempts == self.holder();
        self.is_alone = self.open.is_empty() && is_known;
        self.ends();
        self.asked += 1;
        self.open.insert(self.asked);
        (self.asked, self.preempts)
    }

    /// A request went well: whether it is certain that its host has the reservation, which it is not if others have asked
    /// meanwhile.
    pub(crate) fn is_taken(&mut self, asked: u64, holder: usize) -> bool {
        self.last = Some(holder);
        self.open.remove(&asked);
        let now = simulation::now();
        let is_certain = asked == self.asked && self.is_alone && now > self.doubt_until;
        if is_certain {
            self.terms.push(Term { holder, preempted: self.preempts, from: now, to: None });
        }
        is_certain
    }

    /// A request did not go well.
    pub(crate) fn is_refused(&mut self, asked: u64) {
        self.open.remove(&asked);
        self.ends();
    }

    /// Marks a request as of unknown outcome until `rest`.
    pub(crate) fn is_unknown(&mut self, asked: u64, rest: Moment) {
        self.open.remove(&asked);
        self.doubt_until = self.doubt_until.max(rest);
        self.ends();
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { terms: self.terms.len(), holder: self.holder() }
    }

    /// Checks a successful write that began with this ticket: no other host may have held the
    /// reservation all the time.
    pub(crate) fn check(&self, host: usize, ticket: &Ticket, name: u64) {
        if let Some(holder) = ticket.holder
            && holder != host
            && self.terms.len() == ticket.terms
            && self.holder() == Some(holder)
        {
            simulation::fail(format!(
                "write {name} of host {host} went well while host {holder} held the reservation"
            ));
        }
    }

    /// Looks whether anything of a host took effect that began while another held the reservation, or that was preempted
    /// and aborted.
    pub(crate) fn check_effects(&self, effects: &[Effect], writers: &BTreeMap<u64, (usize, Moment)>) {
        for effect in effects {
            let Some((writer, begun)) = writers.get(&effect.mark) else { continue };
            let within = |term: &&Term| effect.at > term.from && term.to.is_none_or(|to| effect.at < to);
            let is_shut_out = |term: &&Term| {
                term.holder != *writer && (term.preempted == Some(*writer) || *begun > term.from)
            };
            if let Some(term) = self.terms.iter().filter(within).find(is_shut_out) {
                return simulation::fail(format!(
                    "write {} of host {writer} took effect at {:.6} s, while host {} held the reservation (from {:.6} s)",
                    effect.mark,
                    effect.at.0 as f64 / 1e9,
                    term.holder,
                    term.from.0 as f64 / 1e9
                ));
            }
        }
    }
}
