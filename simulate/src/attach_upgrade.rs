//! An upgrade of the disk's process: the director starts the new process, has something befall either, and determines which of
//! them serves.

use std::rc::Rc;
use std::time::Duration;

use engine::simulation::{self, sleep};

use crate::attach;
use crate::attach_hand_over;
use crate::disk_node::DiskNode;
use crate::disk_plan::FrontEnd;
use crate::fault::Fate;
use crate::hand_over::has_died_within;
use crate::scene::Scene;
use crate::upgrade::{State, Upgrade};
use crate::upgrade_channel::UpgradeChannel;
use crate::upgrade_plan::{Side, Trouble};

/// Limit on the time in which a process ends that does not serve: where nothing else happens, and otherwise.
const END_ALONE: Duration = Duration::from_millis(4_500);
const END: Duration = Duration::from_secs(60);

impl Scene {
    /// The disk's process is upgraded.
    pub(crate) fn upgrade_attach(self: &Rc<Self>, node: &DiskNode, trouble: Trouble, time: Duration) {
        let (old_life, new_life) = (node.life.get(), node.next_life());
        let (upgrade, struck) = Upgrade::new(trouble, self.plan.keeps_clients(), node.process.get());
        let (olds, news) = UpgradeChannel::pair(&upgrade);
        upgrade.channel.replace(Some(olds));
        let (scene, theirs) = (self.clone(), upgrade.clone());
        let new = simulation::start_process(attach::PROCESS, node.machine, move || {
            attach_hand_over::live(&scene, new_life, &theirs, news);
        });
        upgrade.is_new(new);
        node.upgrade.replace(Some(upgrade.clone()));
        upgrade.settle(&struck, || {
            upgrade.cover(&mut self.coverage.borrow_mut());
            upgrade.strike(time, |side| {
                let life = if side == Side::Old { old_life } else { new_life };
                node.folder.abandon(life, Fate::Stays);
                let again = node.layer.borrow_mut().abandon(life, &mut simulation::fork_random());
                node.count("requests issued again", again);
            });
        });
        node.upgrade.replace(None);
        upgrade.channel.replace(None);
        // A process that does not serve removes its records, and touches no client.
        let end = if self.plan.is_of_upgrades_alone() { END_ALONE } else { END };
        if !upgrade.new_serves() && !has_died_within(new, end) {
            return simulation::fail("a process that does not take a disk over does not end");
        }
        let (old_serves, new_serves) = (upgrade.old_serves(), upgrade.new_serves());
        let outcome = upgrade.outcome();
        simulation::say(|| format!("the upgrade of attach is over: {outcome}"));
        node.count(
            match (old_serves, new_serves) {
                (true, _) => "attach upgrades after which the old process serves",
                (_, true) => "attach upgrades after which the new process serves",
                _ => "attach upgrades after which neither process serves",
            },
            1,
        );
        if self.plan.is_of_upgrades_alone() && trouble == Trouble::None && !new_serves {
            return simulation::fail("an upgrade of attach fails for no reason");
        }
        if new_serves && trouble.is_foreign() {
            return simulation::fail("a hand-over of a disk was taken that is not one of this version");
        }
        if new_serves {
            node.process.set(new);
            node.life.set(new_life);
        }
        upgrade.bury();
        if old_serves || new_serves {
            return;
        }
        // A block device that was left waits for a recovery, where the new process does not serve it.
        let is_left = node.plan.front_end == FrontEnd::Ublk
            && matches!(upgrade.old_state(), State::Ends { .. } | State::HasGone);
        if upgrade.was_left_alone() && !is_left {
            return simulation::fail("neither process of an upgrade of attach serves");
        }
        sleep(time);
        self.start_attach();
    }
}
