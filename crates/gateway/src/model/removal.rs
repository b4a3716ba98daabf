//! Gateways of a made-up world that somebody takes out of their group, as it is done and as it must not be.

use super::{Flaw, World};
use crate::removal::NotRemoved;
use crate::state::{GroupState, Life, Phase};

/// How often an operator asks for it before giving up.
const TRIES: u32 = 40;

impl World {
    /// Somebody asks for a gateway's removal until it is done, or has come back. Who is started there then has another name, at
    /// times.
    pub(super) fn remove(&mut self, name: String) {
        self.ask_for_removal(name, TRIES);
    }

    fn ask_for_removal(&mut self, name: String, tries: u32) {
        let mut state = self.store.clone();
        let is_dead = |state: &GroupState| state.gateways.get(&name).is_some_and(|at| at.life != Life::Alive);
        let outcome = match self.flaw {
            Flaw::RemovalBeforeFence if is_dead(&state) => {
                dissolve(&mut state, &name);
                Ok(())
            }
            _ => state.remove(&name),
        };
        match outcome {
            Ok(()) => {
                if self.flaw == Flaw::DissolvedUnderOwner {
                    dissolve(&mut state, &name);
                }
                self.removals += 1;
                self.store = GroupState { version: self.store.version + 1, ..state };
                self.beats.remove(&name);
                let place = self.names.iter().position(|known| *known == name);
                if let Some(place) = place
                    && !self.processes.contains_key(&name)
                    && self.chance.below(3) > 0
                {
                    self.names[place] = format!("g{}", self.named);
                    self.reached.insert(self.names[place].clone());
                    self.named += 1;
                }
            }
            Err(NotRemoved::Unknown) => {}
            Err(_) if tries > 0 && !self.is_quiet => {
                let pause_ms = self.chance.below(400);
                self.after(pause_ms, move |world| world.ask_for_removal(name, tries - 1));
            }
            Err(_) => {}
        }
    }
}

/// Takes a gateway and its load-balancing group away, whatever is so.
fn dissolve(state: &mut GroupState, name: &str) {
    let numbers: Vec<u32> =
        state.groups.iter().filter(|(_, group)| group.preferred == name).map(|(number, _)| *number).collect();
    state.gateways.remove(name);
    for number in numbers {
        if let Some(group) = state.groups.get_mut(&number) {
            group.fence.clear();
            group.state = Phase::Serving;
        }
        state.dissolve(number);
    }
}
