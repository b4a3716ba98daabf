//! What befalls the volume's storage, and whether the targets know of what was late there.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use engine::simulation::disk::{self, Mood};
use engine::simulation::{self, sleep};

use crate::fault::Fault;
use crate::plan::Mishap;
use crate::scene::{Scene, TargetNode, VOLUME};
use crate::target;

/// The number of operations in a thousand that are late on a late storage.
const LATE: u64 = 150;
/// By how much they are late at the most, in microseconds: longer than hosts wait for a lost controller's commands.
const LATE_US_MAX: u64 = 8_000_000;
/// Least time by which those are later than promised, and precision of a target, which looks at its
/// clock once a round.
const LATE_MARGIN: Duration = Duration::from_millis(20);
/// Limit on the time in which a target sees that an operation under way is late.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Number of times that a full storage gets some room.
const FILLINGS: u32 = 4;
/// A target takes a configuration by then, also one that first waits for a new process which is never ready.
const APPLY_PATIENCE: Duration = Duration::from_secs(100);
/// Longest time a slow storage takes, as part of the time after which targets promise rest.
const SLOW_SHARE: u64 = 3;

/// Shortest and longest time of a late operation, in microseconds.
const fn late_us(quiesce_ms: u16) -> (u64, u64) {
    let quiesce_us = quiesce_ms as u64 * 1000;
    (quiesce_us + 100_000, quiesce_us + LATE_US_MAX)
}

impl Scene {
    pub(crate) fn befall_storage(self: &Rc<Self>, fault: Fault, time: Duration) {
        let volume = Path::new(VOLUME);
        let slow = u64::from(self.plan.quiesce_ms) * 1000 / SLOW_SHARE;
        let usual = self.usual_mood();
        let mood = match fault {
            Fault::SlowStorage => Mood { delay_us: (slow / 4, slow), ..usual },
            Fault::FailingStorage => Mood { failures: 200, ..usual },
            Fault::LosingStorage => Mood { lossy_syncs: 300, ..usual },
            Fault::FullStorage => Mood { is_full: true, ..usual },
            Fault::LateStorage => Mood { late: LATE, late_us: late_us(self.plan.quiesce_ms), ..usual },
            Fault::FillingStorage { copies_on_write } => {
                self.cover(fault);
                return self.fill(copies_on_write, time);
            }
            Fault::Grow => {
                self.cover(fault);
                return self.grow();
            }
            _ => return self.lose_power(time),
        };
        self.cover(fault);
        self.storage_is_bad.set(mood.failures > 0 || mood.lossy_syncs > 0);
        disk::set_mood(volume, mood);
        sleep(time);
        disk::set_mood(volume, usual);
        self.storage_is_bad.set(false);
    }

    /// Behaviour of the storage without a fault.
    pub(crate) fn usual_mood(&self) -> Mood {
        Mood { short_moves: self.plan.short_moves, ..Mood::default() }
    }

    /// The storage has room for some blocks, and some more after a while.
    fn fill(&self, copies_on_write: bool, time: Duration) {
        let mut random = simulation::fork_random();
        for _ in 0..FILLINGS {
            let room_blocks = Some(random.below(self.plan.blocks as u64));
            disk::set_mood(Path::new(VOLUME), Mood { room_blocks, copies_on_write, ..self.usual_mood() });
            sleep(time / FILLINGS);
        }
        disk::set_mood(Path::new(VOLUME), self.usual_mood());
    }

    /// A target that is about to end has counted the operations that were late, and no others.
    pub(crate) fn check_lateness(&self, target: usize, counted: u64) {
        let quiesce = Duration::from_millis(self.plan.quiesce_ms.into());
        let process = self.targets[target].process.get();
        let stays = disk::stays(Path::new(VOLUME));
        let own = stays.iter().filter(|stay| stay.process == process);
        // A shutdown's sync does not belong to a command, and what is under way is checked only now and then.
        let is_sure = |stay: &&disk::Stay| {
            let margin = if stay.is_pending { LOOK_INTERVAL_MAX } else { LATE_MARGIN };
            stay.took > quiesce + margin && !stay.is_sync
        };
        let least = own.clone().filter(is_sure).count() as u64;
        let most = own.filter(|stay| stay.took + LATE_MARGIN > quiesce).count() as u64;
        // A target that stood still finds late what has ended meanwhile.
        let pauses = |mishap: &Mishap| mishap.fault.pauses_target();
        if counted < least || (counted > most && !self.plan.mishaps.iter().any(pauses)) {
            simulation::fail(format!(
                "a target has counted {counted} late operations, and {least} to {most} were later than {quiesce:?}"
            ));
        }
    }

    fn lose_power(self: &Rc<Self>, time: Duration) {
        if self.targets.iter().any(Self::is_changing) {
            return;
        }
        self.cover(Fault::StorageLosesPower);
        for (number, node) in self.targets.iter().enumerate() {
            node.is_busy.set(true);
            node.set_down(true);
            self.kill_target(number);
        }
        self.look_at_effects();
        disk::lose_power(Path::new(VOLUME));
        if let Some(content) = disk::content(Path::new(VOLUME)) {
            self.history.borrow_mut().lose_power(&content);
        }
        sleep(time);
        for (number, node) in self.targets.iter().enumerate() {
            self.start_target(number);
            node.set_down(false);
            node.is_busy.set(false);
        }
    }

    fn grow(&self) {
        if self.targets.iter().any(|node| node.is_busy.get()) {
            return;
        }
        self.targets.iter().for_each(|node| node.is_busy.set(true));
        let is_applied = |node: &TargetNode| node.applied.get() >= node.generation.get();
        let are_applied = || self.targets.iter().all(is_applied);
        // A namespace that was away may not be back yet, and only one that is there can grow.
        if !self.wait_for(APPLY_PATIENCE, are_applied) {
            return simulation::fail("a target does not take its configuration");
        }
        let blocks = self.history.borrow().block_count() as usize + self.plan.blocks;
        for number in 0..self.targets.len() {
            self.change(number, |config| {
                target::resize(config, (blocks * self.plan.block_size) as u64);
            });
        }
        if !self.wait_for(APPLY_PATIENCE, are_applied) {
            return simulation::fail("a target does not take its new configuration");
        }
        self.history.borrow_mut().grow(blocks);
        self.targets.iter().for_each(|node| node.is_busy.set(false));
    }
}
