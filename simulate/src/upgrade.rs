//! An upgrade of a target: what its two processes have come to, what befalls them, and whether just one of them serves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use engine::hand_over::{Protocol, Word};
use engine::simulation::channel::{Receiver, Sender, channel};
use engine::simulation::{self, ProcessId, sleep};
use engine::target::hand_over::TargetProtocol;

use crate::coverage::Coverage;
use crate::scene::{Scene, TargetNode};
use crate::upgrade_channel::{self, UpgradeChannel};
use crate::upgrade_plan::{Side, Trouble, When};
use crate::{gateway_hand_over, hand_over};

/// The longest that an upgrade may take, whatever befalls it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which the director checks the progress.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which a step waits for a trouble to strike.
const STEP_INTERVAL: Duration = Duration::from_micros(50);

/// Hand-over that is played.
pub(crate) trait Played: Protocol {
    /// Controllers that are handed over, with the number of their queues.
    fn handed(_state: &Self::State) -> Vec<(u16, usize)> {
        Vec::new()
    }
}

impl Played for TargetProtocol {
    fn handed(state: &Self::State) -> Vec<(u16, usize)> {
        let queues = |id| state.target.queues.iter().filter(|queue| queue.controller_id == id).count();
        state.target.controllers.iter().map(|controller| (controller.id, queues(controller.id))).collect()
    }
}

/// State of a process in an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The process has not decided.
    Open,
    /// The old one has said that it will not go on.
    HasGone,
    /// The process serves: the old one again, or the new one with the state that it has taken
    /// over.
    Serves,
    /// The new process serves the old one's configuration, without its controllers.
    ServesAnew,
    /// The process ends; the flag is set if the other one had died by then.
    Ends { is_alone: bool },
}

/// An upgrade.
pub(crate) struct Upgrade {
    pub(crate) trouble: Trouble,
    /// Set if no mishap of the scene is visible to hosts.
    is_calm: bool,
    pub(crate) old: ProcessId,
    new: Cell<Option<ProcessId>>,
    old_state: Cell<State>,
    new_state: Cell<State>,
    /// The old process' end of the channel, until it takes it.
    pub(crate) channel: RefCell<Option<UpgradeChannel>>,
    steps: Cell<u32>,
    /// The last step: where in which word.
    last: Cell<(&'static str, &'static str)>,
    strikes: Sender<()>,
    has_struck: Cell<bool>,
    has_hung_up: Cell<bool>,
    /// The new process has heard that the old one goes on.
    was_refused: Cell<bool>,
    /// The controllers that were handed over, with the number of their queues.
    handed: RefCell<Vec<(u16, usize)>>,
}

impl Upgrade {
    pub(crate) fn new(trouble: Trouble, is_calm: bool, old: ProcessId) -> (Rc<Self>, Receiver<()>) {
        let (strikes, struck) = channel();
        let upgrade = Rc::new(Self {
            trouble,
            is_calm,
            old,
            new: Cell::new(None),
            old_state: Cell::new(State::Open),
            new_state: Cell::new(State::Open),
            channel: RefCell::default(),
            steps: Cell::new(0),
            last: Cell::new(("before", "Hello")),
            strikes,
            has_struck: Cell::new(false),
            has_hung_up: Cell::new(false),
            was_refused: Cell::new(false),
            handed: RefCell::default(),
        });
        (upgrade, struck)
    }

    /// Records that one of the two is at a step. True if its word is damaged.
    pub(crate) fn step(&self, side: Side, at: &'static str, word: &'static str) -> bool {
        let number = self.steps.get();
        self.steps.set(number + 1);
        self.last.set((at, word));
        simulation::say(|| format!("{side:?} process: {at} {word}"));
        if self.has_struck.get() || self.trouble.when() != Some(When::Step(number)) {
            return false;
        }
        let is_damage = matches!(self.trouble, Trouble::Damage { .. });
        if matches!(self.trouble, Trouble::Hangup { .. }) {
            self.has_hung_up.set(true);
        }
        // The director does it meanwhile.
        let _ = self.strikes.send(());
        while !self.has_struck.get() {
            sleep(STEP_INTERVAL);
        }
        is_damage
    }

    pub(crate) fn has_hung_up(&self) -> bool {
        self.has_hung_up.get()
    }

    pub(crate) fn has_said<P: Played>(&self, side: Side, word: &Word<P>) {
        match word {
            Word::State(state) => *self.handed.borrow_mut() = P::handed(state),
            Word::Taken(failed) if self.is_calm && !failed.is_empty() => {
                simulation::fail(format!("{failed:?} are not taken over"));
            }
            Word::Go if side == Side::Old => self.old_state.set(State::HasGone),
            _ => {}
        }
    }

