//! `selvedge tune`: sees how the packets of NVMe/TCP queues reach their workers. Which machine is looked at is the same
//! question for all of its actions, and answered here.

mod advise;
mod apply;
mod connected;
mod plan;
mod revert;
mod show;

pub use self::apply::Applied;
pub use self::connected::{Tuned, check, tune};
pub use self::revert::Reverted;
use topology::{Machine, Topology, observe};

use crate::failure::Failure;
use crate::flags::tune::{MachineFlags, TuneAction, TuneFlags};
use crate::packet_path::narrowed;
use crate::report::folder::replace;
use crate::tune::targets;

/// Does what was typed.
pub fn run(flags: &TuneFlags) -> Result<(), Failure> {
    match &flags.action {
        TuneAction::Show(flags) => show::run(flags),
        TuneAction::Plan(flags) => plan::run(flags),
        TuneAction::Apply(flags) => apply::run(flags),
        TuneAction::Advise(flags) => advise::run(flags),
        TuneAction::Revert(flags) => revert::run(flags),
    }
}

/// Looks at the machine that was asked for, and keeps what concerns its interfaces that were asked for.
fn see(flags: &MachineFlags) -> Result<Topology, Failure> {
    look(flags).map(|(_, topology)| topology)
}

/// Reads the topology, and returns the machine as well.
fn look(flags: &MachineFlags) -> Result<(Machine, Topology), Failure> {
    let machine = match &flags.sysroot {
        Some(path) => Machine::open(path).map_err(|error| Failure::usage(format!("--sysroot {error}")))?,
        None => Machine::live(),
    };
    let machine = if flags.record.is_some() { machine.record() } else { machine };
    let seen = observe(&machine);
    // A machine that cannot be understood is worth keeping most of all.
    if let (Some(file), Some(recording)) = (&flags.record, machine.recording()) {
        replace(file, recording.to_string().as_bytes())
            .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", file.display())))?;
    }
    let mut seen = seen.map_err(Failure::failed)?;
    if machine.is_live() {
        targets::name_queues(&mut seen);
    }
    Ok((machine, narrowed(seen, &flags.interface)?))
}
