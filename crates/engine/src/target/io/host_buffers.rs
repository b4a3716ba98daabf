//! Bytes of buffers that each host holds by its queues of one reactor. Every queue has a limit of its own, but the queues that a
//! host may have would together take a machine's memory.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::target::controller::Guest;

/// Bytes that all queues of a host hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostBytes(Rc<Cell<usize>>);

impl HostBytes {
    pub(super) fn get(&self) -> usize {
        self.0.get()
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.0.set(self.0.get() - bytes);
    }
}

/// The hosts with queues on one reactor, each by its name, and true if it has proved that.
#[derive(Debug, Default)]
pub(crate) struct HostBuffers(HashMap<(String, bool), HostBytes>);

impl HostBuffers {
    /// Bytes of this host.
    pub(super) fn of(&mut self, guest: &Guest) -> HostBytes {
        self.0.retain(|_, bytes| Rc::strong_count(&bytes.0) > 1);
        self.0.entry((guest.nqn.clone(), guest.is_proved)).or_default().clone()
    }
}
