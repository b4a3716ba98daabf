//! An upgrade of a target: what its two processes have come to, what befalls them, and whether just one of them serves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use engine::simulation::channel::{Receiver, Sender, channel};
use engine::simulation::{self, ProcessId, sleep};
use engine::target::hand_over::Word;

use crate::scene::{Scene, TargetNode};
use crate::upgrade_channel::{self, UpgradeChannel};
use crate::upgrade_plan::{Side, Trouble, When};
use crate::{gateway_succession, succession};

/// The longest that an upgrade may take, whatever befalls it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which the director checks the progress.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which a step waits for a trouble to strike.
const STEP_INTERVAL: Duration = Duration::from_micros(50);

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
    fn new(trouble: Trouble, is_calm: bool, old: ProcessId) -> (Rc<Self>, Receiver<()>) {
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

    pub(crate) fn has_said(&self, side: Side, word: &Word) {
        match word {
            Word::State(state) => {
                let queues =
                    |id| state.target.queues.iter().filter(|queue| queue.controller_id == id).count();
                let all = state.target.controllers.iter();
                *self.handed.borrow_mut() =
                    all.map(|controller| (controller.id, queues(controller.id))).collect();
            }
            Word::Taken(failed) if self.is_calm && !failed.is_empty() => {
                simulation::fail(format!("queues are not taken over: {failed:?}"));
            }
            Word::Go if side == Side::Old => self.old_state.set(State::HasGone),
            _ => {}
        }
    }

    pub(crate) fn has_heard(&self, side: Side, word: &Word) {
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

    fn old_serves(&self) -> bool {
        matches!(self.old_state.get(), State::Open | State::Serves) && !simulation::has_died(self.old)
    }

    fn new_serves(&self) -> bool {
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
                Some(plan) => gateway_succession::live(&scene, number, plan, &theirs, news),
                None => succession::live(&scene, number, &theirs, news),
            }
        });
        upgrade.new.set(Some(new));
        node.upgrade.replace(Some(upgrade.clone()));
        let began = simulation::now();
        let due = match trouble.when() {
            Some(When::Micros(micros)) => Some(began.after(Duration::from_micros(micros))),
            _ => None,
        };
        while !upgrade.is_settled() {
            let now = simulation::now();
            if now > began.after(PATIENCE) {
                simulation::fail("an upgrade does not come to its end");
                return;
            }
            let is_open = due.filter(|_| !upgrade.has_struck.get());
            let wait = is_open.map_or(LOOK_INTERVAL, |due| LOOK_INTERVAL.min(due.since(now)));
            let is_asked = struck.recv_timeout(wait).is_ok();
            if is_asked || is_open.is_some_and(|due| simulation::now() >= due) {
                self.strike(node, &upgrade, new, time);
            }
        }
        self.end_upgrade(number, &upgrade, new, time);
    }

    /// Strikes the upgrade with its trouble.
    fn strike(&self, node: &TargetNode, upgrade: &Upgrade, new: ProcessId, time: Duration) {
        let (at, word) = upgrade.last.get();
        simulation::say(|| format!("{} {at} {word}", upgrade.trouble.name()));
        self.coverage.borrow_mut().upgrade(upgrade.trouble.name(), at, word);
        // The channel has no receiver.
        let lets_go = || {
            if simulation::has_died(upgrade.old) {
                upgrade.channel.replace(None);
            }
        };
        let of = |side| if side == Side::Old { upgrade.old } else { new };
        match upgrade.trouble {
            Trouble::Kill { side, .. } => {
                simulation::kill(of(side));
                if side == Side::Old || upgrade.new_serves() {
                    self.forgets();
                }
                lets_go();
                upgrade.has_struck.set(true);
            }
            Trouble::PowerOff { .. } => {
                simulation::power_off(node.machine);
                self.has_gone(node);
                lets_go();
                upgrade.has_struck.set(true);
            }
            Trouble::Pause { side, .. } => {
                simulation::pause(of(side), true);
                upgrade.has_struck.set(true);
                sleep(time);
                simulation::pause(of(side), false);
            }
            Trouble::Starve { side, .. } => {
                simulation::starve(of(side), true);
                upgrade.has_struck.set(true);
                sleep(time);
                simulation::starve(of(side), false);
            }
            _ => upgrade.has_struck.set(true),
        }
    }

    /// Determines which of the two serves, and restarts the target where both were ended.
    fn end_upgrade(self: &Rc<Self>, number: usize, upgrade: &Rc<Upgrade>, new: ProcessId, time: Duration) {
        let node = &self.targets[number];
        node.upgrade.replace(None);
        let (old_serves, new_serves) = (upgrade.old_serves(), upgrade.new_serves());
        let outcome = match (old_serves, upgrade.new_state.get()) {
            (true, _) => "the old one serves",
            (_, State::Serves) if new_serves => "the new one serves",
            (_, State::ServesAnew) if new_serves => "the new one serves without controllers",
            _ => "both are gone",
        };
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
        for process in [upgrade.old, new] {
            if simulation::has_died(process) {
                simulation::kill(process);
            }
        }
        if old_serves || new_serves {
            return;
        }
        let was_left_alone = match upgrade.trouble {
            Trouble::PowerOff { .. } => false,
            // A gateway that cannot hand over says so, and may die then.
            _ if self.plan.gateways.is_some() && upgrade.was_refused.get() => false,
            Trouble::Kill { side: Side::Old, .. } => {
                upgrade.new_state.get() != State::Ends { is_alone: false }
            }
            // The old one has ended since the new one served.
            Trouble::Kill { side: Side::New, .. } => upgrade.new_state.get() == State::Open,
            _ => true,
        };
        if was_left_alone {
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
