//! What has to be so in a made-up world of gateways: after each event, and when nothing more happens. It changes nothing
//! of it.

use std::collections::BTreeSet;

use super::World;
use crate::state::{LoadBalancingGroup, Owner};

impl World {
    /// What is not as it has to be after a while without faults.
    pub(crate) fn unrest(&self) -> Option<String> {
        for (number, group) in &self.store.groups {
            let Some(owner) = &group.owner else { return Some(format!("{number} has no owner")) };
            if !self.is_place(group, &owner.gateway) || !group.fence.is_empty() {
                return Some(format!("{number} is not where it should be: {group:?}"));
            }
            let serving = self.processes.values().filter(|process| process.open.contains(number));
            let serving: Vec<&Owner> = serving.map(|process| &process.me).collect();
            if serving != [owner] {
                return Some(format!("{number} is {owner:?}'s and served by {serving:?}"));
            }
        }
        for namespace in &self.store.config.subsystems[0].namespaces {
            let owner = self.store.groups.get(&namespace.ana_group).and_then(|group| group.owner.as_ref());
            let serving = self.processes.values().filter(|process| process.served.contains(&namespace.nsid));
            let serving: Vec<&Owner> = serving.map(|process| &process.me).collect();
            if owner.is_none_or(|owner| serving != [owner]) {
                return Some(format!("{namespace:?} is {owner:?}'s and served by {serving:?}"));
            }
        }
        // One that was about to come when it was taken out, and ended then, may be there again.
        let is_known = |name: &String| self.store.gateways.contains_key(name);
        let homes: BTreeSet<&String> = self.store.groups.values().map(|group| &group.preferred).collect();
        let is_complete = self.names.iter().all(|name| homes.contains(name));
        let is_right =
            is_complete && homes.len() == self.store.groups.len() && homes.into_iter().all(is_known);
        (!is_right).then(|| format!("not one group for each gateway: {:?}", self.store))
    }

    /// Whether a group belongs to this gateway, by where hosts are.
    fn is_place(&self, group: &LoadBalancingGroup, owner: &str) -> bool {
        let reached: Vec<&String> = self.names.iter().filter(|name| self.reached.contains(*name)).collect();
        let is_home = |name: &String| *name == group.preferred;
        match self.names.iter().any(is_home)
            && (reached.is_empty() || reached.iter().any(|name| is_home(name)))
        {
            true => owner == group.preferred,
            false => reached.is_empty() || self.reached.contains(owner),
        }
    }

    /// Looks whether two gateways could write to one namespace, or one of which hosts were told that it cannot.
    pub(super) fn check(&mut self) {
        let can_write = |connection: &String| !self.blocklist.contains(connection);
        let processes = self.processes.values().filter(|process| !process.images.is_empty());
        let living = processes.filter_map(|process| process.connection.as_ref().map(|at| (&process.me, at)));
        let ghosts = self.ghosts.iter().filter(|ghost| !ghost.images.is_empty());
        let mut all = living.chain(ghosts.map(|ghost| (&ghost.who, &ghost.connection)));
        if let Some((who, _)) = all.find(|(who, at)| can_write(at) && self.rested.contains(who)) {
            let now_ms = self.now_ms;
            self.wrong =
                Some(format!("at {now_ms} ms {who:?} writes, of which hosts were told that it is at rest"));
            return;
        }
        for namespace in &self.store.config.subsystems[0].namespaces {
            let nsid = &namespace.nsid;
            let can_write = |connection: &String| !self.blocklist.contains(connection);
            let mut writers = Vec::new();
            for process in self.processes.values().filter(|process| process.images.contains(nsid)) {
                if process.connection.as_ref().is_some_and(can_write) {
                    writers.push(&process.me);
                }
            }
            for ghost in self.ghosts.iter().filter(|ghost| ghost.images.contains(nsid)) {
                if can_write(&ghost.connection) {
                    writers.push(&ghost.who);
                }
            }
            if writers.len() > 1 {
                let now_ms = self.now_ms;
                self.wrong = Some(format!("at {now_ms} ms namespace {nsid} can be written by {writers:?}"));
                return;
            }
        }
    }
}