    pub(crate) fn has_heard<P: Protocol>(&self, side: Side, word: &Word<P>) {
        simulation::say(|| format!("{side:?} process has heard {}", upgrade_channel::name(word)));
        if side == Side::New && matches!(word, Word::Refused(_)) {
            self.was_refused.set(true);
        }
    }

    /// Records the state of the old process. It must not serve if the new one does.
    pub(crate) fn old_is(&self, state: State) {
        simulation::say(|| format!("the old process: {state:?}"));
        self.old_state.set(state);
        self.check();
    }

    /// The same of the new process.
    pub(crate) fn new_is(&self, state: State) {
        simulation::say(|| format!("the new process: {state:?}"));
        self.new_state.set(state);
        self.check();
    }

    /// The new process.
    pub(crate) const fn new_process(&self) -> Option<ProcessId> {
        self.new.get()
    }

    /// State of the old process.
    pub(crate) fn old_state(&self) -> State {
        self.old_state.get()
    }

    pub(crate) fn old_serves(&self) -> bool {
        matches!(self.old_state.get(), State::Open | State::Serves) && !simulation::has_died(self.old)
    }

    pub(crate) fn new_serves(&self) -> bool {
        let has_died = self.new.get().is_none_or(simulation::has_died);
        matches!(self.new_state.get(), State::Serves | State::ServesAnew) && !has_died
    }

    fn check(&self) {
        if self.old_serves() && self.new_serves() {
            simulation::fail("both processes of an upgrade serve");
        }
    }

    /// The new process has these controllers, with the number of their queues: at least those that were handed over.
    pub(crate) fn check_controllers(&self, now: &BTreeMap<u16, usize>) {
        let is_there = |(id, queues): &(u16, usize)| now.get(id).is_some_and(|now| now >= queues);
        let handed = &*self.handed.borrow();
        if self.old_state.get() == State::HasGone && !handed.iter().all(is_there) {
            simulation::fail(format!("{handed:?} were handed over, and {now:?} are there"));
        }
    }

    /// Waits until it is known which of the two serves, and has the trouble `strike` in its time.
    pub(crate) fn settle(&self, struck: &Receiver<()>, mut strike: impl FnMut()) {
        let began = simulation::now();
        let due = match self.trouble.when() {
            Some(When::Micros(micros)) => Some(began.after(Duration::from_micros(micros))),
            _ => None,
        };
        while !self.is_settled() {
            let now = simulation::now();
            if now > began.after(PATIENCE) {
                return simulation::fail("an upgrade does not come to its end");
            }
            let is_open = due.filter(|_| !self.has_struck.get());
            let wait = is_open.map_or(LOOK_INTERVAL, |due| LOOK_INTERVAL.min(due.since(now)));
            let is_asked = struck.recv_timeout(wait).is_ok();
            if is_asked || is_open.is_some_and(|due| simulation::now() >= due) {
                strike();
            }
        }
    }

    /// Strikes with a trouble of one process, for this time. `killed` is called when one has been killed.
    pub(crate) fn strike(&self, time: Duration, killed: impl FnOnce(Side)) {
        let of = |side| match side {
            Side::Old => self.old,
            Side::New => self.new.get().unwrap_or(self.old),
        };
        match self.trouble {
            Trouble::Kill { side, .. } => {
                simulation::kill(of(side));
                killed(side);
                self.lets_go();
                self.has_struck.set(true);
            }
            Trouble::Pause { side, .. } => {
                simulation::pause(of(side), true);
                self.has_struck.set(true);
                sleep(time);
                simulation::pause(of(side), false);
            }
            Trouble::Starve { side, .. } => {
                simulation::starve(of(side), true);
                self.has_struck.set(true);
                sleep(time);
                simulation::starve(of(side), false);
            }
            _ => self.has_struck.set(true),
        }
    }

    /// Records what strikes at which step.
    pub(crate) fn cover(&self, coverage: &mut Coverage) {
        let (at, word) = self.last.get();
        simulation::say(|| format!("{} {at} {word}", self.trouble.name()));
        coverage.upgrade(self.trouble.name(), at, word);
    }

    /// Drops the old process' end of the channel if that process has died before it took it.
    pub(crate) fn lets_go(&self) {
        if simulation::has_died(self.old) {
            self.channel.replace(None);
        }
    }

    /// Sets the new process.
    pub(crate) fn is_new(&self, new: ProcessId) {
        self.new.set(Some(new));
    }

