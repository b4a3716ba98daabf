//! Commands that wait for their namespaces' limits: which of them has to, and when to look again.

use std::sync::Arc;

use super::commands::Commands;
use super::context::Context;
use super::request::{Next, State};
use super::throttle::{Throttle, measure};
use crate::ring::{Buffer, Moment};
use crate::target::qos::{Cost, Direction};
use crate::target::served::Namespace;
use crate::target::telemetry::Stage;

impl Commands {
    /// Lets a command wait for its namespace's limits, with the data that it has.
    ///
    /// # Errors
    /// The data back, when it need not wait: then it is not asked again, unless its data still has to say what it costs.
    pub(super) fn is_throttled(
        &mut self,
        index: u16,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Result<(), Option<Buffer>> {
        let request = self.slots.at(index);
        let work = request.work;
        if work.has_ranges_in_data() && data.is_none() {
            // It is asked again when its data has come.
            return Err(data);
        }
        let namespace = request.attachment().map(|attachment| attachment.namespace.clone());
        let place = namespace.and_then(|namespace| {
            let bytes = data.as_deref().unwrap_or_default();
            self.throttle_for(&namespace, measure(&work, bytes, namespace.block_shift())?)
        });
        let Some((at, direction, cost)) = place else {
            self.slots.at(index).is_admitted = true;
            return Err(data);
        };
        self.slots.set(index, State::Throttled { data });
        self.throttles[at].backlogs[direction as usize].push(index, cost);
        self.run_throttles(ctx.now);
        Ok(())
    }

    /// Throttle that a command with this cost waits in; `None` when no limit applies to it.
    fn throttle_for(
        &mut self,
        namespace: &Arc<Namespace>,
        (direction, cost): (Direction, Cost),
    ) -> Option<(usize, Direction, Cost)> {
        let known = self.throttles.iter().position(|throttle| Arc::ptr_eq(&throttle.namespace, namespace));
        let at = known.unwrap_or_else(|| {
            self.throttles.push(Throttle::new(namespace));
            self.throttles.len() - 1
        });
        let throttle = &mut self.throttles[at];
        let is_free =
            !throttle.view.is_limited(direction, cost) && throttle.backlogs[direction as usize].is_empty();
        (!is_free).then_some((at, direction, cost))
    }

    /// Lets go on what the limits let through now, and asks to be woken for the rest.
    pub(crate) fn run_throttles(&mut self, now: Moment) {
        let mut wake: Option<u64> = None;
        for throttle in &mut self.throttles {
            for backlog in &mut throttle.backlogs {
                while let Some(index) = backlog.take(&mut throttle.view, now.0) {
                    self.admitted.push_back(index);
                }
                wake = wake.into_iter().chain(backlog.wake_ns(now.0)).min();
            }
        }
        if let Some(wake) = wake {
            self.wake_at(Moment(wake), now);
        }
    }

    /// Lets go on what waits for limits: the queue is to come to rest, and no limit is worth a pause of all hosts.
    pub(crate) fn lift_limits(&mut self, now: Moment) {
        for throttle in &mut self.throttles {
            for backlog in &mut throttle.backlogs {
                while let Some(index) = backlog.take_at_once(&mut throttle.view, now.0) {
                    self.admitted.push_back(index);
                }
            }
        }
    }

    /// Goes on with a command that the limits have let through.
    pub(super) fn go_on_admitted(&mut self, index: u16, ctx: &mut Context<'_>) -> Next {
        let Some(State::Throttled { .. }) = self.slots.get(index).map(|request| &request.state) else {
            return Next::Nothing;
        };
        let request = self.slots.at(index);
        request.is_admitted = true;
        request.goes_on_after(Stage::Limits, ctx.now);
        match self.slots.take_data(index) {
            None => self.go_on_without_data(index, ctx),
            data => self.go_on(index, data, ctx),
        }
    }

    /// Asks for a turn at `moment`, unless an earlier one comes anyway.
    fn wake_at(&mut self, moment: Moment, now: Moment) {
        if self.alarm.is_none_or(|alarm| alarm <= now || alarm > moment) {
            self.alarm = Some(moment);
            self.new_alarm = Some(moment);
        }
    }

    /// Takes the command in a slot out of the throttle it waits in.
    pub(super) fn leave_throttle(&mut self, index: u16) {
        self.admitted.retain(|admitted| *admitted != index);
        for Throttle { view, backlogs, .. } in &mut self.throttles {
            for backlog in backlogs {
                if backlog.remove(view, |waiting| *waiting == index).is_some() {
                    return;
                }
            }
        }
    }

    /// Forgets throttles in which nothing waits.
    pub(crate) fn trim_throttles(&mut self) {
        self.throttles.retain(|throttle| throttle.backlogs.iter().any(|backlog| !backlog.is_empty()));
    }
}
