//! Distances of a path's network interface from the processors, for the policy `numa`: looked up by
//! the path's monitor, and read by the threads that send.

use crate::initiator::ConnectOptions;

#[cfg(not(feature = "simulation"))]
pub(super) use topology::Distances;

/// The distances of the interface that a path's packets leave by.
#[cfg(not(feature = "simulation"))]
pub(super) fn distances(options: &ConnectOptions) -> Distances {
    let machine = topology::Machine::live();
    match &options.host_iface {
        Some(interface) => Distances::to_interface(&machine, interface),
        None => Distances::to_address(&machine, options.address.ip(), options.host_traddr),
    }
}

/// The processor that this thread is on just now.
#[cfg(not(feature = "simulation"))]
pub(super) fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// The simulated machine has one node.
#[cfg(feature = "simulation")]
#[derive(Clone, Debug, Default)]
pub(super) struct Distances;

#[cfg(feature = "simulation")]
impl Distances {
    pub(super) const fn from_cpu(&self, _: usize) -> u32 {
        0
    }
}

#[cfg(feature = "simulation")]
pub(super) const fn distances(_: &ConnectOptions) -> Distances {
    Distances
}

#[cfg(feature = "simulation")]
pub(super) const fn current_cpu() -> usize {
    0
}