    /// Outcome, for tables.
    pub(crate) fn outcome(&self) -> &'static str {
        match (self.old_serves(), self.new_state.get()) {
            (true, _) => "the old one serves",
            (_, State::Serves) if self.new_serves() => "the new one serves",
            (_, State::ServesAnew) if self.new_serves() => "the new one serves without controllers",
            _ => "both are gone",
        }
    }

    /// True if both processes are gone although no more than one was ended.
    pub(crate) fn was_left_alone(&self) -> bool {
        match self.trouble {
            Trouble::PowerOff { .. } => false,
            Trouble::Kill { side: Side::Old, .. } => self.new_state.get() != State::Ends { is_alone: false },
            // The old one has ended since the new one served.
            Trouble::Kill { side: Side::New, .. } => self.new_state.get() == State::Open,
            _ => true,
        }
    }

    /// Unwinds processes that have died.
    pub(crate) fn bury(&self) {
        for process in [Some(self.old), self.new.get()].into_iter().flatten() {
            if simulation::has_died(process) {
                simulation::kill(process);
            }
        }
    }

    /// True if it is known which of them serves.
    fn is_settled(&self) -> bool {
        let new = self.new.get().is_none_or(simulation::has_died) || self.new_state.get() != State::Open;
        let old = simulation::has_died(self.old) || self.old_state.get() == State::Serves;
        new && old
    }
}

impl Scene {
    /// A target is upgraded.
    pub(crate) fn upgrade(self: &Rc<Self>, number: usize, trouble: Trouble, time: Duration) {
        let node = &self.targets[number];
        let (upgrade, struck) = Upgrade::new(trouble, self.plan.is_calm(), node.process.get());
        let (olds, news) = UpgradeChannel::pair(&upgrade);
        upgrade.channel.replace(Some(olds));
        let (scene, theirs) = (self.clone(), upgrade.clone());
        let new = simulation::start_process(&format!("target{number}"), node.machine, move || {
            match &scene.plan.gateways {
                Some(plan) => gateway_hand_over::live(&scene, number, plan, &theirs, news),
                None => hand_over::live(&scene, number, &theirs, news),
            }
        });
        upgrade.is_new(new);
        node.upgrade.replace(Some(upgrade.clone()));
        upgrade.settle(&struck, || self.strike(node, &upgrade, time));
        self.end_upgrade(number, &upgrade, new, time);
    }

    /// Strikes the upgrade with its trouble.
    fn strike(&self, node: &TargetNode, upgrade: &Upgrade, time: Duration) {
        upgrade.cover(&mut self.coverage.borrow_mut());
        if matches!(upgrade.trouble, Trouble::PowerOff { .. }) {
            simulation::power_off(node.machine);
            self.has_gone(node);
            upgrade.lets_go();
            return upgrade.has_struck.set(true);
        }
        upgrade.strike(time, |side| {
            if side == Side::Old || upgrade.new_serves() {
                self.forgets();
            }
        });
    }

    /// Determines which of the two serves, and restarts the target where both were ended.
    fn end_upgrade(self: &Rc<Self>, number: usize, upgrade: &Rc<Upgrade>, new: ProcessId, time: Duration) {
        let node = &self.targets[number];
        node.upgrade.replace(None);
        let (old_serves, new_serves) = (upgrade.old_serves(), upgrade.new_serves());
        let outcome = upgrade.outcome();
        simulation::say(|| format!("the upgrade is over: {outcome}"));
        self.coverage.borrow_mut().outcome(upgrade.trouble.name(), outcome);
        let should_serve = matches!(upgrade.trouble, Trouble::None);
        if self.plan.is_calm() && should_serve && !new_serves {
            return simulation::fail("an upgrade fails for no reason");
        }
        if new_serves && upgrade.trouble.is_foreign() {
            return simulation::fail("a hand-over was taken that is not one of this version");
        }
        upgrade.channel.replace(None);
        if new_serves {
            // A later upgrade is its own, also before the old process has ended.
            node.process.set(new);
        }
        let left = simulation::open_connections(upgrade.old);
        if new_serves && left > 0 {
            return simulation::fail(format!("the old process has left {left} connections open"));
        }
        upgrade.bury();
        if old_serves || new_serves {
            return;
        }
        // A gateway that cannot hand over says so, and may die then.
        let is_refused = self.plan.gateways.is_some() && upgrade.was_refused.get();
        if upgrade.was_left_alone() && !is_refused {
            return simulation::fail("neither process of an upgrade serves");
        }
        self.has_gone(node);
        sleep(time);
        if matches!(upgrade.trouble, Trouble::PowerOff { .. }) {
            simulation::power_on(node.machine);
        }
        self.start_target(number);
    }
}
