//! Asymmetric namespace access: the state of each group on each port, as the data path and the log page see it.
//! Who changes a state is not its concern.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nvme::Status;
use nvme::log_page::AnaState;

use super::config::{GroupState, SubsystemConfig};

/// The state of one group on one port. The data path reads it with one relaxed load.
#[derive(Debug)]
pub(super) struct AnaCell(AtomicU8);

impl AnaCell {
    fn new(state: GroupState) -> Self {
        Self(AtomicU8::new(AnaState::from(state) as u8))
    }

    fn set(&self, state: GroupState) {
        self.0.store(AnaState::from(state) as u8, Ordering::Relaxed);
    }

    /// What a command is refused with, or `None` when it is taken.
    pub(super) fn refusal(&self) -> Option<Status> {
        match self.state() {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Some(Status::ANA_PERSISTENT_LOSS),
            AnaState::Change => Some(Status::ANA_TRANSITION),
        }
    }

    pub(super) fn state(&self) -> AnaState {
        AnaState::from_wire(self.0.load(Ordering::Relaxed)).unwrap_or(AnaState::Change)
    }
}

/// All groups of a subsystem that are known by now, on all ports that hosts came by.
#[derive(Debug, Default)]
pub(super) struct AnaGroups {
    cells: HashMap<(u32, u16), Arc<AnaCell>>,
    /// How often the log page has changed (CHGCNT), and at which count each group last did.
    changes: u64,
    changed_at: BTreeMap<u32, u64>,
}

impl AnaGroups {
    /// The state of `group` on `port`, kept up to date from now on.
    pub(super) fn cell(&mut self, group: u32, port: u16, config: &SubsystemConfig) -> Arc<AnaCell> {
        let make = || Arc::new(AnaCell::new(config.group_state(group, port)));
        self.cells.entry((group, port)).or_insert_with(make).clone()
    }

    /// Takes over the states of a new configuration. `groups` are those that change.
    pub(super) fn update(&mut self, groups: &[u32], config: &SubsystemConfig) {
        for ((group, port), cell) in &self.cells {
            cell.set(config.group_state(*group, *port));
        }
        self.note_change(groups);
    }

    /// Takes note that these groups' descriptors change, by a state or by their namespaces.
    pub(super) fn note_change(&mut self, groups: &[u32]) {
        if groups.is_empty() {
            return;
        }
        self.changes += 1;
        for group in groups {
            self.changed_at.insert(*group, self.changes);
        }
    }

    /// How often the log page has changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// At which count of the log page's changes `group` last changed.
    pub(super) fn changed_at(&self, group: u32) -> u64 {
        self.changed_at.get(&group).copied().unwrap_or(0)
    }
}
