//! From a machine to its topology: everything is read here, and nothing is changed. What could not be read is
//! reported; invalid content ends the observation, and is never replaced by a guess.

mod distance;
mod flows;
mod interfaces;
mod interrupts;
mod kernel;
mod kernel_controllers;
mod own;
mod pairing;
mod processors;
mod programs;
mod queue_info;
mod reader;
mod targets;

use std::io;

pub use distance::Distances;
pub use own::observe_own;
pub use programs::{Waited, waited_times};

use super::machine::Machine;
use super::{Shortfall, Topology};
use reader::Reader;

/// Why a machine cannot be seen at all.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A file holds something else than it should.
    #[error("{file}: `{found}` is not {expected}")]
    Nonsense {
        /// The file.
        file: String,
        /// Content, shortened.
        found: String,
        /// Expected content.
        expected: String,
    },
    /// A file without which nothing can be said is not there.
    #[error("{file} is missing: it should hold {expected}")]
    Missing {
        /// The file.
        file: String,
        /// Expected content.
        expected: String,
    },
    /// A file with answers of the kernel is none.
    #[error("{0}")]
    Answer(#[from] io::Error),
}

/// Looks at a machine.
///
/// Parts that need root are left out and listed in the topology's shortfalls, and so are those
/// beyond the limits.
///
/// # Errors
/// When a file holds what it cannot hold, or the machine has no processors: the file is named.
pub fn observe(machine: &Machine) -> Result<Topology, ObserveError> {
    let mut reader = Reader::new(machine);
    let kernel = reader.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = processors::read(&mut reader)?;
    let irqbalance = irqbalance(machine);
    let interfaces = interfaces::read(&mut reader)?;
    let flows = flows::read(&mut reader, &interfaces)?;
    let kernel_controllers = kernel_controllers::read(&mut reader)?;
    let shortfalls: Vec<Shortfall> = reader.finish();
    Ok(Topology { kernel, processors, interfaces, flows, kernel_controllers, irqbalance, shortfalls })
}

/// The process of a running `irqbalance`.
fn irqbalance(machine: &Machine) -> Option<u32> {
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let names = machine.list_where("proc", is_process);
    let mut processes: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    processes.sort_unstable();
    let is_balancer = |pid: &u32| {
        machine.read(&format!("proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "irqbalance")
    };
    processes.into_iter().find(is_balancer)
}

#[cfg(test)]
mod tests;
