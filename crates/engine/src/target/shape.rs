//! Commands that wait for a namespace's limits: each connection has lanes of its own, and a time at which to look again.
//! When a command may start is the shaper's decision.

use std::sync::Arc;

use super::connection::{Connection, Environment};
use super::namespace::Namespace;
use super::qos::{Direction, Lane, ShaperView};
use super::slot::{Stage, Work};
use crate::ring::Moment;

/// The lanes of one connection for one namespace.
#[derive(Debug)]
pub(super) struct Lanes {
    namespace: Arc<Namespace>,
    view: ShaperView,
    lanes: [Lane<u16>; 2],
}

impl Lanes {
    fn new(namespace: &Arc<Namespace>) -> Self {
        Self {
            namespace: namespace.clone(),
            view: ShaperView::new(namespace.shaper.clone()),
            lanes: [Lane::new(Direction::Read), Lane::new(Direction::Write)],
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // What was entered for commands that never start is given back to the others.
        for lane in &mut self.lanes {
            lane.close(&mut self.view).for_each(drop);
        }
    }
}

/// Which limits a command comes under, and with how many bytes.
fn measure(work: &Work) -> Option<(Direction, u64)> {
    match work {
        Work::Read { range } | Work::Compare { range } | Work::Verify { range } => {
            Some((Direction::Read, range.length))
        }
        Work::Write { range, .. } => Some((Direction::Write, range.length)),
        // These move no data of the host's; they count as commands.
        Work::Zero { .. } | Work::Spoil { .. } | Work::Deallocate { .. } | Work::Copy { .. } => {
            Some((Direction::Write, 0))
        }
        Work::Free | Work::Flush | Work::Reservation { .. } | Work::Admin => None,
    }
}

impl Connection {
    /// Lets the command in a slot wait for its namespace's limits; `false` when none applies to it.
    pub(super) fn wait_for_limits(
        &mut self,
        index: u16,
        namespace: &Arc<Namespace>,
        env: &mut Environment<'_>,
    ) -> bool {
        let Some((direction, bytes)) = measure(&self.slots.at(index).work) else { return false };
        let known = self.lanes.iter().position(|lanes| Arc::ptr_eq(&lanes.namespace, namespace));
        let at = known.unwrap_or_else(|| {
            self.lanes.push(Lanes::new(namespace));
            self.lanes.len() - 1
        });
        let lanes = &mut self.lanes[at];
        if !lanes.view.is_limited(direction) && lanes.lanes[direction as usize].is_empty() {
            return false;
        }
        self.slots.at(index).stage = Stage::Limits;
        self.lanes[at].lanes[direction as usize].push(index, bytes);
        self.run_lanes(env);
        true
    }

    /// Starts what the limits let through now, and asks to be woken for the rest.
    pub(super) fn run_lanes(&mut self, env: &mut Environment<'_>) {
        let mut wake: Option<u64> = None;
        for at in 0..self.lanes.len() {
            for lane in 0..2 {
                while let Some(index) = {
                    let Lanes { view, lanes, .. } = &mut self.lanes[at];
                    lanes[lane].take(view, env.now.0)
                } {
                    self.slots.at(index).admitted = true;
                    self.go_on(index, env);
                }
                let next = self.lanes[at].lanes[lane].wake_ns(env.now.0);
                wake = wake.into_iter().chain(next).min();
            }
        }
        if let Some(wake) = wake {
            self.wake_at(Moment(wake), env);
        }
    }

    /// Asks the reactor for a turn at `moment`, unless an earlier one comes anyway.
    fn wake_at(&mut self, moment: Moment, env: &mut Environment<'_>) {
        if self.timer.is_none_or(|timer| timer <= env.now || timer > moment) {
            self.timer = Some(moment);
            env.timers.push(std::cmp::Reverse((moment, self.token, self.serial)));
        }
    }

    /// Takes the command in a slot out of the lane it waits in.
    pub(super) fn leave_lane(&mut self, index: u16) {
        for Lanes { view, lanes, .. } in &mut self.lanes {
            for lane in lanes {
                if lane.remove(view, |waiting| *waiting == index).is_some() {
                    return;
                }
            }
        }
    }

    /// Forgets lanes in which nothing waits.
    pub(super) fn trim_lanes(&mut self) {
        self.lanes.retain(|lanes| lanes.lanes.iter().any(|lane| !lane.is_empty()));
    }
}
