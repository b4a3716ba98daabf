//! A gateway of a made-up world goes on in another process, and either of the two may die on the way.

use std::collections::BTreeSet;

use super::{Flaw, Ghost, World};
use crate::lease::LeaseWatch;
use crate::state::GroupState;

/// How often a process looks whether what it has begun is done.
const TRIES: u32 = 200;

impl World {
    /// Another process of a gateway connects, which is written down.
    pub(super) fn upgrade(&mut self, name: &str) {
        let process = &self.processes[name];
        if process.connection.is_none() || process.is_leaving || process.has_late {
            return;
        }
        let (me, of) = (process.me.clone(), process.me.clone());
        self.sequence += 1;
        let next = format!("{name}/{}", self.sequence);
        let address = next.clone();
        let act = move |world: &mut Self| {
            let mut state = world.store.clone();
            let is_added = world.flaw == Flaw::UnnotedSuccessor || state.add_address(&of, &address);
            if is_added {
                world.store = GroupState { version: world.store.version + 1, ..state };
            }
            is_added
        };
        self.ask(me, act, |world, name, outcome| {
            if outcome == Some(true) {
                world.let_go(name, next, TRIES);
            }
        });
    }

    /// The former process comes to rest, once nothing that it has decided is under way, and gives its images back.
    fn let_go(&mut self, name: &str, next: String, tries: u32) {
        let process = self.processes.get_mut(name).expect("it lets go");
        let me = process.me.clone();
        if process.is_leaving || process.has_late || tries == 0 {
            return;
        }
        if process.is_busy {
            return self.on(me, 20, move |world, name| world.let_go(name, next, tries - 1));
        }
        process.is_busy = true;
        let (work_ms, late_ms) = (self.chance.delay_ms(), self.chance.delay_ms());
        self.on(me.clone(), work_ms, move |world, name| {
            let process = world.processes.get_mut(name).expect("it lets go");
            let images = std::mem::take(&mut process.images);
            let connection = process.connection.clone();
            if let Some(connection) = connection.filter(|_| world.flaw == Flaw::LockedAtGo) {
                world.ghosts.push(Ghost { who: me.clone(), images: images.clone(), connection });
                world.after(late_ms, |world| drop(world.ghosts.pop()));
            }
            let take_ms = world.chance.delay_ms();
            world.on(me, take_ms, move |world, name| world.take(name, next, images));
        });
    }

    /// The next process takes the images, and goes on as the same gateway; unless one of both has died.
    fn take(&mut self, name: &str, next: String, images: BTreeSet<u32>) {
        let fate = if self.is_quiet { 9 } else { self.chance.below(10) };
        let process = self.processes.get_mut(name).expect("it takes");
        process.is_busy = false;
        if fate == 0 {
            // The next process is dead, and the former one goes on.
            process.images = images;
            return;
        }
        process.connection = Some(next);
        process.images = images;
        if fate < 3 {
            // The next process has died after `Go`, or the former one before: who is left begins anew.
            self.kill(name);
            return self.start(name);
        }
        process.watch = LeaseWatch::default();
        process.beaten_ms = None;
        self.upgrades += 1;
    }
}
