//! Holders of ends and listeners: processes that share a socket have it until the last of them has
//! closed it, and each is notified of what comes.

use std::os::fd::RawFd;

use super::{LISTENERS_AT, Network, descriptor_of, end_of};
use crate::ring::simulated::scheduler::{ProcessId, World};

/// Processes that have something open, once for each time. It is closed with the last of them.
pub(super) type Holders = Vec<Option<ProcessId>>;

/// Takes one of a process' holds away: whether it was the last of all; `None` when it has none.
pub(super) fn release(holders: &mut Holders, holder: Option<ProcessId>) -> Option<bool> {
    let at = holders.iter().position(|one| *one == holder)?;
    holders.swap_remove(at);
    Some(holders.is_empty())
}

impl Network {
    /// Holders and watchers of an end of a connection, or of a listener.
    pub(super) fn opened(&mut self, descriptor: RawFd) -> (&mut Holders, &mut Vec<(usize, u32)>) {
        if descriptor >= LISTENERS_AT {
            let listener = &mut self.listeners[(descriptor - LISTENERS_AT) as usize];
            return (&mut listener.holders, &mut listener.watchers);
        }
        let (number, end) = end_of(descriptor);
        let of = &mut self.connections[number].ends[end];
        (&mut of.holders, &mut of.watchers)
    }
}

impl World {
    /// Closes what a process had open, as the system does.
    pub(in crate::ring::simulated) fn close_process(&mut self, process: ProcessId) {
        for number in 0..self.network.listeners.len() {
            while self.network.listeners[number].holders.contains(&Some(process)) {
                self.close_listener(LISTENERS_AT + number as RawFd, Some(process));
            }
        }
        for number in 0..self.network.connections.len() {
            for end in 0..2 {
                while self.network.connections[number].ends[end].holders.contains(&Some(process)) {
                    self.close_end(descriptor_of(number, end), Some(process));
                }
            }
        }
    }

    /// Ends a process's watches of what it has closed altogether.
    pub(super) fn forget_watchers(&mut self, descriptor: RawFd, holder: Option<ProcessId>) {
        let (holders, watchers) = self.network.opened(descriptor);
        if holders.contains(&holder) {
            return;
        }
        let mut watchers = std::mem::take(watchers);
        watchers.retain(|(ring, _)| Some(self.rings[*ring].process) != holder);
        *self.network.opened(descriptor).1 = watchers;
    }

    /// Adds a holder; `None` for what goes from one process to another.
    pub(in crate::ring::simulated) fn hold(&mut self, descriptor: RawFd, holder: Option<ProcessId>) {
        self.network.opened(descriptor).0.push(holder);
    }
}
