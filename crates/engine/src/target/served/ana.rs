//! Asymmetric namespace access: the state of each group on each port, and when it changed last, for the log page.
//! Who changes a state is not its concern.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::namespace_table::AnaCell;
use crate::target::config::SubsystemConfig;

/// All groups of a subsystem that are known by now, on all ports that hosts came by.
#[derive(Debug, Default)]
pub(crate) struct AnaGroups {
    cells: HashMap<(u32, u16), Arc<AnaCell>>,
    /// Number of changes of the log page (CHGCNT). `changed_at` has the count of each group's last
    /// change.
    changes: u64,
    changed_at: BTreeMap<u32, u64>,
}

impl AnaGroups {
    /// The state of `group` on `port`, kept up to date from now on.
    pub(crate) fn cell(&mut self, group: u32, port: u16, config: &SubsystemConfig) -> Arc<AnaCell> {
        let make = || Arc::new(AnaCell::new(config.group_state(group, port)));
        self.cells.entry((group, port)).or_insert_with(make).clone()
    }

    /// Takes over the states of a new configuration. `groups` are those that change.
    ///
    /// A group that is in it no more, nor has a namespace, keeps its states: until queues have their new tables, they look there
    /// yet for namespaces that have left it, which this target may just have given away.
    pub(crate) fn update(&mut self, groups: &[u32], config: &SubsystemConfig) {
        let used = config.namespaces.iter().map(|namespace| namespace.ana_group);
        let known: BTreeSet<u32> = used.chain(config.ana_groups.iter().map(|group| group.id)).collect();
        for ((group, port), cell) in self.cells.iter().filter(|((group, _), _)| known.contains(group)) {
            cell.set(config.group_state(*group, *port));
        }
        self.note_change(groups);
    }

    /// Records that these groups' descriptors change, by a state or by their namespaces.
    pub(crate) fn note_change(&mut self, groups: &[u32]) {
        if groups.is_empty() {
            return;
        }
        self.changes += 1;
        for group in groups {
            self.changed_at.insert(*group, self.changes);
        }
    }

    /// Number of changes of the log page.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// At which count of the log page's changes `group` last changed.
    pub(crate) fn changed_at(&self, group: u32) -> u64 {
        self.changed_at.get(&group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use nvme::log_page::AnaState;

    use super::*;
    use crate::backend::BackendConfig;
    use crate::target::config::{AnaGroupConfig, GroupState, NamespaceConfig};

    #[test]
    fn a_group_that_all_namespaces_leave_stays_as_it_is_until_it_is_used_again() {
        let inaccessible =
            |id| AnaGroupConfig { id, state: GroupState::Inaccessible, ports: BTreeMap::new() };
        let namespace = NamespaceConfig::new(1, BackendConfig::Null { size: 4096 }, 4096);
        let mut config = SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(vec![namespace]);
        config.ana_groups = vec![inaccessible(1), inaccessible(2)];
        let mut groups = AnaGroups::default();
        let cell = groups.cell(1, 1, &config);
        config.namespaces[0].ana_group = 2;
        config.ana_groups.remove(0);
        groups.update(&[1, 2], &config);
        assert_eq!(cell.state(), AnaState::Inaccessible, "a queue may look here for the namespace yet");
        config.namespaces[0].ana_group = 1;
        groups.update(&[1, 2], &config);
        assert_eq!(cell.state(), AnaState::Optimized, "nothing is said of it, and it has a namespace");
    }
}
